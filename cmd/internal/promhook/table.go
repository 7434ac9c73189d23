package promhook

import (
	"fmt"
	"slices"
	"strings"

	"millrace/actors/port"
	"millrace/core/fetch"
	"millrace/core/resolve"
)

var (
	perCapture = []string{"capture"}
	perStream  = []string{"stream"}
	perTier    = []string{"tier"}
	perClass   = []string{"class"}
	perWhy     = []string{"why"}
)

// What the labels can say.
var (
	tiers   = map[string][]string{"tier": {"local", "remote"}}
	healed  = map[string][]string{"healed": {"true", "false"}}
	classes = map[string][]string{"class": names(fetch.Unavailable, fetch.Superseded)}
	whys    = map[string][]string{"why": names(resolve.Retention, resolve.Gap)}
	// What actors/node counts of the store.
	operations  = map[string][]string{"op": {"put", "get", "get_range", "delete", "list", "probe"}}
	storeErrors = map[string][]string{"op": operations["op"], "class": storeClasses()}
)

// storeClasses are what a failed request can mean.
func storeClasses() []string {
	all := []string{"cancelled"}
	for _, name := range names(port.Unclassified, port.Full) {
		all = append(all, strings.ReplaceAll(name, " ", "_"))
	}
	return all
}

// names lists an enumeration from its first value to its last.
func names[T interface {
	~uint8
	fmt.Stringer
}](first, last T) (all []string) {
	for v := first; v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

// Metrics is the table of all metrics there are, in the order of the documentation.
func Metrics() []Metric { return slices.Concat(nodeMetrics(), uploadMetrics(), storeMetrics()) }

func nodeMetrics() []Metric {
	return []Metric{
		{Name: "build_info", Type: Gauge, Labels: []string{"version"}, Help: "Always 1; the label is the version that runs."},
		{Name: "ready", Type: Gauge, Help: "1 while the node does all it is configured to, as /readyz tells, which has the reasons. Alert when it stays 0."},
		{Name: "messages_dropped_total", Type: Counter, Help: "Messages that were queued for a process when it ended. Whoever waits for an answer is told of the end."},
		{Name: "supervisor_events", Type: Counter, Labels: []string{"kind", "child"}, Help: "What supervisors did: children started, restarted, failed, given up. Alert on kind=\"max_intensity\" and on a rising rate of kind=\"restarted\"."},

		{Name: "capture_events_total", Type: Counter, Labels: perCapture, Help: "Records written, loaded rows included."},
		{Name: "capture_commits_total", Type: Counter, Labels: perCapture, Help: "Transactions received, empty ones included."},
		{Name: "capture_losses_total", Type: Counter, Labels: perCapture, Help: "Times confirmed events were found lost, history broke, or the slot was gone, moved or unreadable, and all was loaded anew. Alert on any."},
		{Name: "capture_lag_seconds", Type: Gauge, Labels: perCapture, Help: "Age of the last commit received, or how long one waits for the disk; 0 when nothing is behind."},
		{Name: "capture_in_flight_bytes", Type: Gauge, Labels: perCapture, Help: "Bytes of records on their way to the log."},
		{Name: "capture_retained_wal_bytes", Type: Gauge, Labels: perCapture, Help: "WAL that PostgreSQL keeps for the slot. Alert when it grows for long."},

		{Name: "manifests_pending", Type: Gauge, Help: "Streams whose list of objects is not known yet: reads below the local window fail until it is."},
		{Name: "manifest_syncs_total", Type: Counter, Help: "Whole lists of objects taken."},
		{Name: "manifest_edits_total", Type: Counter, Help: "Changes of lists of objects taken."},
		{Name: "manifest_resyncs_total", Type: Counter, Help: "Times a whole list was asked for, because a change was missed."},
		{Name: "manifest_rejected_total", Type: Counter, Help: "Changes and lists that were not taken: out of date, or faulty."},

		{Name: "governor_in_flight", Type: Gauge, Help: "Uploads that run now."},
		{Name: "governor_in_flight_bytes", Type: Gauge, Help: "Bytes of the uploads that run now."},
		{Name: "governor_waiting", Type: Gauge, Help: "Uploads that wait for their turn."},
		{Name: "governor_waiting_bytes", Type: Gauge, Help: "Bytes of the uploads that wait for their turn."},
		{Name: "governor_submissions_total", Type: Counter, Help: "Uploads that asked for their turn."},
		{Name: "governor_granted_total", Type: Counter, Help: "Uploads whose turn came."},
		{Name: "governor_oversized_total", Type: Counter, Help: "Uploads larger than the burst, a fifth of a second's allowance, which were let through in debt."},
		{Name: "governor_dropped_total", Type: Counter, Help: "Uploads whose stream went away while they waited."},
	}
}

// uploadMetrics are those of one stream's way into the store.
func uploadMetrics() []Metric {
	return []Metric{
		{Name: "transfers_in_flight", Type: Gauge, Labels: perStream, Help: "Uploads of this stream that run now."},
		{Name: "transfers_waiting", Type: Gauge, Labels: perStream, Help: "Uploads of this stream that wait for their turn."},
		{Name: "bytes_in_assembly", Type: Gauge, Labels: perStream, Help: "Bytes committed that are not yet cut into an object."},
		{Name: "bytes_in_transfer", Type: Gauge, Labels: perStream, Help: "Bytes of objects that are being uploaded."},
		{Name: "bytes_in_persist", Type: Gauge, Labels: perStream, Help: "Bytes uploaded that the stored list does not name yet."},
		{Name: "upload_stalled", Type: Gauge, Labels: perStream, Help: "1 while this stream does not get into the store: something has failed for 30 seconds, or fails for a reason that does not pass by itself. Alert when it stays."},
		{Name: "last_persist_timestamp_seconds", Type: Gauge, Labels: perStream, Help: "When the list of objects was last stored, in seconds since 1970; 0: not since the start."},
		{Name: "manifest_first_timestamp_seconds", Type: Gauge, Labels: perStream, Help: "Time of the oldest record in the store, in seconds since 1970; 0: there is none."},
		{Name: "manifest_first_offset", Type: Gauge, Labels: perStream, Help: "Oldest offset in the store."},
		{Name: "manifest_next_offset", Type: Gauge, Labels: perStream, Help: "The seam: everything below it is durable in the store, but for gaps."},
		{Name: "remote_records", Type: Gauge, Labels: perStream, Help: "Offsets from the oldest in the store to the seam, those in gaps included."},
		{Name: "remote_bytes", Type: Gauge, Labels: perStream, Help: "Bytes of this stream in the store."},
		{Name: "transfers_completed_total", Type: Counter, Labels: perStream, Help: "Objects uploaded."},
		{Name: "transfers_failed_total", Type: Counter, Labels: perStream, Help: "Uploads that failed. Alert when it rises for 10 minutes."},
		{Name: "transfer_retries_total", Type: Counter, Labels: perStream, Help: "Uploads tried again."},
		{Name: "transfer_lasting_failures_total", Type: Counter, Labels: perStream, Help: "Uploads that failed for a reason that does not pass by itself, such as access denied. Alert on any."},
		{Name: "bytes_drained_total", Type: Counter, Labels: perStream, Help: "Bytes taken from the local log into objects."},
		{Name: "bytes_transferred_total", Type: Counter, Labels: perStream, Help: "Bytes uploaded."},
		{Name: "bytes_persisted_total", Type: Counter, Labels: perStream, Help: "Bytes that a stored list names."},
		{Name: "fragments_expired_total", Type: Counter, Labels: perStream, Help: "Objects that retention dropped from the store."},
		{Name: "bytes_expired_total", Type: Counter, Labels: perStream, Help: "Bytes that retention dropped from the store."},
		{Name: "persists_completed_total", Type: Counter, Labels: perStream, Help: "Lists of objects stored."},
		{Name: "persists_failed_total", Type: Counter, Labels: perStream, Help: "Lists of objects that could not be stored, and are tried again."},
		{Name: "persist_conflicts_total", Type: Counter, Labels: perStream, Help: "Times another writer of the stream had stored a list first. Alert on any."},
		{Name: "manifests_resolved_total", Type: Counter, Labels: perStream, Help: "Times the list of objects was found at a start."},
		{Name: "manifests_resolved_empty_total", Type: Counter, Labels: perStream, Help: "Times there was no list of objects yet: the stream is new to the store."},
		{Name: "manifest_resolution_failures_total", Type: Counter, Labels: perStream, Help: "Times it could not be found, and is looked for again."},
		{Name: "local_floor_passed_seam_total", Type: Counter, Labels: perStream, Help: "Times local disk was trimmed past the seam."},
		{Name: "log_behind_seam_total", Type: Counter, Labels: perStream, Help: "Times the local log was found to end before the seam; uploading waits until it has grown over it."},
		{Name: "gaps_total", Type: Counter, Labels: perStream, Help: "Gaps: records trimmed from local disk before they were uploaded. Alert on any."},
		{Name: "gap_records_total", Type: Counter, Labels: perStream, Help: "Records lost in gaps."},
		{Name: "undeclared_gap_records", Type: Gauge, Labels: perStream, Help: "Records that local disk was trimmed of before they were uploaded, and that no stored list tells of yet: uploads do not get on. They become a gap with the next object. Alert above 0."},
		{Name: "manifest_resets_total", Type: Counter, Labels: perStream, Help: "Times that an operator gave up what the store has lost of a stream. What is in no tier since counts as a gap."},
		{Name: "divergences_total", Type: Counter, Labels: perStream, Help: "Times the local log and the store held different records at one offset, and the store was cut back."},
	}
}

// storeMetrics are those of reading, and of the object store.
func storeMetrics() []Metric {
	return []Metric{
		{Name: "streams_untiered", Type: Gauge, Help: "Running logs that nobody uploads yet. Alert when it stays above 0."},
		{Name: "reconciler_start_failures_total", Type: Counter, Help: "Times the uploading of a stream could not be started, and is tried again."},

		{Name: "reader_local_damage_total", Type: Counter, Labels: []string{"healed"}, Values: healed, Help: "Damaged chunks that readers met on local disk; healed=\"true\" where the store had them. Alert on any: the disk is losing data."},
		{Name: "reader_chunks_total", Type: Counter, Labels: perTier, Values: tiers, Help: "Chunks read, from local disk or the store."},
		{Name: "reader_bytes_total", Type: Counter, Labels: perTier, Values: tiers, Help: "Bytes read, from local disk or the store."},
		{Name: "reader_failures_total", Type: Counter, Labels: perClass, Values: classes, Help: "Times a reader could not go on at once and tries again."},
		{Name: "reader_moves_total", Type: Counter, Labels: perWhy, Values: whys, Help: "Times a reader was moved past records that are gone."},
		{Name: "reader_moved_records_total", Type: Counter, Labels: perWhy, Values: whys, Help: "Records that readers were moved past."},

		{Name: "store_accessible", Type: Gauge, Help: "0 while the object store is known not to be usable: no such bucket, access denied, the prefix is another cluster's, or its marker is gone or damaged. A failure that does not tell changes nothing. Alert on 0."},
		{Name: "credentials_expiry_timestamp_seconds", Type: Gauge, Help: "When the credentials for the object store expire, in seconds since 1970; 0: there are none, +Inf: never, NaN: nobody asks for any, since tiering is disabled or its process does not run. Alert when less than 2 minutes are left."},
		{Name: "credentials_refreshes_total", Type: Counter, Help: "Credentials for the object store fetched and put in use."},
		{Name: "credentials_refresh_failures_total", Type: Counter, Help: "Times none could be fetched, and they are asked for again."},
		{Name: "pool_connections", Type: Gauge, Labels: []string{"pool", "state"}, Help: "Connections to the object store: state=\"max\" as many as there may be, \"open\", \"in_use\" of these; and \"waiting\", operations that wait for one. Reads have the pool general, whole objects on their way up the pool upload."},
		{Name: "pool_waits_total", Type: Counter, Labels: []string{"pool"}, Help: "Operations that had to wait for a connection. A rising rate of the pool general slows readers."},

		{Name: "store_requests_total", Type: Counter, Labels: []string{"op"}, Values: operations, Help: "Requests to the object store, failed ones included."},
		{Name: "store_errors_total", Type: Counter, Labels: []string{"op", "class"}, Values: storeErrors, Help: "Requests to the object store that failed, by what that means; class=\"cancelled\" was given up by the node itself. Alert on a rising rate."},
		{Name: "store_sent_bytes_total", Type: Counter, Help: "Bytes of objects stored."},
		{Name: "store_received_bytes_total", Type: Counter, Help: "Bytes of objects fetched."},
		{Name: "store_request_duration_seconds", Type: Histogram, Labels: []string{"kind"}, Help: "How long requests to the object store took, by kind: read or write."},

		{Name: "reaper_pending_keys", Type: Gauge, Help: "Objects that are to be deleted and are not yet."},
		{Name: "reaper_objects_deleted_total", Type: Counter, Help: "Objects deleted."},
		{Name: "reaper_delete_failures_total", Type: Counter, Help: "Deletions that failed and are tried again."},
		{Name: "reaper_objects_given_up_total", Type: Counter, Help: "Objects whose deletion was given up; a garbage collection finds them."},
	}
}
