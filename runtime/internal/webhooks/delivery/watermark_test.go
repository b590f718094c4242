package delivery

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// TestTrap1Watermark holds a Watermark against a set of settled positions under random orders of
// reading, settling and restarts (HOOK-6).
// [Watermark.Open], Pass, Settle, Base and Spans carry it.
func TestTrap1Watermark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := store.Position(rapid.IntRange(0, 5).Draw(t, "base"))
		w := NewWatermark(store.Progress{Base: base})
		settled := map[store.Position]bool{} // above base, as known to the model
		open := map[store.Position]bool{}
		upto := base
		below := func(p store.Position) bool { // everything in (base, p] is settled
			for q := base + 1; q <= p; q++ {
				if !settled[q] {
					return false
				}
			}
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				skipped := store.Position(rapid.IntRange(0, 3).Draw(t, "skipped"))
				p := upto + skipped + 1
				for q := upto + 1; q < p; q++ {
					settled[q] = true
				}
				fresh := w.Open(p)
				if fresh == settled[p] {
					t.Fatalf("Open(%d) = %v, settled before: %v", p, fresh, settled[p])
				}
				if fresh {
					open[p] = true
				}
				upto = p
			},
			"pass": func(t *rapid.T) {
				p := upto + store.Position(rapid.IntRange(0, 4).Draw(t, "by"))
				for q := upto + 1; q <= p; q++ {
					settled[q] = true
				}
				w.Pass(p)
				upto = max(upto, p)
			},
			"settle": func(t *rapid.T) {
				p := store.Position(rapid.IntRange(0, int(upto)+2).Draw(t, "p"))
				if got := w.Settle(p); got != open[p] {
					t.Fatalf("Settle(%d) = %v, open: %v", p, got, open[p])
				}
				if open[p] {
					delete(open, p)
					settled[p] = true
				}
			},
			"skip": func(t *rapid.T) {
				p := upto + store.Position(rapid.IntRange(0, 6).Draw(t, "by"))
				if p <= upto && !open[p] {
					return
				}
				w.Skip(p)
				delete(open, p)
				settled[p] = true
			},
			"restart": func(t *rapid.T) {
				// What is settled above the base is remembered; what is open is read again.
				b := w.Base()
				w = NewWatermark(store.Progress{Base: b, Settled: w.Spans()})
				upto = b
				clear(open)
			},
			"": func(t *rapid.T) {
				b := w.Base()
				if !below(b) {
					t.Fatalf("base %d is past something unsettled", b)
				}
				if len(open) == 0 && b < upto {
					t.Fatalf("base %d lags although everything up to %d is settled", b, upto)
				}
				for p := range open {
					if at := w.At(p); at > p || !below(min(at, p-1)) {
						t.Fatalf("cursor of %d is %d", p, at)
					}
					if below(p-1) && w.At(p) != p {
						t.Fatalf("cursor of %d is %d although everything before is settled", p, w.At(p))
					}
				}
				last := b
				for _, s := range w.Spans() {
					if s.From <= last+1 && last != b || s.From > s.To {
						t.Fatalf("spans %v above %d are not disjoint and ascending", w.Spans(), b)
					}
					last = s.To
					for q := s.From; q <= s.To; q++ {
						if !settled[q] {
							t.Fatalf("span %v holds %d, which is unsettled", s, q)
						}
					}
				}
			},
		})
	})
}

// TestTrap1StoredSpans takes over only those stored spans that say something: not what lies at or before
// the base, and none that ends before it begins. NewWatermark carries this (trap 1).
func TestTrap1StoredSpans(t *testing.T) {
	w := NewWatermark(store.Progress{Base: 9, Settled: []store.Span{{From: 5, To: 9}, {From: 20, To: 15}, {From: 11, To: 12}}})
	if got := w.Spans(); len(got) != 1 || got[0] != (store.Span{From: 11, To: 12}) {
		t.Errorf("spans %v", got)
	}
	for p, open := range map[store.Position]bool{10: true, 11: false, 13: true} {
		w := NewWatermark(store.Progress{Base: 9, Settled: []store.Span{{From: 5, To: 9}, {From: 20, To: 15}, {From: 11, To: 12}}})
		if w.Open(p) != open {
			t.Errorf("Open(%d) is %v", p, !open)
		}
	}
}
