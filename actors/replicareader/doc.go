// Package replicareader is the process that brings one stream into the object store:
// the shell around core/upload. There is one for each stream whose writer runs on
// this node. It is registered as {"replica_reader", stream, node}, and ends normally
// when the writer ends or the stream was deleted; objects and pointer stay.
//
// Messages: pace.Granted from the governor, manifest.Resync from the manifest replica,
// upload.StreamDeleted from the reconciler, upload.StoreAway, StoreBack, StoreOwned,
// StoreDisowned and StoreReclaimed from the store monitor, and upload.AwaitDurable, CutNow, ResetManifest and
// Describe as requests. Its status is an upload.Status.
//
// Everything that takes time is a task. One generation of them is given up at a time;
// what they return afterwards is told by its generation, or an upload's ref. At a stop a
// persist under way is ended, and its end is waited for: the successor must not meet it.
package replicareader
