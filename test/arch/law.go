package arch

// Module is the import path of this repository.
const Module = "millrace"

// row says what the files of a folder may import of ours.
type row struct{ folder, may string }

// law is the import law. The first matching row decides; a folder under no row
// may import nothing, so a new folder is a decision that somebody sees here. In a
// pattern "x/..." is x and all below it, and "x/*" are the folders directly in x.
// Imports go one way: cmd -> actors/node -> actors/<role> -> supervision,
// registry, hooks -> actors, actors/port -> core. No role imports another role.
var law = []row{
	{"core/...", "core/..."},
	{"actors", "core/pos"},
	{"actors/port", "core/..."},
	{"supervision/decide", ""},
	{"supervision", "supervision/decide actors core/pos"},
	{"registry", "actors core/pos"},
	{"hooks", "core/... actors actors/port registry"},
	{"actors/node", "core/... supervision registry hooks actors/..."},
	{"actors/*", "core/... supervision registry hooks actors actors/port"},
	// HTTP calls the admin's mailbox and speaks its messages; it knows no port.
	{"cmd/internal/httpadmin", "core/... actors actors/admin supervision cmd/internal/console"},
	{"cmd/internal/console", "core/... actors/admin supervision"},
	{"cmd/internal/metadb", "core/... actors/port cmd/internal/boltfile"},
	{"cmd/internal/nodestate", "core/... actors/port cmd/internal/boltfile"},
	{"cmd/internal/*", "core/... actors/port"},
	{"cmd/*", "core/... supervision registry hooks actors/... cmd/internal/..."},
	{"test/arch", ""},
	{"test/tally", ""},
	{"test/pgserver", ""},
	{"test/s3server", ""},
	{"test/faultproxy", ""},
	{"test/shop", ""},
	{"test/fold", "core/pos"},
	{"test/demo", "core/pos test/fold test/shop test/pgserver test/s3server test/faultproxy"},
	{"test/fake/*", "core/... hooks actors actors/port test/fake/..."},
	{"test/porttest/*", "core/... actors/port test/porttest/... test/pgserver test/fold"},
	{"test/...", "core/... supervision/... registry hooks actors/... test/..."},
}

// inTests is what the _test.go files of a folder may import besides its row: the
// fakes and contract suites exist for that, throw-away servers, and a proxy with faults.
// Every row that matches counts.
var inTests = []row{
	{"core/... supervision/... registry hooks actors/... cmd/... test/...", "test/fake/... test/porttest/... test/pgserver test/s3server test/faultproxy"},
	{"supervision", "registry test/otp"},
}

// thirdParty says which folders may import a module that is not ours, also from
// their tests. A module that go.mod requires directly has a row and the other way
// round, so that a new dependency is seen here too.
var thirdParty = []row{
	{"github.com/asynkron/protoactor-go", "actors"},
	{"github.com/rs/zerolog", "actors/... cmd/... test/sim/... test/e2e/..."},
	{"github.com/jackc/pglogrepl", "cmd/internal/pgrepl test/demo"},
	{"github.com/jackc/pgx/v5", "cmd/internal/pgrepl test/pgserver test/shop test/demo test/e2e test/porttest/pgtest"},
	{"github.com/aws/aws-sdk-go-v2/config", "cmd/internal/s3store"},
	{"github.com/aws/aws-sdk-go-v2/credentials", "cmd/internal/s3store"},
	{"github.com/aws/aws-sdk-go-v2/feature/ec2/imds", "cmd/internal/s3store"},
	{"github.com/aws/aws-sdk-go-v2/service/s3", "cmd/internal/s3store"},
	{"github.com/aws/aws-sdk-go-v2", "cmd/internal/s3store"},
	{"github.com/aws/smithy-go", "cmd/internal/s3store"},
	{"go.etcd.io/bbolt", "cmd/internal/boltfile cmd/internal/metadb cmd/internal/nodestate"},
	{"github.com/pelletier/go-toml/v2", "cmd/internal/configfile"},
	{"github.com/spf13/cobra", "cmd/millrace"},
	{"github.com/prometheus/client_golang", "cmd/internal/promhook"},
	{"golang.org/x/sys", "cmd/..."},
	{"pgregory.net/rapid", "test/..."},
	{"github.com/thejerf/suture/v4", ""},
}

// inTheirTests says which folders may import a module from their _test.go files only:
// suture, and a loop of the SDK's own PUTs, are there to be compared with.
var inTheirTests = []row{
	{"github.com/thejerf/suture/v4", "supervision"},
	{"github.com/aws/aws-sdk-go-v2", "cmd/millrace"},
	{"github.com/aws/aws-sdk-go-v2/credentials", "cmd/millrace"},
	{"github.com/aws/aws-sdk-go-v2/service/s3", "cmd/millrace"},
}

// anywhereInTests are the modules that every _test.go file may import.
const anywhereInTests = "pgregory.net/rapid"

// Pure folders hold decisions only: no clock, disk, network, goroutine, lock,
// channel or context. Their tests may be anything.
const (
	pure = "core/... supervision/decide"
	// pureStd is all they may import of the standard library; time for its types.
	pureStd = "bytes cmp encoding/base64 encoding/binary encoding/hex encoding/json errors fmt hash/... iter maps " +
		"math math/bits slices sort strconv strings time unicode/..."
	// clock names what of package time reads the clock or waits for it.
	clock = "Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker"
)

const (
	// supervised folders start no goroutine of their own: Context.Task recovers
	// and accounts for each. Only the root package of actors has the means.
	supervised = "actors/* supervision/... registry hooks"
	// testOnly are the packages of the standard library that only test/ and
	// _test.go files may import.
	testOnly = "testing/..."
	// maySleep are the folders of test/ that may call time.Sleep: fakes and the
	// simulation sleep on a bubble's virtual time, end to end on a real one.
	maySleep = "test/fake/... test/sim/... test/e2e/..."
)
