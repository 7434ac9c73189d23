package chunk_test

import (
	"testing"

	"millrace/core/chunk"
)

func TestAddingARecordAllocatesNothing(t *testing.T) {
	b := chunk.NewBuilder(16)
	body, value := make([]byte, 100), []byte("v")
	batch := func() {
		for range 1000 {
			b.Add(body, value)
		}
		b.Seal(0, 1, 0, nil)
	}
	batch()
	if n := testing.AllocsPerRun(20, batch); n != 0 {
		t.Errorf("%v allocations in a batch of 1000 records", n)
	}
}
