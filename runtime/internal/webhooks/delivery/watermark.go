package delivery

import (
	"cmp"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Watermark tracks which positions of a log are settled for a subscription. A position is settled if its occurrence
// was acknowledged or abandoned, or does not match (HOOK-6). It stores the open positions and the position up to which
// the log was read. All other positions up to that position are settled. It is not safe for concurrent use.
type Watermark struct {
	upto store.Position
	open []store.Position // ascending
	skip []store.Span     // above upto: settled before a restart
}

// NewWatermark continues from stored progress.
func NewWatermark(p store.Progress) Watermark {
	w := Watermark{upto: p.Base}
	for _, s := range p.Settled {
		if s.To >= s.From && s.To > w.upto {
			w.skip = append(w.skip, s)
		}
	}
	return w
}

// Upto returns the position up to which the log was read.
func (w *Watermark) Upto() store.Position { return w.upto }

// Open marks position p, which must be greater than Upto, as open. The positions between Upto and p do not match. If p
// was settled before a restart, it remains settled and Open returns false.
func (w *Watermark) Open(p store.Position) bool {
	if p <= w.upto {
		return false
	}
	w.Pass(p - 1)
	settled := len(w.skip) > 0 && w.skip[0].From <= p && p <= w.skip[0].To
	w.Pass(p)
	if settled {
		return false
	}
	w.open = append(w.open, p)
	return true
}

// Pass records that no further position up to p matches. It never moves Upto back.
func (w *Watermark) Pass(p store.Position) {
	w.upto = max(w.upto, p)
	for len(w.skip) > 0 && w.skip[0].To <= w.upto {
		w.skip = w.skip[1:]
	}
	if len(w.skip) == 0 {
		w.skip = nil
	}
}

// Settle settles p. It returns false if p was not open.
func (w *Watermark) Settle(p store.Position) bool {
	i, ok := slices.BinarySearch(w.open, p)
	if !ok {
		return false
	}
	w.open = slices.Delete(w.open, i, i+1)
	if len(w.open) == 0 {
		w.open = nil
	}
	return true
}

// Skip settles p. If p is greater than Upto, it is settled before it is read.
func (w *Watermark) Skip(p store.Position) {
	if w.Settle(p) || p <= w.upto {
		return
	}
	i, found := slices.BinarySearchFunc(w.skip, p, func(s store.Span, p store.Position) int {
		switch {
		case s.To < p:
			return -1
		case s.From > p:
			return 1
		}
		return 0
	})
	if !found {
		w.skip = slices.Insert(w.skip, i, store.Span{From: p, To: p})
	}
}

// SkipAll settles the spans, which must be in ascending order. Open positions in the spans stay open. A span that
// starts right after Upto is passed immediately, so it is not read.
func (w *Watermark) SkipAll(spans []store.Span) {
	w.skip = mergeSpans(w.skip, spans)
	w.Pass(w.upto)
	if len(w.skip) > 0 && w.skip[0].From <= w.upto+1 {
		w.Pass(w.skip[0].To)
	}
}

// mergeSpans returns the union of a and b in ascending order.
func mergeSpans(a, b []store.Span) (all []store.Span) {
	both := slices.Concat(a, b)
	slices.SortFunc(both, func(a, b store.Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range both {
		if n := len(all) - 1; n >= 0 && s.From <= all[n].To+1 {
			all[n].To = max(all[n].To, s.To)
			continue
		}
		all = append(all, s)
	}
	return all
}

// spansContain reports whether one of the spans contains p.
func spansContain(spans []store.Span, p store.Position) bool {
	return slices.ContainsFunc(spans, func(s store.Span) bool { return s.From <= p && p <= s.To })
}

// Base returns the position up to which everything is settled.
func (w *Watermark) Base() store.Position {
	if len(w.open) > 0 {
		return w.open[0] - 1
	}
	return w.upto
}

// Settled reports whether p is settled.
func (w *Watermark) Settled(p store.Position) bool {
	if p <= w.upto {
		_, open := slices.BinarySearch(w.open, p)
		return !open
	}
	return spansContain(w.skip, p)
}

// At returns the position of the cursor in the request body for p. It returns p if all lower positions are settled,
// otherwise Base.
func (w *Watermark) At(p store.Position) store.Position {
	if len(w.open) > 0 && w.open[0] < p {
		return w.open[0] - 1
	}
	return p
}

// Spans returns the settled spans above Base in ascending order.
func (w *Watermark) Spans() []store.Span {
	var spans []store.Span
	for i, p := range w.open {
		end := w.upto
		if i+1 < len(w.open) {
			end = w.open[i+1] - 1
		}
		if p < end {
			spans = append(spans, store.Span{From: p + 1, To: end})
		}
	}
	for _, s := range w.skip {
		s.From = max(s.From, w.upto+1)
		if n := len(spans) - 1; n >= 0 && spans[n].To+1 >= s.From {
			spans[n].To = max(spans[n].To, s.To)
			continue
		}
		spans = append(spans, s)
	}
	return spans
}

// settledAfter returns the known settled spans above p in ascending order.
func (w *Watermark) settledAfter(p store.Position) (spans []store.Span) {
	for _, s := range append([]store.Span{{From: 1, To: w.Base()}}, w.Spans()...) {
		if s.From = max(s.From, p+1); s.From <= s.To {
			spans = append(spans, s)
		}
	}
	return spans
}
