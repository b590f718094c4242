package topic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A record is a log entry with the data derived from it, which all readers share. The derived data consists of the
// places for the rules, the decoded payload for the author's Match, the encoded forms, and the results of Transform.
type record struct {
	entry  store.Entry
	typ    *Type
	cursor []byte // JSON of the cursor after the entry: a string or null
	places []place
	plain  variant
	around atomic.Pointer[around]
	sound  func() error // Sound, called once

	mu       sync.Mutex
	payload  any // *P for Match, shared
	variants map[string]*variant
	budget   *recordBudget // nil for a record that is not cached
	charged  int           // bytes charged to budget
	evicted  bool          // from the cache; no more variants are stored
}

// A variant is the payload for subscriptions with the same arguments. Transform is code of the author that can be slow
// or hang, so it is called without locks. Other readers wait until running is closed or their own context is done.
type variant struct {
	running chan struct{} // closed when the computation ends; nil if none runs; guarded by record.mu
	done    bool          // guarded by record.mu; data and err are final once it is true
	data    json.RawMessage
	err     error
	charged int // bytes charged to the record's budget; guarded by record.mu

	item     atomic.Pointer[[]byte]   // encoded item of a poll result
	original atomic.Pointer[original] // for PerPrincipal
}

// An around is the text of an event's frame before and after its payload, without the tail of a stream.
type around struct{ before, after []byte }

// An original is a payload from which PerPrincipal makes the views of principals.
type original struct {
	payload any               // decoded; nil if it cannot be copied. The hook receives copies only.
	members *validate.Members // nil if views must be validated as a whole
}

// Limits of the record cache. cachedVariants is the maximum number of Transform results per record. MaxRecordBytes is
// the maximum size of all records of a topic, including payloads, Transform results and encoded forms.
const (
	cachedVariants  = 1024
	MaxRecordBytes  = 16 << 20
	variantOverhead = 256
	formsOfAPayload = 2 // data and poll item
)

func newRecord(typ *Type, e store.Entry, cursor []byte) *record {
	return recordAt(typ, e, cursor, placesOf(typ, e.Data))
}

func recordAt(typ *Type, e store.Entry, cursor []byte, ps []place) *record {
	r := &record{entry: e, typ: typ, cursor: cursor, places: ps}
	r.plain.done, r.plain.data = true, e.Data
	r.sound = sync.OnceValue(func() error { return Sound(&r.entry) })
	return r
}

// placesOf returns the places of an encoded payload.
func placesOf(typ *Type, data json.RawMessage) []place {
	if len(typ.Rules) == 0 {
		return nil
	}
	decoded, _ := validate.Decode(data) // validated data always decodes; other bytes match no rule
	return placesIn(typ.Rules, decoded)
}

// isAddressedTo reports whether the occurrence is addressed to the subscription with the given id.
func (r *record) isAddressedTo(id string) bool {
	return r.entry.Targets == nil || slices.Contains(r.entry.Targets, id)
}

// accepts calls the author's Match. It returns an error if the entry's bytes would corrupt the response.
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

// payloadFor returns the payload for the arguments. Transform is called once for all subscriptions with the same
// canonical arguments (OCC-4).
func (r *record) payloadFor(ctx context.Context, a *Arguments) (*variant, error) {
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
	return r.computeVariant(ctx, a, v)
}

// computeVariant calls Transform and stores the result in v. The goroutine that set v.running must call it. It wakes
// the waiting goroutines even after a panic.
func (r *record) computeVariant(ctx context.Context, a *Arguments, v *variant) (*variant, error) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(v.running)
		v.running = nil
	}()
	data, err := r.transformed(ctx, a)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err() // the caller disconnected; the next caller computes it
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
	return r.typ.encodePayload("Transform", p, nil)
}

// originalOf returns the payload of v for PerPrincipal. It is decoded and validated once.
func (r *record) originalOf(v *variant) (o *original, err error) {
	if o := v.original.Load(); o != nil {
		return o, nil
	}
	o = &original{}
	if r.typ.Copyable {
		if o.payload, err = r.typ.DecodePayload(v.data); err != nil {
			return nil, err
		}
	}
	if r.typ.Payload != nil {
		o.members = r.typ.Payload.Members(v.data)
	}
	if v.original.CompareAndSwap(nil, o) {
		r.chargeForms(v, 2*len(v.data))
	}
	return o, nil
}

// privateView returns the payload that the principal of ctx may see, or nil if the occurrence must be withheld. The
// result is not shared. After an error, no data of v may be sent (OCC-6).
func (r *record) privateView(ctx context.Context, a *Arguments, v *variant) (*variant, error) {
	o, err := r.originalOf(v)
	var p any
	switch {
	case err == nil && o.payload != nil:
		p = codec.Copy(o.payload)
	case err == nil:
		p, err = r.typ.DecodePayload(v.data)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding payload for PerPrincipal: %w", err)
	}
	seen, err := r.typ.PerPrincipal(ctx, p, a.Typed())
	if seen == nil || err != nil {
		return nil, err
	}
	data, err := r.typ.encodePayload("PerPrincipal", seen, o.members)
	if err != nil {
		return nil, err
	}
	return &variant{done: true, data: data}, nil
}

// encodePayload encodes and checks the payload that a hook returned. It does not check known members.
func (t *Type) encodePayload(hook string, payload any, known *validate.Members) (json.RawMessage, error) {
	data, err := codec.Encode(payload)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of %s: %w", hook, err)
	}
	if err := t.Encodable(data, known); err != nil {
		return nil, fmt.Errorf("result of %s: %w", hook, err)
	}
	return data, nil
}

// frameText returns the text of the event's frame around the payload, which all streams share. It is encoded once.
func (r *record) frameText() *around {
	if a := r.around.Load(); a != nil {
		return a
	}
	b := make([]byte, 0, len(r.entry.Meta)+len(r.cursor)+256)
	b = append(b, frame.EventOpening...)
	b = r.appendOpening(b)
	before := len(b)
	b = append(b, `,"cursor":`...)
	b = append(b, r.cursor...)
	b = append(b, `,"_meta":{`...)
	n := len(b)
	if b = r.appendMeta(b); len(b) > n {
		b = append(b, ',')
	}
	a := &around{b[:before:before], b[before:]}
	if r.around.CompareAndSwap(nil, a) {
		r.charge(len(b), "", nil)
	}
	return a
}

// pollItem returns the occurrence encoded for a poll result, without a cursor (OCC-3). It is encoded once.
func (r *record) pollItem(v *variant) []byte {
	if h := v.item.Load(); h != nil {
		return *h
	}
	b := r.appendItem(make([]byte, 0, len(v.data)+len(r.entry.Meta)+192), v, nil)
	if v.item.CompareAndSwap(nil, &b) {
		r.chargeForms(v, len(b))
	}
	return b
}

// appendItem appends the occurrence as a JSON object, with a cursor unless cursor is nil.
func (r *record) appendItem(b []byte, v *variant, cursor []byte) []byte {
	b = append(r.appendOpening(b), v.data...)
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

// appendOpening appends the opening brace and the text up to the value of data.
func (r *record) appendOpening(b []byte) []byte {
	b = append(b, `{"eventId":`...)
	b = frame.AppendString(b, r.entry.EventID)
	b = append(b, `,"name":`...)
	b = append(b, r.typ.NameJSON...)
	b = append(b, `,"timestamp":"`...)
	b = append(b, r.entry.Timestamp.String()...)
	return append(b, `","data":`...)
}

// appendMeta appends the members of the author's _meta and the fingerprint, without the enclosing braces.
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

// A recordCache holds the newest records of a topic in slots indexed by position.
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

// storeIfNewer stores r unless its slot contains a newer record.
func (c recordCache) storeIfNewer(r *record) {
	slot := c.slot(r.entry.Position)
	old := slot.Load()
	if old != nil && old.entry.Position >= r.entry.Position && old.typ == r.typ || !slot.CompareAndSwap(old, r) {
		r.releaseMemory() // it was never in the cache
		return
	}
	if old != nil {
		old.releaseMemory()
	}
	r.charge(recent.Size(&r.entry), "", nil)
}

// A recordBudget limits the memory used by a topic's records. It evicts the oldest records first and never evicts the
// newest record.
type recordBudget struct {
	mu    sync.Mutex // held while trimming
	bytes atomic.Int64
	cache recordCache
}

// charge adds n bytes to the record's memory usage. The parameter v is the Transform result that uses them, or nil.
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

// chargeForms adds n bytes of forms of the original payload to the record's memory usage. The forms of a Transform
// result are charged when the result is stored.
func (r *record) chargeForms(v *variant, n int) {
	if v == &r.plain {
		r.charge(n, "", nil)
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
		case oldest == newest: // keep the newest, without its Transform results
			oldest.forget()
			return
		case b.cache.slot(oldest.entry.Position).CompareAndSwap(oldest, nil):
			oldest.releaseMemory()
		}
	}
}

// releaseMemory releases the memory of a record that was removed from the cache. A goroutine that is reading a variant
// can still use it.
func (r *record) releaseMemory() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.budget != nil {
		r.budget.bytes.Add(-int64(r.charged))
	}
	r.charged, r.variants, r.evicted = 0, nil, true
}

// forget releases the Transform results.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.variants {
		r.charged -= v.charged
		r.budget.bytes.Add(-int64(v.charged))
	}
	r.variants = nil
}
