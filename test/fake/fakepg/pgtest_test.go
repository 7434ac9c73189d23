package fakepg_test

import (
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/test/fake/fakepg"
	"millrace/test/porttest/pgtest"
)

func TestContract(t *testing.T) {
	pgtest.Run(t, func(*testing.T) pgtest.Server {
		db := fakepg.New()
		db.LockTimeout, db.KeepaliveEvery, db.Batch = 50*time.Millisecond, 10*time.Millisecond, 3
		db.CreateTable("t", pgout.IdentityDefault, 1, pgout.Column{Name: "id", Type: 20, Mod: -1}, pgout.Column{Name: "text", Type: 25, Mod: -1})
		db.CreatePublication("pub", "t")
		return server{db}
	})
}

type server struct{ *fakepg.DB }

func (s server) Postgres() port.Postgres { return s.DB }
func (s server) Begin() pgtest.Tx        { return tx{s.DB.Begin()} }
func (s server) DropPublication()        { s.DB.DropPublication("pub") }
func (s server) CreatePublication()      { s.DB.CreatePublication("pub", "t") }
func (s server) Noise()                  { s.DB.Noise(100) }

type tx struct{ *fakepg.Tx }

func (t tx) Insert(id, text string) { t.Tx.Insert("t", fakepg.T(id), fakepg.T(text)) }
func (t tx) Update(id, newID, text string) {
	t.Tx.Update("t", id, fakepg.T(newID), fakepg.T(text))
}
func (t tx) Delete(id string) { t.Tx.Delete("t", id) }
func (t tx) Truncate()        { t.Tx.Truncate("t") }
func (t tx) Commit()          { t.Tx.Commit() }
