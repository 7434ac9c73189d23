package plant

// Plants are the rules that the simulation must be able to find broken.
var Plants = []Plant{
	{
		Rule: "nothing is confirmed before it is fsynced",
		Seed: 3,
		Edits: []Edit{{
			File: "actors/writer/files.go",
			Old:  "f.err = f.Sync()",
			New:  "f.err = nil",
		}},
	},
	{
		Rule: "the folder is synced at a roll",
		Seed: 5,
		Edits: []Edit{{
			File: "actors/writer/files.go",
			Old:  "return segment.OpRollSync, x.disk.SyncDir(x.folder)",
			New:  "return segment.OpRollSync, nil",
		}},
	},
	{
		Rule: "after an unclean stop the log ends where its chunks do, not where its index does",
		Seed: 2,
		Edits: []Edit{{
			File: "actors/writer/analyse.go",
			Old:  "\te.walk = w.End()\n\tfor n := len(e.records);",
			New: "\te.walk = w.End()\n\tif x := hooks.OpenIndex(o.cfg.Disk, o.cfg.Stream, p.First); x != nil {\n" +
				"\t\tif n := int(x.Len()); n < len(e.records) {\n" +
				"\t\t\te.walk.Bytes, e.walk.Next, e.records = e.records[n].Position, e.records[n].ID, e.records[:n]\n" +
				"\t\t}\n\t\tx.Close()\n\t}\n\tfor n := len(e.records);",
		}},
	},
	{
		Rule: "what the log holds of a resent transaction is skipped by LSN and seq",
		Seed: 5,
		Edits: []Edit{{
			File: "core/pgout/stream.go",
			Old:  "if src.at.Compare(m.log.last.Position) <= 0 {\n\t\tif taken {",
			New:  "if src.at.LSN <= m.log.last.Position.LSN {\n\t\tif taken {",
		}},
	},
	{
		Rule: "replication resumes at the tail's final LSN, not at its end",
		Seed: 5,
		Edits: []Edit{{
			File: "core/pgout/machine.go",
			Old:  "m.emit(&StartStream{Gen: m.gen, At: m.log.last.LSN})",
			New:  "m.emit(&StartStream{Gen: m.gen, At: m.log.last.LSN + 1})",
		}},
	},
	{
		Rule: "the metadata row is written before the slot that it announces",
		Seed: 35,
		Edits: []Edit{
			{
				File: "core/pgout/machine.go",
				Old:  "m.enter(stSaveCreating)\n\tcase ActResume:",
				New:  "m.enter(stDrop)\n\tcase ActResume:",
			},
			{
				File: "core/pgout/machine.go",
				Old:  "\tcase stSaveLoading:\n\t\tr.Phase,",
				New:  "\tcase stSaveLoading:\n\t\tr.Stream, r.Slot = m.cfg.Stream, m.cfg.Slot\n\t\tr.SystemID, r.Timeline = m.server.SystemID, m.server.Timeline\n\t\tr.Event = Mark{Offset: pos.NoOffset}\n\t\tr.Phase,",
			},
		},
	},
	{
		Rule: "a manifest is published once the pointer names it",
		Seed: 1,
		Edits: []Edit{{
			File: "core/upload/persist.go",
			Old:  "\t\tm.back()\n\t\tm.swap()",
			New:  "\t\tm.back()\n\t\tm.persisted()",
		}},
	},
	{
		Rule: "local retention frees only what was persisted",
		Seed: 35,
		Edits: []Edit{{
			File: "core/upload/persist.go",
			Old:  "\tm.seam()\n\tm.collect(garbage)",
			New:  "\tm.emit(Seam{Next: m.assembly.Next(), Seq: m.stored.Revision})\n\tm.collect(garbage)",
		}},
	},
}
