package settings

import (
	"slices"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40

	day = int64(24 * time.Hour)
)

// Section is one TOML table of the configuration.
type Section struct {
	Name string
	Doc  string
}

// Sections returns the sections in the order of the documentation.
func Sections() []Section {
	return []Section{
		{"node", "Who this node is and where it keeps its files."},
		{"log", "How streams are written to local disk."},
		{"local", "The window of each stream that stays on local disk."},
		{"retention", "How much of each stream is kept at all. The bounds hold for local disk and for the object store, each by itself. What leaves them is deleted, on local disk also where it was not uploaded."},
		{"store", "The object store that holds the whole of each stream."},
		{"tiering", "How streams get into the object store."},
		{"admin", "The operator's HTTP surface, which the command line talks to."},
		{"logging", "What the node logs. It logs to standard error."},
		{SectionCapture, "One PostgreSQL database and publication captured into one stream. May stand any number of times."},
	}
}

// Fields returns the table: every key there is, in the order of the documentation.
func Fields() []Field {
	return slices.Concat(nodeFields, logFields, storeFields, s3Fields, tieringFields, surfaceFields, captureFields)
}

var nodeFields = []Field{
	{
		Section: "node", Name: "name", Kind: Text, Min: 1, Max: 255, Default: "millrace", check: checkNodeID,
		Doc:  "Name of this node: letters, digits, `_`, `-` and `=`. It stands in stored rows; do not change it once the node has run.",
		node: func(s *Settings) slot { return slot{text: &s.Node.Name} },
	},
	{
		Section: "node", Name: "data_dir", Kind: Text, Min: 1, Max: 4096, Default: "millrace-data",
		Doc:  "Folder of everything the node keeps on local disk. Created if it is missing, locked while the node runs. A relative path is taken from the working directory.",
		node: func(s *Settings) slot { return slot{text: &s.Node.DataDir} },
	},
}

var logFields = []Field{
	{
		Section: "log", Name: "sync", Kind: Choice, Choices: []string{SyncAlways, SyncInterval, SyncNever}, Default: SyncAlways,
		Doc: "When a record counts as committed. `always`: once it is fsynced (many records share one fsync). `interval` and `never`: " +
			"once it is written; a power cut may lose what readers have already seen. In every mode the object store and PostgreSQL's slot are told of fsynced records only.",
		node: func(s *Settings) slot { return slot{text: &s.Log.Sync} },
	},
	{
		Section: "log", Name: "sync_interval", Kind: Span, Min: int64(time.Millisecond), Max: int64(time.Minute), Default: "200ms",
		Doc:  "How often a log is fsynced under `sync = \"interval\"`. Without effect in the other modes.",
		node: func(s *Settings) slot { return slot{span: &s.Log.SyncInterval} },
	},
	{
		Section: "log", Name: "segment_max_bytes", Kind: Size, Min: 4 * kib, Max: 2 * gib, Default: "256MiB",
		Doc:  "A segment file is closed once it is this large. Only closed segments are trimmed.",
		node: func(s *Settings) slot { return slot{size: &s.Log.SegmentMaxBytes} },
	},
	{
		Section: "local", Name: "max_bytes", Kind: Size, Min: 4 * kib, Max: 1024 * tib, ZeroOff: true, Default: "0",
		Doc: "Most bytes of one stream on local disk; 0 = no bound. It trims segments that were not uploaded as well, so that a dead object store cannot fill the disk: " +
			"such records are lost and show as a declared gap.",
		node: func(s *Settings) slot { return slot{size: &s.Local.MaxBytes} },
	},
	{
		Section: "local", Name: "min_bytes", Kind: Size, Min: 0, Max: 1024 * tib, Default: "1GiB",
		Doc:  "Newest bytes of one stream that stay on local disk although the object store has them. What is uploaded and older is trimmed. Not more than `max_bytes`, which also is the default if that is less.",
		node: func(s *Settings) slot { return slot{size: &s.Local.MinBytes} },
	},
	{
		Section: "retention", Name: "max_bytes", Kind: Size, Min: 4 * kib, Max: 1024 * tib, ZeroOff: true, Default: "0",
		Doc:  "Most bytes of one stream in either tier; 0 = no bound. The oldest segments and objects go first, whole ones only.",
		node: func(s *Settings) slot { return slot{size: &s.Retention.MaxBytes} },
	},
	{
		Section: "retention", Name: "max_age", Kind: Span, Min: int64(time.Second), Max: 36500 * day, ZeroOff: true, Default: "0s",
		Doc:  "Segments and objects whose last record is older than this are deleted, also when nothing new arrives; 0s = no bound.",
		node: func(s *Settings) slot { return slot{span: &s.Retention.MaxAge} },
	},
}

var storeFields = []Field{
	{
		Section: "store", Name: "kind", Kind: Choice, Choices: []string{StoreDirectory, StoreS3}, Default: StoreDirectory,
		Doc:  "`directory`: a folder, on this disk or on a mounted one. `s3`: a bucket of S3, or of a server that speaks its protocol.",
		node: func(s *Settings) slot { return slot{text: &s.Store.Kind} },
	},
	{
		Section: "store", Name: "path", Kind: Text, Min: 1, Max: 4096, Default: "<data_dir>/store", Of: StoreDirectory,
		Doc:  "Folder of the directory store. Put it on another disk than `node.data_dir` to survive the loss of one.",
		node: func(s *Settings) slot { return slot{text: &s.Store.Path} },
	},
	{
		Section: "store", Name: "prefix", Kind: Text, Min: 1, Max: 200, Default: "millrace", check: checkPrefix,
		Doc:  "First part of every object's key: letters, digits, `_`, `-`, `.` and inner slashes. A prefix belongs to one cluster; a node of another refuses to start on it.",
		node: func(s *Settings) slot { return slot{text: &s.Store.Prefix} },
	},
	{
		Section: "store", Name: "probe_interval", Kind: Span, Min: int64(10 * time.Second), Max: day, Default: "5m",
		Doc:  "How often the node looks whether the store can be used and the prefix is its own, while all is well. While it is not, or not known, it looks every 5 s.",
		node: func(s *Settings) slot { return slot{span: &s.Store.ProbeInterval} },
	},
}

var tieringFields = []Field{
	{
		Section: "tiering", Name: "enabled", Kind: Flag, Default: "true",
		Doc:  "Whether streams are uploaded. While it is off nothing is deleted from the store, and only what is on local disk can be read.",
		node: func(s *Settings) slot { return slot{flag: &s.Tiering.Enabled} },
	},
	{
		Section: "tiering", Name: "fragment_bytes", Kind: Size, Min: 4 * kib, Max: gib, Default: "64MiB",
		Doc:  "An object is cut once it holds this much.",
		node: func(s *Settings) slot { return slot{size: &s.Tiering.FragmentBytes} },
	},
	{
		Section: "tiering", Name: "fragment_max_age", Kind: Span, Min: int64(100 * time.Millisecond), Max: day, Default: "5m",
		Doc:  "An object is cut once its first record is this old, however small it is: how far the store may lag behind a slow stream.",
		node: func(s *Settings) slot { return slot{span: &s.Tiering.FragmentMaxAge} },
	},
	{
		Section: "tiering", Name: "on_gap", Kind: Choice, Choices: []string{GapDeclare, GapDiscard}, Default: GapDeclare,
		Doc: "What to do when `local.max_bytes` trimmed records before they were uploaded. `declare`: the store keeps what it has, and the hole is shown as a gap. " +
			"`discard`: what the store holds before the hole is dropped.",
		node: func(s *Settings) slot { return slot{text: &s.Tiering.OnGap} },
	},
	{
		Section: "tiering", Name: "persist_edits", Kind: Count, Min: 1, Max: 1024, Default: "5",
		Doc:  "The list of a stream's objects is stored after this many uploads.",
		node: func(s *Settings) slot { return slot{count: &s.Tiering.PersistEdits} },
	},
	{
		Section: "tiering", Name: "persist_interval", Kind: Span, Min: int64(10 * time.Millisecond), Max: int64(time.Minute), Default: "2s",
		Doc:  "The list of a stream's objects is stored at latest this long after an upload.",
		node: func(s *Settings) slot { return slot{span: &s.Tiering.PersistInterval} },
	},
	{
		Section: "tiering", Name: "max_bytes_per_second", Kind: Size, Min: kib, Max: tib, ZeroOff: true, Default: "0",
		Doc:  "Bytes a second that all uploads of this node together may take; 0 = no limit.",
		node: func(s *Settings) slot { return slot{size: &s.Tiering.MaxBytesPerSecond} },
	},
	{
		Section: "tiering", Name: "root_grace", Kind: Span, Min: int64(time.Second), Max: 30 * day, Default: "1h",
		Doc:  "How long a superseded list of objects is kept for readers that still hold it.",
		node: func(s *Settings) slot { return slot{span: &s.Tiering.RootGrace} },
	},
	{
		Section: "tiering", Name: "reconcile_interval", Kind: Span, Min: int64(time.Second), Max: int64(time.Hour), Default: "60s",
		Doc:  "How often the running logs are compared with those that are being uploaded.",
		node: func(s *Settings) slot { return slot{span: &s.Tiering.ReconcileInterval} },
	},
}

var surfaceFields = []Field{
	{
		Section: "admin", Name: "listen", Kind: Address, Default: "127.0.0.1:7077",
		Doc:  "Loopback address and port to listen on; port 0 takes any free one.",
		node: func(s *Settings) slot { return slot{text: &s.Admin.Listen} },
	},
	{
		Section: "admin", Name: "token_file", Kind: Text, Min: 1, Max: 4096, Default: "<data_dir>/admin.token",
		Doc:  "File of the token that guards the surface. Written at first start with mode 0600 if it is missing.",
		node: func(s *Settings) slot { return slot{text: &s.Admin.TokenFile} },
	},
	{
		Section: "logging", Name: "level", Kind: Choice, Choices: []string{"debug", "info", "warn", "error"}, Default: "info",
		Doc:  "Least severe level that is logged.",
		node: func(s *Settings) slot { return slot{text: &s.Logging.Level} },
	},
	{
		Section: "logging", Name: "format", Kind: Choice, Choices: []string{FormatJSON, FormatConsole}, Default: FormatJSON,
		Doc:  "`json`: one object a line. `console`: for people.",
		node: func(s *Settings) slot { return slot{text: &s.Logging.Format} },
	},
}

var captureFields = []Field{
	{
		Section: SectionCapture, Name: "name", Kind: Text, Min: 1, Max: 54, check: checkCaptureName,
		Doc:    "Name of the capture: `a`-`z`, `0`-`9` and `_`. Required, and different for each capture.",
		inside: func(c *Capture) slot { return slot{text: &c.Name} },
	},
	{
		Section: SectionCapture, Name: "stream", Kind: Text, Min: 1, Max: 255, Default: "<name>", check: checkStream,
		Doc:    "Stream that takes the changes. It is created if it is missing and belongs to this capture alone. Like any stream's name it holds only characters that can be seen and inner spaces; slashes join parts that are not empty, `.` or `..`.",
		inside: func(c *Capture) slot { return slot{text: &c.Stream} },
	},
	{
		Section: SectionCapture, Name: "url", Kind: Text, Min: 1, Max: 4096, check: checkConnection,
		Doc:    "Connection string of the database, `postgres://user@host:port/database`. Exactly one of `url`, `url_file` and `url_env` is required; a password belongs in one of the other two.",
		inside: func(c *Capture) slot { return slot{secret: &c.URL} },
	},
	{
		Section: SectionCapture, Name: "url_file", Kind: Text, Min: 1, Max: 4096,
		Doc:    "File that holds the connection string.",
		inside: func(c *Capture) slot { return slot{text: &c.URLFile} },
	},
	{
		Section: SectionCapture, Name: "url_env", Kind: Text, Min: 1, Max: 255,
		Doc:    "Environment variable that holds the connection string.",
		inside: func(c *Capture) slot { return slot{text: &c.URLEnv} },
	},
	{
		Section: SectionCapture, Name: "slot", Kind: Text, Min: 1, Max: 63, Default: "millrace_<name>", check: checkSlot,
		Doc:    "Replication slot, made and owned by Millrace: `a`-`z`, `0`-`9` and `_`. Different for each capture.",
		inside: func(c *Capture) slot { return slot{text: &c.Slot} },
	},
	{
		Section: SectionCapture, Name: "publication", Kind: Text, Min: 1, Max: 63, Default: "millrace_<name>",
		Doc:    "Publication to follow. You make it; see [capture.md](capture.md).",
		inside: func(c *Capture) slot { return slot{text: &c.Publication} },
	},
	{
		Section: SectionCapture, Name: "on_slot_lost", Kind: Choice, Choices: []string{SlotLostReload, SlotLostStop}, Default: SlotLostReload,
		Doc:    "What to do when the slot is gone or PostgreSQL has dropped WAL it needs. `reload`: void the tables in the stream and load them anew. `stop`: wait for you.",
		inside: func(c *Capture) slot { return slot{text: &c.OnSlotLost} },
	},
	{
		Section: SectionCapture, Name: "max_value", Kind: Size, Min: kib, Max: 256 * mib, Default: "64MiB",
		Doc:    "A column value longer than this is left out of the record and named in `omitted` with its size.",
		inside: func(c *Capture) slot { return slot{size: &c.MaxValue} },
	},
}
