package settings

import "time"

// Values of the keys that take one of a few words.
const (
	SyncAlways   = "always"   // committed means fsynced (group commit)
	SyncInterval = "interval" // committed means written; fsynced every sync_interval
	SyncNever    = "never"    // committed means written; fsynced at rolls and for uploads only

	StoreDirectory = "directory"
	StoreS3        = "s3"

	EncryptDefault = ""        // as the bucket is set
	EncryptS3      = "AES256"  // with keys of the store
	EncryptKMS     = "aws:kms" // with a key of the key management service

	GapDeclare = "declare" // a gap stays in the history as a declared hole
	GapDiscard = "discard" // a gap drops what the store held before it

	SlotLostReload = "reload" // void the tables and load them anew
	SlotLostStop   = "stop"   // wait for the operator

	FormatJSON    = "json"
	FormatConsole = "console"
)

// Settings is everything a node is told from outside. Parse and Default make it;
// it is not changed afterwards, except that a reader of files fills in the secrets.
type Settings struct {
	Node      Node
	Log       Log
	Local     Local
	Retention Retention
	Store     Store
	Tiering   Tiering
	Admin     Admin
	Logging   Logging
	Captures  []Capture
	// Warnings are sentences about settings that work but should be changed.
	Warnings []string
}

// Node says who and where this node is.
type Node struct {
	Name    string // a pos.NodeID
	DataDir string // relative to the working directory unless absolute
}

// Log is how local logs are written.
type Log struct {
	Sync            string        // SyncAlways, SyncInterval or SyncNever
	SyncInterval    time.Duration // used with SyncInterval only
	SegmentMaxBytes int64         // a segment is closed once it is this large
}

// Local bounds the window of each stream on local disk, in bytes; 0 = no bound.
type Local struct {
	MaxBytes int64 // trims whether or not the store has it
	MinBytes int64 // what is kept although the store has it
}

// Retention bounds each stream over both tiers; 0 = no bound.
type Retention struct {
	MaxBytes int64
	MaxAge   time.Duration
}

// Store is the object store.
type Store struct {
	Kind          string        // StoreDirectory or StoreS3
	Path          string        // of the directory store
	Prefix        string        // of every key, without a slash at either end
	ProbeInterval time.Duration // between two looks at a store that is well
	S3            S3            // of the S3 store
}

// S3 is a bucket and the way to it.
type S3 struct {
	Bucket    string
	Region    string // "" only with an Endpoint
	Endpoint  string // URL; "" = AWS
	PathStyle bool   // the bucket is in the path, not in the host's name

	AccessKeyID   string // static keys; only with AllowStatic
	SecretKey     Secret // filled in from SecretKeyFile or SecretKeyEnv by the reader of files
	SecretKeyFile string
	SecretKeyEnv  string
	AllowStatic   bool
	Profile       string // of the shared files

	Encryption    string // EncryptDefault, EncryptS3 or EncryptKMS
	KMSKeyID      string
	ExpectedOwner string // account id
	StorageClass  string

	UploadConnections  int
	GeneralConnections int
}

// Tiering is the way from local logs to the object store.
type Tiering struct {
	Enabled           bool
	FragmentBytes     int64
	FragmentMaxAge    time.Duration
	OnGap             string // GapDeclare or GapDiscard
	PersistEdits      int
	PersistInterval   time.Duration
	MaxBytesPerSecond int64 // 0 = no limit
	RootGrace         time.Duration
	ReconcileInterval time.Duration
}

// Admin is the operator's HTTP surface.
type Admin struct {
	Listen    string // loopback host and port
	TokenFile string
}

// Logging is how the node logs, to standard error.
type Logging struct {
	Level  string
	Format string // FormatJSON or FormatConsole
}

// Capture is one PostgreSQL database and publication captured into one stream.
type Capture struct {
	Name        string
	Stream      string
	URL         Secret // filled in from URLFile or URLEnv by the reader of files
	URLFile     string
	URLEnv      string
	Slot        string
	Publication string
	OnSlotLost  string // SlotLostReload or SlotLostStop
	MaxValue    int64  // bytes; a longer column is omitted from the record, with its size
}

// Secret is text that never prints: String, GoString and MarshalText hide it.
type Secret string

const hidden = "[secret]"

// Reveal returns the text itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// String hides the text; an empty secret prints empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text from JSON and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
