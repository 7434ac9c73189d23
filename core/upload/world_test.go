package upload

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

// world is everything around a machine: a local log, an object store, a metadata
// store, a governor and a manifest replica, which fail as the test draws it, and which
// complain when the machine breaks a promise.
type world struct {
	t       *rapid.T
	m, twin *Machine
	now     pos.Millis
	uid     pos.UID

	floor, end pos.Offset
	objects    map[string][]byte // nil: a fragment
	anchored   bool
	pointer    Pointer
	deleted    bool
	taken      map[pos.Offset]bool // chunks that the floor passed before they were persisted

	asked    []Effect // not answered yet
	late     []late   // what was answered, to come once more
	replica  *manifest.Manifest
	seam     pos.Offset
	stopped  bool
	healed   bool // no more faults
	disowned bool // nothing may be freed
	bounded  bool // retention may have taken the beginning, or the store was emptied
	emptied  bool // the store has lost what the pointer names
	wiped    bool // it has lost something since the last reset
}

// late is an answer that comes again: of a generation that is over, or of a transfer
// that was given up.
type late struct {
	gen Gen
	in  Input
}

// answered steps with an answer and remembers it.
func (w *world) answered(gen Gen, in Input) {
	w.late = append(w.late, late{gen, in})
	w.step(in)
}

func newWorld(t *rapid.T, cfg Config) *world {
	w := &world{
		t: t, m: New(cfg), twin: New(cfg), now: 1_000_000, uid: 1,
		objects: map[string][]byte{}, taken: map[pos.Offset]bool{}, end: 200,
	}
	w.disowned = rapid.Bool().Draw(t, "disowned")
	w.step(Start{Stamp: w.stamp(), Disowned: w.disowned})
	return w
}

func (w *world) stamp() Stamp {
	w.uid = w.uid*6364136223846793005 + 1442695040888963407
	return Stamp{Now: w.now, UID: w.uid | 1}
}

func (w *world) step(in Input) {
	out, again := w.m.Step(in, nil), w.twin.Step(in, nil)
	if !reflect.DeepEqual(out, again) {
		w.t.Fatalf("not deterministic: %s and %s", dump(out), dump(again))
	}
	if err := w.m.check(); err != nil {
		w.t.Fatalf("after %s: %v", name(in), err)
	}
	for _, e := range out {
		w.do(e)
	}
}

// do holds the machine to its promises and keeps what is to be answered.
func (w *world) do(e Effect) {
	switch e := any(e).(type) {
	case Submit, Upload, PutRoot:
		if !w.anchored {
			w.t.Fatalf("%s before the anchor", name(e))
		}
		w.asked = append(w.asked, e.(Effect))
	case ReadPointer, ReadRoot, ListRoots, LookFor, Inspect, Read, PutAnchor, SwapPointer, Listen:
		w.asked = append(w.asked, e.(Effect))
	case Abort:
		w.asked = slices.DeleteFunc(w.asked, func(e Effect) bool { _, ok := e.(Listen); return ok })
	case ShowPending:
		w.replica = nil
	case ShowSync:
		w.replica = e.Manifest
		w.shown(e.Manifest)
	case ShowEdits:
		next, err := w.replica.Apply(e.Edits...)
		if err != nil || e.Seq != w.replica.Revision+1 {
			w.t.Fatalf("edits %d do not follow %d: %v", e.Seq, w.replica.Revision, err)
		}
		w.replica = next.Stamped(w.m.cfg.Epoch, e.Seq)
		w.shown(w.replica)
	case Seam:
		if w.disowned {
			w.t.Fatalf("seam %s in a store that is not known to be ours", e.Next)
		}
		if stored := w.root(); e.Next > stored.Next && w.pointer.Revision == e.Seq {
			w.t.Fatalf("seam %s, the store has %s", e.Next, stored.Next)
		}
		w.seam = max(w.seam, e.Next)
	case NoSeam:
		w.seam = 0
	case Collect:
		w.collect(e)
	case ResetDone:
		if e.Refused == "" && !w.wiped {
			w.t.Fatalf("given up is %+v of a store that has lost nothing", e.ResetAnswer)
		}
		w.wiped = w.wiped && e.Refused != ""
	case Stop:
		w.stopped = true
		if !w.deleted {
			w.t.Fatalf("stopped: %s", e.Why)
		}
	}
}

// root returns what the pointer names, with all of its objects there.
func (w *world) root() *manifest.Manifest {
	if w.pointer.Revision == 0 {
		return manifest.New(0)
	}
	body, ok := w.objects[w.m.rootKey(w.pointer)]
	if w.emptied {
		return manifest.New(0)
	}
	if !ok {
		w.t.Fatalf("the pointer names %s, which is not there", w.m.rootKey(w.pointer))
	}
	root, err := manifest.Decode(body)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range root.Entries {
		if _, ok := w.objects[w.m.fragmentKey(e.First, e.UID)]; !ok {
			w.t.Fatalf("fragment [%s, %s) of revision %s is not there", e.First, e.Next, root.Revision)
		}
	}
	for _, g := range root.Gaps() {
		for o := g.From; o < g.To; o += chunkRecords {
			if !w.taken[o] {
				w.t.Fatalf("gap [%s, %s), but %s was never taken by local retention", g.From, g.To, o)
			}
		}
	}
	return root
}

// shown is what readers go by: it is what the pointer names, or named before.
func (w *world) shown(m *manifest.Manifest) {
	if m.Revision > w.pointer.Revision {
		w.t.Fatalf("shown is revision %s, the pointer has %s", m.Revision, w.pointer.Revision)
	}
	if m.Revision == w.pointer.Revision && m.Revision > 0 && !reflect.DeepEqual(m, w.root()) {
		w.t.Fatalf("shown is %+v, the pointer names %+v", m, w.root())
	}
}

func (w *world) collect(c Collect) {
	if c.After < w.now.Add(time.Hour) {
		w.t.Fatalf("collected without grace: %+v", c)
	}
	root := w.root()
	for _, k := range c.Keys {
		if w.pointer.Revision > 0 && k == w.m.rootKey(w.pointer) {
			w.t.Fatalf("the live root %s is collected", k)
		}
		for _, e := range root.Entries {
			if k == w.m.fragmentKey(e.First, e.UID) {
				w.t.Fatalf("the live fragment %s is collected", k)
			}
		}
	}
}

// fault draws how an operation ends, and whether it took effect.
func (w *world) fault() (r Result, happened bool) {
	if w.healed {
		return Result{}, true
	}
	switch rapid.IntRange(0, 9).Draw(w.t, "fault") {
	case 0:
		return Result{FaultTransient, "drawn"}, false
	case 1:
		return Result{FaultLasting, "drawn"}, false
	case 2:
		return Result{FaultTransient, "drawn"}, true
	}
	return Result{}, true
}

// answer answers one of the effects that wait.
func (w *world) answer(i int) {
	e := w.asked[i]
	w.asked = slices.Delete(w.asked, i, i+1)
	s := w.stamp()
	switch e := any(e).(type) {
	case ReadPointer:
		r, _ := w.fault()
		if r.Fault == FaultNone && (w.pointer.Revision == 0 || w.deleted) {
			r = Result{FaultMissing, "no pointer"}
		}
		w.answered(e.Gen, PointerRead{Stamp: s, Gen: e.Gen, Pointer: w.pointer, Result: r})
	case ReadRoot:
		r, _ := w.fault()
		body, ok := w.objects[e.Key]
		if !ok {
			r = Result{FaultMissing, "no root"}
		}
		w.answered(e.Gen, RootRead{Stamp: s, Gen: e.Gen, Body: body, Result: r})
	case ListRoots:
		r, _ := w.fault()
		in := RootsListed{Stamp: s, Gen: e.Gen, Result: r}
		for _, key := range slices.Sorted(maps.Keys(w.objects)) {
			if strings.HasPrefix(key, e.Prefix) {
				in.Keys = append(in.Keys, key)
			}
		}
		w.answered(e.Gen, in)
	case LookFor:
		r, _ := w.fault()
		if _, ok := w.objects[e.Key]; !ok {
			r = Result{FaultMissing, "no object"}
		}
		w.answered(e.Gen, LookedFor{Stamp: s, Gen: e.Gen, Result: r})
	case Inspect:
		r, _ := w.fault()
		w.answered(e.Gen, Inspected{Stamp: s, Gen: e.Gen, Result: r, Local: Local{
			First: w.floor, Next: w.end, Epochs: []segment.EpochEnd{{Epoch: w.m.cfg.Epoch, End: w.end}},
		}})
	case Read:
		w.read(s, e)
	case Listen:
		if w.end > e.From {
			w.step(Moved{Stamp: s, Gen: e.Gen})
		} else {
			w.asked = append(w.asked, e)
		}
	case PutAnchor:
		r, happened := w.fault()
		w.anchored = w.anchored || happened
		if w.deleted {
			r = Result{FaultMissing, "no stream"}
		}
		w.answered(e.Gen, AnchorPut{Stamp: s, Gen: e.Gen, Result: r})
	default:
		w.answerWrite(s, e.(Effect))
	}
}

// source adds that what lies below the floor can't be read.
func (w *world) source(first pos.Offset, r Result) Result {
	if r.Fault == FaultNone && first < w.floor {
		return Result{FaultMissing, "no segment"}
	}
	return r
}

func (w *world) answerWrite(s Stamp, e Effect) {
	r, happened := w.fault()
	switch e := any(e).(type) {
	case Submit:
		w.step(Granted{Stamp: s, Ref: e.Ref})
	case Upload:
		if r = w.source(e.Fragment.First, r); happened && r.Fault != FaultMissing {
			w.objects[e.Key] = nil
		}
		w.answered(w.m.gen, Uploaded{Stamp: s, Ref: e.Ref, Floor: w.floor, Result: r})
	case PutRoot:
		if happened {
			w.objects[e.Key] = e.Body
		}
		w.answered(e.Gen, RootPut{Stamp: s, Gen: e.Gen, Result: r})
	case SwapPointer:
		w.answered(e.Gen, PointerSwapped{Stamp: s, Gen: e.Gen, Result: w.swap(e, r, happened)})
	}
}

func (w *world) swap(e SwapPointer, r Result, happened bool) Result {
	switch {
	case w.deleted:
		return Result{FaultMissing, "no stream"}
	case e.Expected != w.pointer.Revision:
		return Result{FaultConflict, "revision"}
	case !happened:
		return r
	case r.Fault != FaultNone:
		r.Fault = FaultUnknown
	}
	w.pointer, w.emptied = e.Next, false
	w.root()
	return r
}

func (w *world) read(s Stamp, e Read) {
	r, _ := w.fault()
	in := ChunksRead{Stamp: s, Gen: e.Gen, Floor: w.floor, Result: r}
	switch {
	case r.Fault != FaultNone:
	case e.From < w.floor:
		in.Trimmed = true
	default:
		to := min(w.end, e.From+chunkRecords*pos.Offset(rapid.IntRange(1, 12).Draw(w.t, "chunks")))
		in.Chunks, in.End = chunksOf(e.From, to), to == w.end
	}
	w.answered(e.Gen, in)
}

// trim raises the floor by whole segments, but for the active one.
func (w *world) trim() {
	active := (w.end - 1) / (chunkRecords * perSegment) * (chunkRecords * perSegment)
	next := min(w.floor+chunkRecords*perSegment*pos.Offset(rapid.IntRange(1, 3).Draw(w.t, "segments")), active)
	for o := w.floor; o < next; o += chunkRecords {
		if o >= w.root().Next {
			w.taken[o] = true
		}
	}
	w.floor = max(w.floor, next)
}

// act does one thing that the world may do at any time.
func (w *world) act() {
	switch rapid.IntRange(0, 19).Draw(w.t, "act") {
	case 18:
		w.step(StoreAway{Stamp: w.stamp(), Since: w.now, Why: "drawn"})
	case 15:
		w.step(StoreBack{w.stamp()})
	case 19:
		w.disowned = !w.disowned
		if w.disowned {
			w.step(StoreDisowned{w.stamp()})
		} else {
			w.step(StoreOwned{w.stamp()})
		}
	case 16:
		if rapid.IntRange(0, 3).Draw(w.t, "replaced") == 0 {
			w.replace(rapid.IntRange(0, 3).Draw(w.t, "lost"))
		}
	case 17:
		w.reset()
	case 14:
		w.bounded = true
		w.step(Retain{Stamp: w.stamp(), Bounds: Bounds{
			MaxBytes: int64(rapid.SampledFrom([]int{0, 1, 4, 20}).Draw(w.t, "chunks")) * chunkBytes,
			MaxAge:   time.Duration(rapid.SampledFrom([]int{0, 1000, 1010}).Draw(w.t, "age")) * time.Second,
		}})
	case 0:
		w.end += chunkRecords * pos.Offset(rapid.IntRange(1, 10).Draw(w.t, "grow"))
	case 1:
		if rapid.IntRange(0, 3).Draw(w.t, "trim") == 0 {
			w.trim()
		}
	case 2:
		w.step(ReplicaUp{w.stamp()})
	case 3:
		// Everything that was submitted is forgotten.
		w.asked = slices.DeleteFunc(w.asked, func(e Effect) bool { _, ok := e.(Submit); return ok })
		w.step(GovernorUp{w.stamp()})
	case 4:
		w.foreign()
	case 5:
		until := w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(w.t, "until")) * time.Second)
		next := rapid.SampledFrom([]pos.Offset{w.pointer.Next, w.end}).Draw(w.t, "awaited")
		w.step(Await{Stamp: w.stamp(), ID: WaiterID(w.uid), Next: next, Until: until})
		w.step(ForceCut{Stamp: w.stamp(), ID: WaiterID(w.uid), Upto: w.end, Until: until})
	case 6:
		if len(w.late) > 0 {
			l := w.late[rapid.IntRange(0, len(w.late)-1).Draw(w.t, "late")]
			if _, upload := l.in.(Uploaded); upload || l.gen != w.m.gen {
				w.step(l.in)
			}
		}
	case 7, 8:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5_000).Draw(w.t, "ms")) * time.Millisecond)
		w.step(Tick{w.stamp()})
	default:
		if len(w.asked) > 0 {
			w.answer(rapid.IntRange(0, len(w.asked)-1).Draw(w.t, "which"))
		}
	}
}

// foreign moves the pointer as another writer would.
func (w *world) foreign() {
	if w.pointer.Revision == 0 || w.emptied || rapid.IntRange(0, 9).Draw(w.t, "foreign") > 0 {
		return
	}
	root := w.root()
	w.pointer.Revision++
	w.pointer.UID = w.stamp().UID
	w.objects[w.m.rootKey(w.pointer)] = root.Stamped(w.pointer.Epoch, w.pointer.Revision).Encode()
}

// replace has the store claimed anew, perhaps after it lost everything, or all but the root
// that was put again before that was noticed, or that root alone. What the machine was about to
// write is not written any more.
func (w *world) replace(lost int) {
	if lost > 0 && w.pointer.Revision > 0 {
		key, root := w.m.rootKey(w.pointer), w.objects[w.m.rootKey(w.pointer)]
		switch {
		case lost == 1:
			delete(w.objects, key)
		case lost == 2 || root == nil:
			clear(w.objects)
		default:
			clear(w.objects)
			w.objects[key] = root
		}
		w.emptied, w.wiped, w.bounded = w.lacksWhatIsNamed(), true, true
		w.asked = slices.DeleteFunc(w.asked, func(e Effect) bool {
			switch any(e).(type) {
			case PutRoot, SwapPointer, Upload:
				return true
			default:
				return false
			}
		})
	}
	w.disowned = false
	w.step(StoreReclaimed{w.stamp()})
	if w.seam != 0 && !w.stopped {
		w.t.Fatalf("the local log still trusts the store up to %s", w.seam)
	}
}

// lacksWhatIsNamed reports whether the root that the pointer names, or an object that it names, is
// not there. A root that names nothing, since retention has taken all, lacks nothing where it is.
func (w *world) lacksWhatIsNamed() bool {
	body, ok := w.objects[w.m.rootKey(w.pointer)]
	if !ok {
		return true
	}
	root, err := manifest.Decode(body)
	return err != nil || slices.ContainsFunc(root.Entries, func(e manifest.Entry) bool {
		_, ok := w.objects[w.m.fragmentKey(e.First, e.UID)]
		return !ok
	})
}

// reset gives up what is lost, if anything is.
func (w *world) reset() {
	w.step(Reset{Stamp: w.stamp(), ID: WaiterID(w.uid)})
}

// heal ends all faults and waits until nothing moves any more.
func (w *world) heal() {
	w.healed, w.disowned = true, false
	w.step(StoreOwned{w.stamp()})
	for range 400 {
		for range 50 {
			i := slices.IndexFunc(w.asked, func(e Effect) bool { l, ok := e.(Listen); return !ok || w.end > l.From })
			if i < 0 {
				break
			}
			w.answer(i)
		}
		if w.m.lost {
			w.reset()
		}
		if w.stopped || w.pointer.Next == w.end && w.seam == w.end && w.m.phase == phaseOpen && w.m.expired() == 0 {
			return
		}
		w.now = max(w.now.Add(time.Second), w.m.wake)
		w.step(Tick{w.stamp()})
	}
	w.t.Fatalf("stuck at %s of %s: %+v\nasked: %s", w.pointer.Next, w.end, w.m.Status(), strings.TrimSpace(dump(w.asked)))
}
