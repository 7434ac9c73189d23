package pgout

import (
	"fmt"
	"strings"
)

// maxNamed bounds the tables that one text names.
const maxNamed = 10

// unreadable tells which of tables the role can't load, and what to run; "" for none.
func unreadable(role string, tables []Table) (why, hint string) {
	var names, run []string
	said := map[string]bool{}
	add := func(grant string) {
		if !said[grant] {
			said[grant] = true
			run = append(run, grant)
		}
	}
	more := 0
	for i := range tables {
		t := &tables[i]
		if t.Readable() {
			continue
		}
		if len(names) == maxNamed {
			more++
			continue
		}
		names = append(names, t.FullName())
		if t.NoUsage {
			add(fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", quoteIdent(t.Schema), quoteIdent(role)))
		}
		if t.NoSelect {
			add(fmt.Sprintf("GRANT SELECT ON %s.%s TO %s", quoteIdent(t.Schema), quoteIdent(t.Name), quoteIdent(role)))
		}
		if t.RowSecurity {
			add(fmt.Sprintf("ALTER ROLE %s BYPASSRLS", quoteIdent(role)))
		}
	}
	if len(names) == 0 {
		return "", ""
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("role %q can't read all rows of published tables: %s", role, strings.Join(names, ", ")),
		"run " + strings.Join(run, "; ")
}
