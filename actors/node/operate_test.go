package node

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/resolve"
	"millrace/supervision"
)

// What the node can't do without is not stopped, whatever an operator says, and he is told
// what to do instead.
func TestWhatIsNeededIsNotStopped(t *testing.T) {
	for path, c := range map[string]struct {
		hint    string
		restart bool // it may be restarted
	}{
		"node":          {"SIGTERM", false},
		"node/admin":    {"restart the node", false},
		"node/log":      {"name one stream: node/log/STREAM", false},
		"node/keeper":   {"name the process that is in trouble", false},
		"node/readers":  {"millrace tree restart node/readers", true},
		"node/captures": {"millrace tree restart node/captures", true},
		"node/tiering":  {"millrace tiering disable", true},
	} {
		t.Run(path, func(t *testing.T) {
			standing(t, func(t *testing.T, s *site) {
				forbidden := func(err error) {
					t.Helper()
					e, ok := errors.AsType[*admin.Error](err)
					if !ok || e.Class != admin.Forbidden || e.What == "" {
						t.Fatalf("refused with %v", err)
					}
					says(t, e.Hint, c.hint)
				}
				before := s.live(path)
				forbidden(s.Terminate(t.Context(), path))
				if s.live(path) != before {
					t.Error("it was stopped all the same")
				}
				err := s.Restart(t.Context(), path)
				if !c.restart {
					if forbidden(err); s.live(path) != before {
						t.Error("it was restarted all the same")
					}
					return
				}
				if now := s.live(path); err != nil || now == nil || now == before {
					t.Errorf("restarting it: %v", err)
				}
				pass(time.Second) // what ran below it is back at once
				s.ready()
			})
		})
	}
}

// What uploads run under is a part like others: with it everything below is back at once.
func TestARestartedStreamFactoryIsFilledAtOnce(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		if err := s.Restart(t.Context(), "node/tiering/stream_factory"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		s.ready()
	})
}

func TestNoSuchProcess(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		for _, do := range []func(at string) error{
			func(at string) error { return s.Terminate(t.Context(), at) },
			func(at string) error { return s.Restart(t.Context(), at) },
		} {
			refused(t, do(""), admin.Invalid, "which process is missing")
			for _, at := range []string{"node/nobody", "node/log/nobody", "node/captures/nobody/capturer", "node/log/shop/writer/deeper"} {
				refused(t, do(at), admin.NotFound, "there is no process")
			}
		}
	})
}

// A stream's name may end as the path to another's worker does. Such a path is refused
// also while one of the two is stopped: it would start what was not meant.
func TestAPathThatCanMeanTwoThings(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		other, err := s.CreateStream(t.Context(), "shop/writer", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.stopAll("node/log/" + other.ID)
		refused(t, s.Restart(t.Context(), "node/log/shop/writer"), admin.Invalid, "can mean")
		refused(t, s.Terminate(t.Context(), "node/log/shop/writer"), admin.Invalid, "can mean")
		if s.live("node/log/"+other.ID) != nil || s.live("node/log/"+s.id()+"/writer") == nil {
			t.Error("it was carried out all the same")
		}
	})
}

// Below what is stopped there is nothing but its one worker.
func TestBelowWhatIsStopped(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.stopAll("node/log/shop")
		refused(t, s.Restart(t.Context(), "node/log/shop/capturer"), admin.NotFound, "there is no process")
		if s.live("node/log/shop") != nil {
			t.Error("something was started")
		}
	})
}

// What could not be stopped does not show as stopped.
func TestAStopThatFails(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		one, err := s.find("node/log/shop")
		if err != nil {
			t.Fatal(err)
		}
		factory, err := s.find("node/log")
		if err != nil {
			t.Fatal(err)
		}
		s.kill("node/log", 1, time.Second)
		refused(t, s.terminate(t.Context(), factory, one), admin.Unavailable, "terminating node/log/")
		if _, away := s.absences.at(one.Path); away {
			t.Error("it shows as stopped")
		}
	})
}

// A supervisor goes with its one worker where that ends in good order, as a replica reader
// does with its log: who keeps it would take an empty one for what it wants.
func TestASupervisorEndsWithItsWorker(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.stopAll("node/log/shop/writer")
		pass(5 * time.Second)
		if got, err := s.find("node/tiering/stream_factory/shop"); err == nil {
			t.Errorf("without a log there is %+v", got)
		}
	})
}

// What owns files or a replication slot gets as long to stop as it takes: abandoned, it
// would go on using them.
func TestWhatOwnsFilesIsNotCutOff(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		for path, want := range map[string]string{
			"node/log/shop": "infinity", "node/log/shop/writer": "infinity", "node/captures/shop/capturer": "infinity",
			"node/tiering": "infinity", "node/tiering/stream_factory/shop/replica_reader": "5s", "node/tiering/governor": "5s",
		} {
			if at, err := s.find(path); err != nil || at.Shutdown != want {
				t.Errorf("%s is given %s, %v; want %s", path, at.Shutdown, err, want)
			}
		}
	})
}

// A reader is its client's: an operator may end it, and nobody but the client begins again.
func TestAReaderIsEndedAndNotRestarted(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		r, err := s.Open(t.Context(), "shop", admin.ReadSpec{From: resolve.First(), Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		below := supervision.Look(s.live("node/readers"))
		if len(below) != 1 {
			t.Fatalf("readers: %+v", below)
		}
		reader := below[0]
		refused(t, s.Restart(t.Context(), reader.Path), admin.Forbidden, "belongs to the client that opened it")
		if !reader.Handle.Alive() {
			t.Error("it was stopped all the same")
		}
		if err := s.Terminate(t.Context(), reader.Path); err != nil || reader.Handle.Alive() {
			t.Errorf("ending it: %v", err)
		}
		pass(time.Minute)
		if got, err := s.Tree(admin.TreeQuery{Path: "node/readers"}); err != nil || got.Page.Total != 0 {
			t.Errorf("one that nobody can start is shown: %+v, %v", got, err)
		}
	})
}

// A part that an operator stopped stays away, and the status says what starts it.
func TestAStoppedPartStaysAway(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		for range 2 { // once more is no error
			if err := s.Terminate(t.Context(), "node/tiering/governor"); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Minute)
			s.unready("tiering/governor does not run: millrace tree restart node/tiering/governor starts it")
		}
		if err := s.Restart(t.Context(), "node/tiering/governor"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		s.ready()
		var told int
		for _, e := range s.Events(0).Events {
			if e.Path == "node/tiering/governor" && e.Reason == "shutdown: "+byOperator {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the stop is told %d times", told)
		}
	})
}

// What an operator stops of a stream shows as stopped, and is started at once when he says
// so: by its name, by its id, and by that of its worker.
func TestWhatIsStoppedOfAStreamIsStartedAgain(t *testing.T) {
	for factory, worker := range map[string]string{"node/log": idWriter, "node/captures": idCapturer, "node/tiering/stream_factory": idReplicaReader} {
		t.Run(factory, func(t *testing.T) {
			standing(t, func(t *testing.T, s *site) {
				id := "shop"
				if factory != "node/captures" {
					id = s.id()
				}
				one := factory + "/shop"
				for _, c := range []struct{ stop, start string }{
					{one, one}, {one, one + "/" + worker}, {one, factory + "/" + id}, {one + "/" + worker, one + "/" + worker}, {one + "/" + worker, one},
				} {
					old := s.live(one + "/" + worker)
					if err := s.Terminate(t.Context(), c.stop); err != nil || old.Alive() {
						t.Fatalf("stopping %s: %v", c.stop, err)
					}
					if at, err := s.find(one); c.stop == one && (err != nil || at.State != admin.StateStopped || at.LastExit != byOperator) {
						t.Errorf("shown is %+v, %v", at, err)
					}
					if err := s.Restart(t.Context(), c.start); err != nil {
						t.Errorf("starting %s: %v", c.start, err)
					}
					synctest.Wait()
					if now := s.live(one + "/" + worker); now == nil || now == old {
						t.Fatalf("%s does not run after %s was stopped and %s started", worker, c.stop, c.start)
					}
					if _, away := s.absences.at(factory + "/" + id); away {
						t.Error("it still shows as stopped")
					}
					pass(2*time.Minute + time.Second) // not at a look of the keeper's
					s.ready()
				}
			})
		})
	}
}

// Who keeps it brings back what an operator stopped of a stream, though he does not: and
// at once however often that is, since it is no sign that it doesn't last.
func TestWhatIsStoppedOfAStreamComesBack(t *testing.T) {
	for path, within := range map[string]time.Duration{
		"node/log/shop": 10 * time.Second, "node/log/shop/writer": 10 * time.Second, "node/captures/shop": 10 * time.Second, "node/captures/shop/capturer": 10 * time.Second,
		"node/tiering/stream_factory/shop": time.Minute, "node/tiering/stream_factory/shop/replica_reader": time.Minute,
	} {
		t.Run(path, func(t *testing.T) {
			standing(t, func(t *testing.T, s *site) {
				for i := range 3 {
					if err := s.Terminate(t.Context(), path); err != nil {
						t.Fatal(err)
					}
					if ok, _ := s.Ready(); ok {
						t.Fatalf("stop %d: it is not missed", i)
					}
					pass(within + time.Second)
					s.ready()
				}
			})
		})
	}
}

// Between the stop and the start of a worker, who keeps it may find its supervisor empty and
// make a new one. The worker runs then, and the operator is told so.
func TestARestartMeetsWhoKeepsIt(t *testing.T) {
	for factory, worker := range map[string]string{"node/log": idWriter, "node/captures": idCapturer, "node/tiering/stream_factory": idReplicaReader} {
		for _, replaced := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				var between atomic.Pointer[func()]
				s.ports.Metrics = noMetrics{at: func(event []string) {
					if !slices.Equal(event, []string{"kind", "child_terminated", "child", strings.TrimPrefix(factory, "node/") + "/*/" + worker}) {
						return
					}
					if do := between.Swap(nil); do != nil {
						(*do)()
					}
				}}
				s.boot()
				defer s.stop()
				pass(time.Minute + time.Second)
				sup, err := s.find(factory + "/shop")
				if err != nil {
					t.Fatal(err)
				}
				replace := func() {
					if err := supervision.TerminateChild(t.Context(), s.live(factory), sup.ID); err != nil {
						t.Error(err)
					}
					if !replaced {
						return
					}
					if err := s.startAgain(t.Context(), path.Base(factory), sup.ID); err != nil {
						t.Error(err)
					}
				}
				between.Store(&replace)
				if err := s.Restart(t.Context(), factory+"/shop/"+worker); err != nil || between.Load() != nil {
					t.Errorf("restarting the %s, replaced %v: %v", worker, replaced, err)
				}
				if now := s.live(factory + "/shop/" + worker); now == nil {
					t.Errorf("the %s does not run, replaced %v", worker, replaced)
				}
			})
		}
	}
}

// What can't be started says why, and what to look at.
func TestAStartThatFailsIsTold(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.metaFault.set(map[string]error{"stream": errors.New("planned"), "streambyname": errors.New("planned")})
		for _, path := range []string{"node/log/shop", "node/captures/shop"} {
			if err := s.Terminate(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			refused(t, s.Restart(t.Context(), path), admin.Unavailable, "planned")
		}
		synctest.Wait()
		for _, stream := range []string{"shop", s.id()} {
			refused(t, s.Restart(t.Context(), "node/tiering/stream_factory/"+stream), admin.Unavailable, "log does not run")
		}
		s.metaFault.set(map[string]error{"stream": port.NotFound})
		if e, ok := errors.AsType[*admin.Error](s.Restart(t.Context(), "node/log/shop")); !ok || e.Class != admin.NotFound {
			t.Errorf("starting a stream that was deleted meanwhile: %v", e)
		}
	})
}
