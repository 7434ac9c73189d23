package pgout

import (
	"fmt"

	"millrace/core/pos"
)

// Server is what an inspection of the PostgreSQL server found.
type Server struct {
	SystemID    string
	Timeline    int
	Version     int // server_version_num, for example 150018
	Flush       pos.LSN
	WALLevel    string
	Database    string
	Role        string
	Replication bool // the role may replicate
	Slot        *Slot
	Publication *Publication // nil: there is none of that name
}

// Slot is the capture's replication slot as the server sees it.
type Slot struct {
	Name      string
	Plugin    string
	Database  string
	ActivePID int    // the backend that holds it, 0 for none
	WALStatus string // reserved, extended, unreserved, lost
	Restart   pos.LSN
	Confirmed pos.LSN
}

// Held is what the server said of itself and of the slot once replication had begun: from then on
// nobody else can move the slot, or make it anew.
type Held struct {
	SystemID  string
	Timeline  int
	Flush     pos.LSN // before it began
	Confirmed pos.LSN // the slot's
}

// Lost reports whether the server removed WAL the slot needs: it can't be read any more.
func (s *Slot) Lost() bool { return s.WALStatus == "lost" }

// Publication is the capture's publication and its tables: leaf partitions under
// their own names.
type Publication struct {
	Name    string
	ViaRoot bool     // publish_via_partition_root
	Missing []string // of insert, update, delete, truncate, what is not published
	Tables  []Table
}

// Table is one published table as the catalog has it.
type Table struct {
	Relation        // generated and unpublished columns are left out
	Member   uint32 // OID of what made it part of the publication: another one when it left and came back
	Filter   string // the publication's row filter, SQL; "" for none
	Rows     int64  // estimate, -1 when never analyzed
	// Keyless: no usable replica identity, so PostgreSQL refuses the application's own
	// updates and deletes while the publication publishes them.
	Keyless bool
	// What keeps the role from loading the table.
	NoSelect    bool // it may not SELECT every published column
	NoUsage     bool // it may not use the schema
	RowSecurity bool // a policy would hide rows from it
}

// Readable reports whether the role can load the table.
func (t *Table) Readable() bool { return !t.NoSelect && !t.NoUsage && !t.RowSecurity }

// TableRow says that a table was loaded: its key is durable proof that rows of this
// very membership of this very table under this very name are in the stream.
type TableRow struct {
	Key        string
	Consistent pos.LSN // its streamed events whose commit begins below this are in the load
	Base       pos.LSN // Row.Consistent of the load of the whole capture it belongs to
	SystemID   string
	Timeline   int
}

// TableKey names the row of table t in capture name.
func TableKey(name string, t *Table) string {
	return fmt.Sprintf("%s/%s/%d.%d", name, t.FullName(), t.OID, t.Member)
}

// of reports whether the row belongs to the load that row describes.
func (t *TableRow) of(row *Row) bool {
	return t.Base == row.Consistent && t.SystemID == row.SystemID && t.Timeline == row.Timeline
}
