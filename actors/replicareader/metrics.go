package replicareader

import (
	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/upload"
)

// counters is what is counted, by name.
var counters = []struct {
	name string
	of   func(upload.Counts) int64
}{
	{"transfers_completed_total", func(c upload.Counts) int64 { return c.Transfers }},
	{"transfers_failed_total", func(c upload.Counts) int64 { return c.TransfersFailed }},
	{"transfer_retries_total", func(c upload.Counts) int64 { return c.Retries }},
	{"transfer_lasting_failures_total", func(c upload.Counts) int64 { return c.LastingRetries }},
	{"bytes_transferred_total", func(c upload.Counts) int64 { return c.BytesTransferred }},
	{"bytes_drained_total", func(c upload.Counts) int64 { return c.BytesDrained }},
	{"bytes_persisted_total", func(c upload.Counts) int64 { return c.BytesPersisted }},
	{"persists_completed_total", func(c upload.Counts) int64 { return c.Persists }},
	{"persists_failed_total", func(c upload.Counts) int64 { return c.PersistsFailed }},
	{"persist_conflicts_total", func(c upload.Counts) int64 { return c.Conflicts }},
	{"manifests_resolved_total", func(c upload.Counts) int64 { return c.Resolved }},
	{"manifests_resolved_empty_total", func(c upload.Counts) int64 { return c.ResolvedEmpty }},
	{"manifest_resolution_failures_total", func(c upload.Counts) int64 { return c.ResolutionFailures }},
	{"local_floor_passed_seam_total", func(c upload.Counts) int64 { return c.FloorPassed }},
	{"log_behind_seam_total", func(c upload.Counts) int64 { return c.LogBehind }},
	{"gaps_total", func(c upload.Counts) int64 { return c.Gaps }},
	{"gap_records_total", func(c upload.Counts) int64 { return c.GapRecords }},
	{"fragments_expired_total", func(c upload.Counts) int64 { return c.Expired }},
	{"bytes_expired_total", func(c upload.Counts) int64 { return c.BytesExpired }},
	{"manifest_resets_total", func(c upload.Counts) int64 { return c.Resets }},
	{"divergences_total", func(c upload.Counts) int64 { return c.Divergences }},
}

// gauges is what is shown, by name.
var gauges = []struct {
	name string
	of   func(upload.Status) float64
}{
	{"transfers_in_flight", func(s upload.Status) float64 { return float64(s.Pipeline.Uploading) }},
	{"transfers_waiting", func(s upload.Status) float64 { return float64(s.Pipeline.Submitted) }},
	{"bytes_in_assembly", func(s upload.Status) float64 { return float64(s.Fragment.Bytes) }},
	{"bytes_in_transfer", func(s upload.Status) float64 { return float64(s.Pipeline.Bytes) }},
	{"bytes_in_persist", func(s upload.Status) float64 { return float64(s.Pipeline.BytesInPersist) }},
	{"last_persist_timestamp_seconds", func(s upload.Status) float64 { return float64(s.Pipeline.LastPersist) / 1000 }},
	{"manifest_first_timestamp_seconds", func(s upload.Status) float64 { return float64(s.Remote.FirstTime) / 1000 }},
	{"manifest_first_offset", func(s upload.Status) float64 { return float64(max(s.Remote.First, 0)) }},
	{"manifest_next_offset", func(s upload.Status) float64 { return float64(max(s.Remote.PersistedNext, 0)) }},
	{"remote_records", func(s upload.Status) float64 { return float64(max(s.Remote.PersistedNext-max(s.Remote.First, 0), 0)) }},
	{"remote_bytes", func(s upload.Status) float64 { return float64(s.Remote.Bytes) }},
	{"upload_stalled", func(s upload.Status) float64 {
		if s.Trouble() != "" {
			return 1
		}
		return 0
	}},
}

func (r *replicaReader) publish(c *actors.Context) {
	s, n := r.machine.Status(), r.machine.Counts()
	c.SetStatus(s)
	stream := string(r.id)
	for _, k := range counters {
		// The first time all begin, with 0; later only what moved costs a call.
		if d := k.of(n) - k.of(r.counted); d > 0 || !r.published {
			r.cfg.Metrics.Count(k.name, d, "stream", stream)
		}
	}
	for _, k := range gauges {
		r.cfg.Metrics.Gauge(k.name, k.of(s), "stream", stream)
	}
	lost := pos.Offset(0)
	for _, g := range s.Undeclared(pos.NoOffset, r.cfg.Local.First()) {
		lost += g.To - g.From
	}
	r.cfg.Metrics.Gauge("undeclared_gap_records", float64(lost), "stream", stream)
	r.counted, r.published = n, true
}
