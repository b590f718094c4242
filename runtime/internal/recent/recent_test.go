package recent

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// K12: the entries in memory are bounded in count and in bytes, whatever is added in one call; the last entry is
// always there, and a returned slice does not change.
func TestBounds(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": 1 << 20, "larger than the bound": 3 * Bytes} {
		var r Entries
		var given []store.Entry
		position := store.Position(0)
		for i := range 40 {
			batch := make([]store.Entry, i*i%200+1)
			if size > 1<<10 {
				batch = batch[:1]
			}
			bytes := 0
			for j := range batch {
				position++
				batch[j] = store.Entry{Position: position, Data: make([]byte, size)}
				bytes += Size(&batch[j])
			}
			r.Add(batch...)
			all := r.All()
			total := 0
			for j := range all {
				total += Size(&all[j])
				if want := position - store.Position(len(all)-1-j); all[j].Position != want {
					t.Fatalf("%s: entry %d of %d has position %d, want %d", name, j, len(all), all[j].Position, want)
				}
			}
			if len(all) == 0 || total != r.bytes || len(all) > 2*Count || total > max(2*Bytes, Size(&batch[0])) {
				t.Fatalf("%s: %d entries of %d bytes, %d counted", name, len(all), total, r.bytes)
			}
			if cap(all) > 4*Count+200 {
				t.Fatalf("%s: a capacity of %d", name, cap(all))
			}
			if given == nil {
				given = all[:1:1]
			}
		}
		if given[0].Position != 1 {
			t.Errorf("%s: what was handed out has changed", name)
		}
		if size == 10 && len(r.All()) < Count {
			t.Errorf("only %d entries are kept", len(r.All()))
		}
	}
}
