package topic

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A record is a log entry with what readers need of it, computed once: the places that rules look
// at, the decoded payload for the author's Match, the encoded forms and what Transform made of it.
type record struct {
	entry  store.Entry
	typ    *Type
	cursor []byte // JSON of the cursor after the entry: a string or null
	places []place
	plain  variant
	sound  func() error // Sound, asked once

	mu       sync.Mutex
	payload  any // *P for Match, shared
	variants map[string]*variant
	budget   *recordBudget // nil for a record that is in no cache
	charged  int           // to budget
	evicted  bool          // from the cache: it keeps no more variants
}

// A variant is the payload as subscriptions with the same arguments get it. Transform is the author's
// code and may take its time or hang, so no lock is held while it runs: the others wait for running, or
// until their own context ends.
type variant struct {
	running chan struct{} // closed when the computation ends; nil while there is none; under record.mu
	done    bool          // under record.mu; data and err are fixed from then on
	data    json.RawMessage
	err     error
	charged int // to the record's budget; under record.mu

	head atomic.Pointer[[]byte] // of the event frame
	item atomic.Pointer[[]byte] // of the poll result
}

// Bounds of what records remember: how many of Transform's results one of them does, and how many bytes
// those of a topic have together, with payloads, Transform's results and encoded forms.
const (
	cachedVariants  = 1024
	MaxRecordBytes  = 16 << 20
	variantOverhead = 256
	formsOfAPayload = 3 // data, frame and poll item
)

func newRecord(typ *Type, e store.Entry, cursor []byte) *record {
	return recordAt(typ, e, cursor, placesOf(typ, e.Data, nil))
}

func recordAt(typ *Type, e store.Entry, cursor []byte, ps []place) *record {
	r := &record{entry: e, typ: typ, cursor: cursor, places: ps}
	r.plain.done, r.plain.data = true, e.Data
	r.sound = sync.OnceValue(func() error { return Sound(&r.entry) })
	return r
}

// placesOf are the places of an encoded payload; decoded may be nil.
func placesOf(typ *Type, data json.RawMessage, decoded any) []place {
	if len(typ.Rules) == 0 {
		return nil
	}
	if decoded == nil {
		// What was validated at append always decodes; other bytes match no rule.
		decoded, _ = validate.Decode(data)
	}
	return places(typ.Rules, decoded)
}

// targets reports whether the occurrence is for the subscription.
func (r *record) targets(id string) bool {
	if r.entry.Targets == nil {
		return true
	}
	for _, t := range r.entry.Targets {
		if t == id {
			return true
		}
	}
	return false
}

// accepts asks the author's Match. What would break the answer that it is in is an error.
func (r *record) accepts(ctx context.Context, a *Arguments) (ok bool, err error) {
	if err := r.sound(); err != nil {
		return false, err
	}
	if r.typ.Match == nil {
		return true, nil
	}
	r.mu.Lock()
	p := r.payload
	if p == nil {
		if p, err = r.typ.DecodePayload(r.entry.Data); err == nil {
			r.payload = p
		}
	}
	r.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("decoding payload for Match: %w", err)
	}
	return r.typ.Match(ctx, p, a.Typed())
}

// variant returns the payload for the arguments: Transform's result, computed once for all
// subscriptions with the same canonical arguments (OCC-4).
func (r *record) variant(ctx context.Context, a *Arguments) (*variant, error) {
	if r.typ.Transform == nil {
		return &r.plain, nil
	}
	r.mu.Lock()
	v := r.variants[a.Key]
	if v == nil {
		v = &variant{}
		if r.variants == nil {
			r.variants = map[string]*variant{}
		}
		if len(r.variants) < cachedVariants && !r.evicted {
			r.variants[a.Key] = v
		}
	}
	for v.running != nil {
		running := v.running
		r.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		r.mu.Lock()
	}
	if v.done {
		r.mu.Unlock()
		return v, v.err
	}
	v.running = make(chan struct{})
	r.mu.Unlock()
	return r.compute(ctx, a, v)
}

// compute is called by the goroutine that set v.running. It lets the others go on even after a panic.
func (r *record) compute(ctx context.Context, a *Arguments, v *variant) (*variant, error) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(v.running)
		v.running = nil
	}()
	data, err := r.transformed(ctx, a)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // the caller went away; the next one computes it
	}
	r.mu.Lock()
	v.done, v.data, v.err = true, data, err
	r.mu.Unlock()
	r.charge(formsOfAPayload*len(v.data)+variantOverhead, a.Key, v)
	return v, err
}

func (r *record) transformed(ctx context.Context, a *Arguments) (json.RawMessage, error) {
	p, err := r.typ.DecodePayload(r.entry.Data)
	if err != nil {
		return nil, fmt.Errorf("decoding payload for Transform: %w", err)
	}
	if err := r.typ.Transform(ctx, p, a.Typed()); err != nil {
		return nil, err
	}
	data, err := codec.Encode(p)
	if err != nil {
		return nil, fmt.Errorf("encoding Transform's result: %w", err)
	}
	if err := r.typ.Encodable(data); err != nil {
		return nil, fmt.Errorf("result of Transform: %w", err)
	}
	return data, nil
}

// frameHead encodes the event's frame up to the stream's own tail, once.
func (r *record) frameHead(v *variant) []byte {
	if h := v.head.Load(); h != nil {
		return *h
	}
	b := make([]byte, 0, len(v.data)+len(r.entry.Meta)+len(r.cursor)+256)
	b = append(b, frame.EventOpening...)
	b = r.appendOccurrence(b, v)
	b = append(b, `,"cursor":`...)
	b = append(b, r.cursor...)
	b = append(b, `,"_meta":{`...)
	n := len(b)
	if b = r.appendMeta(b); len(b) > n {
		b = append(b, ',')
	}
	if v.head.CompareAndSwap(nil, &b) {
		r.encoded(v, b)
	}
	return b
}

// pollItem encodes the occurrence for a poll result, where it has no cursor (OCC-3), once.
func (r *record) pollItem(v *variant) []byte {
	if h := v.item.Load(); h != nil {
		return *h
	}
	b := r.appendItem(make([]byte, 0, len(v.data)+len(r.entry.Meta)+192), v, nil)
	if v.item.CompareAndSwap(nil, &b) {
		r.encoded(v, b)
	}
	return b
}

// appendItem appends the occurrence as an object of its own, with a cursor unless that is nil.
func (r *record) appendItem(b []byte, v *variant, cursor []byte) []byte {
	b = r.appendOccurrence(b, v)
	if cursor != nil {
		b = append(b, `,"cursor":`...)
		b = append(b, cursor...)
	}
	before := len(b)
	b = append(b, `,"_meta":{`...)
	n := len(b)
	if b = r.appendMeta(b); len(b) == n {
		b = b[:before]
	} else {
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendOccurrence opens the object and appends its members up to data.
func (r *record) appendOccurrence(b []byte, v *variant) []byte {
	b = append(b, `{"eventId":`...)
	b = frame.AppendString(b, r.entry.EventID)
	b = append(b, `,"name":`...)
	b = append(b, r.typ.NameJSON...)
	b = append(b, `,"timestamp":"`...)
	b = append(b, r.entry.Timestamp.String()...)
	b = append(b, `","data":`...)
	return append(b, v.data...)
}

// appendMeta appends the members of the author's _meta and the fingerprint, without braces.
func (r *record) appendMeta(b []byte) []byte {
	n := len(b)
	if m := r.entry.Meta; len(m) > 2 {
		b = append(b, m[1:len(m)-1]...)
	}
	if r.typ.Echo != nil {
		if len(b) > n {
			b = append(b, ',')
		}
		b = append(b, r.typ.Echo...)
	}
	return b
}

// A recordCache keeps the newest records of a topic, each in the slot of its position.
type recordCache []atomic.Pointer[record]

func (c recordCache) slot(p store.Position) *atomic.Pointer[record] {
	return &c[int(p%store.Position(len(c)))]
}

func (c recordCache) get(p store.Position, typ *Type) *record {
	r := c.slot(p).Load()
	if r == nil || r.entry.Position != p || r.typ != typ {
		return nil
	}
	return r
}

// put keeps r unless a newer record has its slot.
func (c recordCache) put(r *record) {
	slot := c.slot(r.entry.Position)
	old := slot.Load()
	if old != nil && old.entry.Position >= r.entry.Position && old.typ == r.typ || !slot.CompareAndSwap(old, r) {
		r.drop() // it was never there
		return
	}
	if old != nil {
		old.drop()
	}
	r.charge(recent.Size(&r.entry), "", nil)
}

// A recordBudget bounds what the records of a topic keep; the oldest ones leave the cache first, but for the
// newest.
type recordBudget struct {
	mu    sync.Mutex // held while trimming
	bytes atomic.Int64
	cache recordCache
}

// charge counts bytes that the record keeps; v is nil, or the one of Transform's results that they are of.
func (r *record) charge(n int, key string, v *variant) {
	if r.budget == nil {
		return
	}
	r.mu.Lock()
	kept := !r.evicted && (v == nil || r.variants[key] == v)
	if kept {
		r.charged += n
		if v != nil {
			v.charged = n
		}
	}
	r.mu.Unlock()
	if kept && r.budget.bytes.Add(int64(n)) > MaxRecordBytes {
		r.budget.trim()
	}
}

// encoded counts a form of the payload as it is; those of Transform's results are counted with them.
func (r *record) encoded(v *variant, form []byte) {
	if v == &r.plain {
		r.charge(len(form), "", nil)
	}
}

func (b *recordBudget) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes.Load() > MaxRecordBytes {
		var oldest, newest *record
		for i := range b.cache {
			r := b.cache[i].Load()
			if r == nil {
				continue
			}
			if oldest == nil || r.entry.Position < oldest.entry.Position {
				oldest = r
			}
			if newest == nil || r.entry.Position > newest.entry.Position {
				newest = r
			}
		}
		switch {
		case oldest == nil:
			return
		case oldest == newest: // it stays, with nothing of Transform's
			oldest.forget()
			return
		case b.cache.slot(oldest.entry.Position).CompareAndSwap(oldest, nil):
			oldest.drop()
		}
	}
}

// drop gives everything up; a goroutine that reads a variant at this moment keeps it. The record has left the cache
// and keeps no more.
func (r *record) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.budget != nil {
		r.budget.bytes.Add(-int64(r.charged))
	}
	r.charged, r.variants, r.evicted = 0, nil, true
}

// forget gives up Transform's results.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.variants {
		r.charged -= v.charged
		r.budget.bytes.Add(-int64(v.charged))
	}
	r.variants = nil
}
