package topic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The payload and arguments of these tests.
type (
	incident struct {
		ID   string `json:"id"`
		Tag  string `json:"tag,omitzero"`
		Text string `json:"text,omitzero"`
	}
	filter struct {
		Tag   *string  `json:"tag,omitzero"`
		Level *float64 `json:"level,omitzero"`
	}
)

func newType(t testing.TB) *Type {
	t.Helper()
	input, err := validate.Compile(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	rule, err := NewRule(events.MatchRule{Argument: "tag", Path: "/tag"})
	if err != nil {
		t.Fatal(err)
	}
	return &Type{Name: "e", NameHash: 7, NameJSON: []byte(`"e"`), MaxArguments: 64 << 10, Input: input, Rules: []Rule{rule},
		DecodeArguments: func(raw json.RawMessage) (any, error) { a := new(filter); return a, codec.Decode(raw, a) },
		DecodePayload:   func(raw json.RawMessage) (any, error) { p := new(incident); return p, codec.Decode(raw, p) },
		Encodable:       func(json.RawMessage, *validate.Members) error { return nil }}
}

func open(t testing.TB, typ *Type, wrap func(store.EventLog) store.EventLog, o store.LogOptions) *Topic {
	t.Helper()
	topic, err := Open(typ, Options{Slots: 64, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		o.Appended = appended
		log := store.EventLog(memory.NewLog(o))
		if wrap != nil {
			log = wrap(log)
		}
		return log, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func parse(t testing.TB, typ *Type, raw string) *Arguments {
	t.Helper()
	a, err := typ.Parse(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func add(t testing.TB, topic *Topic, i incident) {
	t.Helper()
	data, err := codec.Encode(&i)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topic.Append(t.Context(), store.Entry{EventID: i.ID, Timestamp: events.NewTime(time.Now()), Data: data}, true); err != nil {
		t.Fatal(err)
	}
}

func pull(t testing.TB, s Source) (ids []string, p Pulled) {
	t.Helper()
	p, err := s.Next(t.Context(), nil, Batch(PullBatch))
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Out {
		ids = append(ids, p.Out[i].Entry().EventID)
	}
	return ids, p
}

// A pass stops when the cost of its entries reaches the bound, whatever makes them dear, but only after an entry; the
// passes together examine every entry once (POLL-7).
func TestPOLL7Units(t *testing.T) {
	typ := newType(t)
	for _, m := range []events.MatchRule{{Argument: "glob", Path: "/text", Op: events.MatchGlob}, {Argument: "prefix", Path: "/text", Op: events.MatchPrefix}} {
		rule, err := NewRule(m)
		if err != nil {
			t.Fatal(err)
		}
		typ.Rules = append(typ.Rules, rule)
	}
	examined := 0
	typ.Match = func(context.Context, any, any) (bool, error) { examined++; return false, nil }
	topic := open(t, typ, nil, store.LogOptions{MaxCount: 1000})
	for i := range 100 {
		add(t, topic, incident{ID: fmt.Sprint("short", i), Tag: "a"})
	}
	for i := range 100 {
		add(t, topic, incident{ID: fmt.Sprint("long", i), Tag: "a", Text: strings.Repeat("a", 4*UnitBytes)})
	}
	for _, tc := range []struct {
		what, args string
		scan       int
		passes     []store.Position // where the first ones end
	}{
		{"small entries and large ones of 5 units", `{"tag":"a"}`, 50, []store.Position{50, 100, 110, 120}},
		{"a pattern that no text is long enough for", `{"glob":"` + strings.Repeat("?", 4*UnitBytes+1) + `"}`, 50, []store.Position{50, 100, 110, 120}},
		{"a pattern of 19 units", `{"glob":"*` + strings.Repeat("a?", 63) + `b*"}`, 50, []store.Position{50, 100, 103, 106}},
		{"two tests", `{"glob":"*` + strings.Repeat("a?", 63) + `a*","prefix":"b"}`, 50, []store.Position{50, 100, 103, 106}},
		{"a test that is not made", `{"tag":"b","glob":"*` + strings.Repeat("a?", 63) + `b*"}`, 50, []store.Position{50, 100, 110, 120}},
		{"an entry beyond the bound", `{"glob":"*` + strings.Repeat("a?", 63) + `b*"}`, 1, []store.Position{1, 2, 3, 4}},
	} {
		a, err := typ.Reparse(json.RawMessage(tc.args))
		if err != nil {
			t.Fatal(err)
		}
		examined = 0
		r := topic.Reader(a, "sub", nil, 0)
		var ends []store.Position
		for more := true; more; {
			p, err := r.Fill(t.Context(), nil, Bound{10, PullBytes, tc.scan})
			if err != nil || len(p.Out) > 0 || len(ends) > 0 && r.Position() <= ends[len(ends)-1] {
				t.Fatalf("%s: at %d after %v: %+v, %v", tc.what, r.Position(), ends, p, err)
			}
			ends, more = append(ends, r.Position()), p.More
		}
		if !slices.Equal(ends[:len(tc.passes)], tc.passes) || ends[len(ends)-1] != 200 {
			t.Errorf("%s: passes end at %v, want %v first", tc.what, ends, tc.passes)
		}
		if strings.Contains(tc.args, `"a"}`) && examined != 200 {
			t.Errorf("%s: %d entries examined", tc.what, examined)
		}
	}
	// Whether more is waiting is found out with what is left of the bound.
	typ.Match = func(context.Context, any, any) (bool, error) { examined++; return examined == 1, nil }
	for scan, want := range map[int]int{50: 50, 1: 2} {
		examined = 0
		r := topic.Reader(parse(t, typ, `{"tag":"a"}`), "sub", nil, 0)
		p, err := r.Fill(t.Context(), nil, Bound{1, PullBytes, scan})
		if err != nil || len(p.Out) != 1 || !p.More || r.Position() != 1 || examined != want {
			t.Errorf("%d units: %d entries examined, at %d: %+v, %v", scan, examined, r.Position(), p, err)
		}
	}
}

// POLL-2: entries that a reader skips are neither found nor waiting.
func TestPOLL2SkippedEvents(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{MaxCount: 100})
	for _, id := range []string{"skipped1", "1", "skipped2"} {
		add(t, topic, incident{ID: id})
	}
	r := topic.Reader(parse(t, typ, `{}`), "sub", nil, 0)
	r.SkipEvents(func(id string) bool { return strings.HasPrefix(id, "skipped") })
	if p, err := r.Fill(t.Context(), nil, Bound{1, PullBytes, PullScan}); err != nil || len(p.Out) != 1 || p.Out[0].Entry().EventID != "1" || p.More {
		t.Errorf("%+v, %v", p, err)
	}
}

// A counter is a bell that counts. An append must ring it before others see the new head: a subscription's owner takes
// a reader whose bell was not rung for one that has passed the head (REP-9).
type counter struct {
	t     *testing.T
	topic *Topic
	rung  int
}

func (c *counter) Ring() {
	if c.rung++; c.topic.mu.TryLock() {
		c.topic.mu.Unlock()
		c.t.Error("rung when others can see the head")
	}
}

// Appends that are made at the same time wake each reader until it has read all entries, before time passes.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		typ := newType(t)
		topic := open(t, typ, nil, store.LogOptions{})
		const readers, writers, each = 16, 4, 20
		began := time.Now()
		var done sync.WaitGroup
		for range readers {
			wake := NewWake()
			r := topic.Reader(parse(t, typ, `{"tag":"a"}`), "sub", wake, 0)
			n := 0
			done.Go(func() {
				defer r.Close()
				Loop{Source: &r, Wake: wake}.Run(t.Context(), func() (Turn, time.Time) {
					p, err := r.Next(t.Context(), nil, Batch(PullBatch))
					if n += len(p.Out); n == writers*each || err != nil {
						return Over, time.Time{}
					}
					return Rest, began.Add(time.Hour)
				})
			})
		}
		for w := range writers {
			done.Go(func() {
				for i := range each {
					add(t, topic, incident{ID: fmt.Sprint(w, "-", i), Tag: "a"})
				}
			})
		}
		done.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("a reader was not woken for %v", took)
		}
	})
}

// A reader gets what matches, in order; parked at the head it is woken for nothing else, passes what
// does not concern it without reading it, and never gaps, whatever is evicted meanwhile (trap 15).
func TestReader(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{MaxCount: 4})
	bell := &counter{t: t, topic: topic}
	r := topic.Reader(parse(t, typ, `{"tag":"a"}`), "sub", bell, 0)
	defer r.Close()
	add(t, topic, incident{ID: "1", Tag: "a"})
	add(t, topic, incident{ID: "2", Tag: "b"})
	if r.Park() {
		t.Fatal("parked with entries ahead")
	}
	if ids, p := pull(t, &r); !slices.Equal(ids, []string{"1"}) || p.More || p.Gap || r.Position() != 2 {
		t.Fatalf("%v %+v, at %d", ids, p, r.Position())
	}
	if !r.Park() || r.Passed() != 2 {
		t.Fatalf("not parked at the head, passed %d", r.Passed())
	}
	for i := range 10 {
		add(t, topic, incident{ID: fmt.Sprint("x", i), Tag: "b"})
	}
	if bell.rung != 0 || r.Passed() != 12 {
		t.Fatalf("woken %d times for others, passed %d", bell.rung, r.Passed())
	}
	add(t, topic, incident{ID: "3", Tag: "a"})
	if bell.rung != 1 || r.Passed() != 12 || r.Unpark() != 12 {
		t.Fatalf("woken %d times, passed %d", bell.rung, r.Passed())
	}
	if ids, p := pull(t, &r); !slices.Equal(ids, []string{"3"}) || p.Gap {
		t.Fatalf("%v %+v", ids, p)
	}
}

// A reader that is not parked when entries are evicted is told of the gap before what follows (PUSH-7).
func TestReaderGap(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{MaxCount: 2})
	r := topic.Reader(parse(t, typ, `{}`), "sub", nil, 0)
	for i := range 5 {
		add(t, topic, incident{ID: fmt.Sprint("x", i)})
	}
	if ids, p := pull(t, &r); len(ids) != 0 || !p.Gap || !p.More {
		t.Fatalf("%v %+v", ids, p)
	}
	if ids, p := pull(t, &r); !slices.Equal(ids, []string{"x3", "x4"}) || p.Gap {
		t.Fatalf("%v %+v", ids, p)
	}
}

// After a change of the type its readers are out of the index, woken, and park only with arguments of
// it; with a reset what was there before counts as evicted (EVOL-2, EVOL-3).
func TestRedefine(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{})
	add(t, topic, incident{ID: "1"})
	wake := NewWake()
	r := topic.Reader(parse(t, typ, `{"tag":"a"}`), "sub", wake, 1)
	if !r.Park() {
		t.Fatal("not parked")
	}
	next := newType(t)
	topic.Redefine(next, true)
	if h := topic.Holding(); len(h.Readers) != 0 || len(wake) != 1 {
		t.Fatalf("%v stay, woken %d times", h.Readers, len(wake))
	}
	if r.Unpark(); r.Park() {
		t.Fatal("parked with arguments of the old type")
	}
	r.Rebind(parse(t, next, `{"tag":"a"}`))
	if !r.Park() {
		t.Fatal("not parked with arguments of the new type")
	}
	r.Close()
	if oldest, head := topic.Bounds(); oldest != 2 || head != 1 {
		t.Errorf("from %d to %d", oldest, head)
	}
}

// Emits of one eventId with other data under way at once: each entry has the places of its own data,
// and nothing of what was prepared stays (OCC-5).
func TestConcurrentEmitsOfOneID(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{})
	a, b := store.Entry{EventID: "x", Data: []byte(`{"id":"x","tag":"a"}`)}, store.Entry{EventID: "x", Data: []byte(`{"id":"x","tag":"b"}`)}
	forgetA := topic.prepare(&a)
	forgetB := topic.prepare(&b)
	for _, e := range []store.Entry{a, b} {
		want := placesOf(typ, e.Data)
		if got := topic.preparedFor(&e); !slices.Equal(got.places[0].keys, want[0].keys) {
			t.Errorf("%s is expected with %v", e.Data, got.places)
		}
	}
	if p := topic.preparedFor(&store.Entry{EventID: "x", Data: []byte(`{}`)}); p.typ != nil {
		t.Error("other data was expected")
	}
	forgetA()
	if p := topic.preparedFor(&b); p.typ != typ {
		t.Error("the other emit was forgotten")
	}
	if forgetB(); len(topic.pending) != 0 {
		t.Errorf("%d payloads are still expected", len(topic.pending))
	}
}

// Hooks see one value for equal arguments, whichever notation came first and however often the
// author's struct is made again (trap 9). Arguments.Typed carries the trap, and Type.compile.
func TestTypedArgumentsStayEqual(t *testing.T) {
	typ := newType(t)
	for _, raw := range []string{`{"level":-0}`, `{"level":-0.0}`, `{ "level" : 0e0 }`} {
		a := parse(t, typ, raw)
		first := fmt.Sprint(*a.Typed().(*filter).Level)
		a.value.Store(nil)
		if again := fmt.Sprint(*a.Typed().(*filter).Level); first != "0" || again != "0" {
			t.Errorf("%s is %s, then %s", raw, first, again)
		}
	}
}

// What the records of a type keep of Transform's results is bounded in bytes, and each subscription
// gets its own all the same.
func TestVariantsAreBounded(t *testing.T) {
	typ := newType(t)
	typ.Transform = func(_ context.Context, p, a any) error {
		p.(*incident).Text = fmt.Sprint(*a.(*filter).Level, "v", strings.Repeat("v", 200_000))
		return nil
	}
	topic := open(t, typ, nil, store.LogOptions{})
	for i := range 5 {
		add(t, topic, incident{ID: fmt.Sprint("x", i)})
	}
	kept := func() (bytes int) {
		l := topic.life.Load()
		for i := range l.records {
			if r := l.records[i].Load(); r != nil {
				n := recent.Size(&r.entry)
				for _, v := range r.variants {
					n += formsOfAPayload*len(v.data) + variantOverhead
				}
				if item := r.plain.item.Load(); item != nil {
					n += len(*item)
				}
				if a := r.around.Load(); a != nil {
					n += len(a.before) + len(a.after)
				}
				if n != r.charged {
					t.Errorf("record %d keeps %d bytes, counted %d", r.entry.Position, n, r.charged)
				}
				bytes += n
			}
		}
		if counted := l.budget.bytes.Load(); int64(bytes) != counted || bytes > MaxRecordBytes {
			t.Errorf("%d bytes are kept, counted %d", bytes, counted)
		}
		return bytes
	}
	for i := range 60 {
		level := i % 50 // some come again
		r := topic.Reader(parse(t, typ, fmt.Sprintf(`{"level":%d}`, level)), "sub", nil, 0)
		p, err := r.Next(t.Context(), nil, Bound{10, 8 << 20, PullScan})
		if err != nil || len(p.Out) != 5 || !strings.Contains(string(p.Out[4].Item()), fmt.Sprintf(`"text":"%dv`, level)) {
			t.Fatalf("%d occurrences for level %d: %v", len(p.Out), level, err)
		}
	}
	if bytes := kept(); bytes < MaxRecordBytes/2 {
		t.Errorf("only %d bytes are kept", bytes)
	}
	for i := range 100 {
		add(t, topic, incident{ID: fmt.Sprint("y", i)})
	}
	kept()
}

// K12: payloads that records keep, and their encoded forms, are bounded in bytes as well, and each reader gets all.
func TestFormsAreBounded(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, nil, store.LogOptions{})
	r := topic.Reader(parse(t, typ, `{}`), "sub", nil, 0)
	const entries, size = 20, 1 << 20
	for i := range entries {
		add(t, topic, incident{ID: fmt.Sprint("x", i), Text: strings.Repeat("x", size)})
		p, err := r.Next(t.Context(), nil, Batch(10))
		if err != nil || len(p.Out) != 1 {
			t.Fatal(len(p.Out), err)
		}
		if frame, item := p.Out[0].Frame(nil), p.Out[0].Item(); len(frame[1]) < size || len(item) < size {
			t.Fatal(len(frame[1]), len(item))
		}
		kept, l := 0, topic.life.Load()
		for j := range l.records {
			if rec := l.records[j].Load(); rec != nil {
				kept += rec.charged
			}
		}
		if counted := l.budget.bytes.Load(); kept > MaxRecordBytes || int64(kept) != counted || i > 10 && kept < MaxRecordBytes/2 {
			t.Fatalf("%d bytes are kept, counted %d", kept, counted)
		}
	}
	again := topic.Reader(parse(t, typ, `{}`), "sub", nil, 0)
	n := 0
	for range entries {
		p, err := again.Next(t.Context(), nil, Batch(10))
		if n += len(p.Out); err != nil {
			t.Fatal(err)
		}
	}
	if n != entries {
		t.Errorf("%d occurrences of %d", n, entries)
	}
}

// A store that does not answer is none that can be appended to; the places that were prepared are
// dropped.
type refusingLog struct{ store.EventLog }

var errRefused = errors.New("refused")

func (refusingLog) Append(context.Context, store.Entry) (store.Position, error) { return 0, errRefused }

func (refusingLog) AppendOnce(context.Context, store.Entry, store.Position) (store.Position, bool, error) {
	return 0, false, errRefused
}

func TestExpectedIsForgotten(t *testing.T) {
	typ := newType(t)
	topic := open(t, typ, func(l store.EventLog) store.EventLog { return refusingLog{l} }, store.LogOptions{})
	for _, once := range []bool{false, true} {
		if _, err := topic.Append(t.Context(), store.Entry{EventID: "x", Data: []byte(`{"id":"x"}`)}, once); !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
		if len(topic.pending) != 0 {
			t.Errorf("%d payloads are still expected", len(topic.pending))
		}
	}
}

// An occurrence has three forms, which differ in the cursor only; the frame ends with the stream's tail.
func TestForms(t *testing.T) {
	typ := newType(t)
	typ.Echo = []byte(`"echo":"1"`)
	topic := open(t, typ, nil, store.LogOptions{})
	at, err := events.ParseTime("2026-01-02T03:04:05Z")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topic.Append(t.Context(), store.Entry{EventID: "x", Timestamp: at, Data: []byte(`{"id":"x"}`), Meta: []byte(`{"k":1}`)}, true); err != nil {
		t.Fatal(err)
	}
	r := topic.Reader(parse(t, typ, `{}`), "sub", nil, 0)
	_, p := pull(t, &r)
	o := &p.Out[0]
	const members = `{"eventId":"x","name":"e","timestamp":"2026-01-02T03:04:05Z","data":{"id":"x"}`
	cursor, pieces := "c", o.Frame([]byte(`"tail`))
	frame := string(bytes.Join(pieces[:], nil))
	for form, want := range map[string]string{
		string(o.Item()):        members + `,"_meta":{"k":1,"echo":"1"}}`,
		string(o.Body(&cursor)): members + `,"cursor":"c","_meta":{"k":1,"echo":"1"}}`,
		string(o.Body(nil)):     members + `,"cursor":null,"_meta":{"k":1,"echo":"1"}}`,
		frame:                   `{"jsonrpc":"2.0","method":"notifications/events/event","params":` + members + `,"cursor":` + string(r.Cursor()) + `,"_meta":{"k":1,"echo":"1","tail`,
	} {
		if form != want {
			t.Errorf("%s\nwant %s", form, want)
		}
	}
}

// The frames of private views share the text around the payload.
func TestFramesShareText(t *testing.T) {
	typ := newType(t)
	typ.PerPrincipal = func(_ context.Context, p, a any) (any, error) {
		p.(*incident).Text = fmt.Sprint(*a.(*filter).Level)
		return p, nil
	}
	topic := open(t, typ, nil, store.LogOptions{})
	add(t, topic, incident{ID: "x"})
	var first [4][]byte
	for level := range 3 {
		r := topic.Reader(parse(t, typ, fmt.Sprintf(`{"level":%d}`, level)), "sub", nil, 0)
		_, p := pull(t, &r)
		f := p.Out[0].Frame(nil)
		if want := fmt.Sprintf(`{"id":"x","text":"%d"}`, level); string(f[1]) != want {
			t.Errorf("%s, want %s", f[1], want)
		}
		if level == 0 {
			first = f
		}
		if &f[0][0] != &first[0][0] || &f[2][0] != &first[2][0] {
			t.Errorf("%s and %s are copied", f[0], f[2])
		}
	}
}

// A busyLog is one to which others append while it is opened here.
type busyLog struct {
	store.EventLog
	others func()
}

func (l *busyLog) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	oldest, head, err = l.EventLog.Bounds(ctx)
	if others := l.others; others != nil {
		l.others = nil
		others()
	}
	return oldest, head, err
}

// REP-2: what others append to a shared log while it is opened here, before and after its bounds are read,
// is told of before the topic is made. It is no fault, the topic knows how far it goes, and its readers get
// it.
func TestREP2AppendedWhileOpened(t *testing.T) {
	typ := newType(t)
	topic, err := Open(typ, Options{Slots: 64, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		log := memory.NewLog(store.LogOptions{Appended: appended})
		other := func(id string) {
			if _, err := log.Append(t.Context(), store.Entry{EventID: id, Data: json.RawMessage(`{"id":"` + id + `"}`)}); err != nil {
				t.Error(err)
			}
		}
		other("1")
		return &busyLog{log, func() { other("2") }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if head := topic.Head(); head != 2 {
		t.Fatalf("the head is %d", head)
	}
	add(t, topic, incident{ID: "3"})
	r := topic.Reader(parse(t, typ, `{}`), "", nil, 0)
	p, err := r.Next(t.Context(), nil, Batch(PullBatch))
	if err != nil || len(p.Out) != 3 || p.Gap {
		t.Fatalf("%d of 3 occurrences, gap %v, %v", len(p.Out), p.Gap, err)
	}
}
