package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// burstType is an event type that publishes an x-coalesce.
func burstType(t *testing.T) events.Type[tickArguments, tickPayload] {
	typ := tickType(t, "")
	typ.Name = "burst"
	typ.Meta = map[string]any{wire.MetaCoalesce: wire.Coalesce{Key: []string{"/channel"}, QuietSeconds: 10, MaxSeconds: 30, Keep: wire.KeepLatest}}
	return typ
}

// bursting has an event type with an x-coalesce and what its handlers saw.
type bursting struct {
	*house
	diary
	emitter *server.Emitter[tickPayload]
	start   time.Time
	fail    func(ev *tickEvent) error
}

func burstHouse(t *testing.T, test func(t *testing.T, h *bursting)) {
	t.Helper()
	consumeHouse(t, func(t *testing.T, house *house) {
		h := &bursting{house: house, start: time.Now()}
		var err error
		if h.emitter, err = server.Register(h.es, burstType(t), server.Hooks[tickArguments, tickPayload]{}); err != nil {
			t.Fatal(err)
		}
		test(t, h)
	})
}

func (h *bursting) emit(seqs ...int) {
	h.t.Helper()
	for _, seq := range seqs {
		p := tickPayload{Seq: seq, Channel: []string{"even", "odd"}[seq%2]}
		if err := h.emitter.Emit(h.t.Context(), p, events.WithID(fmt.Sprint("e", seq))); err != nil {
			h.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (h *bursting) handle(ctx context.Context, ev *tickEvent) error {
	b := BurstOf(ctx, ev)
	var ids []string
	for _, e := range b.Events {
		if e.ID != fmt.Sprint("e", e.Data.Seq) || e.Arguments != ev.Arguments {
			h.t.Errorf("%+v", e)
		}
		ids = append(ids, e.ID)
	}
	if b.Events[len(b.Events)-1] != ev {
		h.t.Error("the latest is another than the handler's")
	}
	h.add("%v: %d %s, %v to %v", time.Since(h.start), b.Count, strings.Join(ids, " "), b.First.Sub(h.start), b.Last.Sub(h.start))
	if h.fail != nil {
		return h.fail(ev)
	}
	return nil
}

// sorted is what was seen, where the order of keys is open.
func (h *bursting) sorted() []string {
	synctest.Wait()
	got := h.take()
	slices.Sort(got)
	return got
}

func (h *bursting) on(o ...SubscribeOption) Binding {
	return Handle(burstType(h.t), tickArguments{}, h.handle, o...)
}

// COAL-2: events of one key are handed over together once the key has been quiet, and at the latest some time after the
// first; the handler gets the latest with the count and the times. The values are the type's.
func TestCOAL2Latest(t *testing.T) {
	burstHouse(t, func(t *testing.T, h *bursting) {
		run := h.consume(ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 4}, h.on(WithCoalescing()))
		h.start = time.Now()
		h.emit(1, 2, 3)
		time.Sleep(5 * time.Second)
		h.emit(5)
		time.Sleep(5*time.Second - time.Nanosecond)
		h.want(t)
		time.Sleep(time.Nanosecond)
		h.want(t, "10s: 1 e2, 0s to 0s")
		time.Sleep(5*time.Second - time.Nanosecond)
		h.want(t)
		time.Sleep(time.Nanosecond)
		h.want(t, "15s: 3 e5, 0s to 5s")
		h.start = time.Now()
		for seq := 7; seq < 17; seq += 2 {
			h.emit(seq)
			time.Sleep(7 * time.Second)
		}
		h.want(t, "30s: 5 e15, 0s to 28s")
		run.end()
		h.want(t)
	})
}

// COAL-2: with all the handler gets each event in order, and what the option says goes before what the type says. Without
// the option nothing is joined, and neither is an event without the key.
func TestCOAL2All(t *testing.T) {
	burstHouse(t, func(t *testing.T, h *bursting) {
		run := h.consume(ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 4}, h.on(WithCoalescing(Coalescing{Keep: "all", Quiet: time.Second})))
		h.start = time.Now()
		h.emit(1, 2, 3, 5)
		time.Sleep(time.Second)
		got := h.sorted()
		if want := []string{"1s: 1 e2, 0s to 0s", "1s: 3 e1 e3 e5, 0s to 0s"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if err := h.emitter.Emit(t.Context(), tickPayload{Seq: 9}, events.WithID("e9")); err != nil {
			t.Fatal(err)
		}
		h.want(t, "1s: 1 e9, 1s to 1s")
		run.end()
		run = h.consume(ConsumeOptions{Store: clientmemory.NewCursors()}, h.on())
		h.emit(11, 13)
		h.want(t, "1s: 1 e11, 1s to 1s", "1s: 1 e13, 1s to 1s")
		run.end()
	})
}

// COAL-2: a burst settles as a whole. An end before that repeats it; an end after it repeats nothing.
func TestCOAL2Settles(t *testing.T) {
	burstHouse(t, func(t *testing.T, h *bursting) {
		cursors := clientmemory.NewCursors()
		for i, keep := range []string{wire.KeepLatest, wire.KeepAll} {
			first := 1 + 100*i
			of := []string{"e3", "e101 e103"}[i]
			consume := func() *consuming {
				h.start = time.Now()
				return h.consume(ConsumeOptions{Store: cursors}, h.on(WithCoalescing(Coalescing{Keep: keep}), WithCursorKey(keep)))
			}
			run := consume()
			h.emit(first, first+1, first+2)
			time.Sleep(9 * time.Second)
			run.end()
			h.want(t)
			run = consume()
			time.Sleep(10 * time.Second)
			got := h.sorted()
			if len(got) != 2 || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "10s: 2 "+of+",") }) {
				t.Errorf("%s: %q", keep, got)
			}
			run.end()
			run = consume()
			time.Sleep(time.Minute)
			run.end()
			h.want(t)
		}
	})
}

// COAL-2: a failed burst is tried again as a whole, and those of its key wait for it. In the end its events become dead
// letters, as many as were kept; each is tried again by itself.
func TestCOAL2Fails(t *testing.T) {
	for keep, letters := range map[string][]string{wire.KeepLatest: {"e3"}, wire.KeepAll: {"e1", "e3"}} {
		burstHouse(t, func(t *testing.T, h *bursting) {
			cursors := clientmemory.NewCursors()
			var mended atomic.Bool
			h.fail = func(ev *tickEvent) error {
				if !mended.Load() && ev.Data.Seq == 3 {
					return RetryAfter(15*time.Second, errors.New("no"))
				}
				return nil
			}
			run := h.consume(ConsumeOptions{Store: cursors, Workers: 4, MaxTries: 2}, h.on(WithCoalescing(Coalescing{Keep: keep})))
			h.start = time.Now()
			h.emit(1, 3)
			time.Sleep(11 * time.Second)
			of := strings.Join(letters, " ")
			h.want(t, "10s: 2 "+of+", 0s to 0s")
			h.emit(5, 2)
			time.Sleep(14 * time.Second)
			got := h.sorted()
			if want := []string{"21s: 1 e2, 11s to 11s", "25s: 1 e5, 11s to 11s", "25s: 2 " + of + ", 0s to 0s"}; !slices.Equal(got, want) {
				t.Errorf("%s: %q", keep, got)
			}
			var dead []string
			for d, err := range clientstore.DeadLetters(t.Context(), cursors) {
				if err != nil {
					t.Fatal(err)
				}
				dead = append(dead, d.EventID)
				if d.Tries != 2 || d.Error == "" || string(d.Data) != `{"seq":`+d.EventID[1:]+`,"channel":"odd"}` {
					t.Errorf("%+v", d)
				}
				if _, err := cursors.RetryDeadLetter(t.Context(), d.Sequence); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(dead, letters) {
				t.Errorf("%s: dead letters %q", keep, dead)
			}
			mended.Store(true)
			time.Sleep(10 * time.Second)
			for i, entry := range h.sorted() {
				if _, of, _ := strings.Cut(entry, ": "); of != "1 "+letters[i]+", 0s to 0s" {
					t.Errorf("%s: %q", keep, entry)
				}
			}
			run.end()
		})
	}
}

// COAL-2: an event that does not decode becomes a dead letter by itself, at once, and takes no other with it.
func TestCOAL2Undecodable(t *testing.T) {
	type small struct {
		Seq int8 `json:"seq"`
	}
	burstHouse(t, func(t *testing.T, h *bursting) {
		cursors := clientmemory.NewCursors()
		typ := events.Type[tickArguments, small]{Info: burstType(t).Info}
		run := h.consume(ConsumeOptions{Store: cursors, OnProblem: func(err error) { h.add("%T", err) }},
			Handle(typ, tickArguments{}, func(ctx context.Context, ev *events.Event[tickArguments, small]) error {
				h.add("%d %s", BurstOf(ctx, ev).Count, ev.ID)
				return nil
			}, WithCoalescing()))
		h.emit(1, 1001, 3)
		h.want(t, "*client.PayloadError")
		time.Sleep(10 * time.Second)
		h.want(t, "2 e3")
		run.end()
		for d := range clientstore.DeadLetters(t.Context(), cursors) {
			if d.EventID != "e1001" {
				t.Errorf("%+v", d)
			}
		}
	})
}

// COAL-2, COAL-4: a burst is handed over early before more keys are open, or more events unsettled, than may be.
func TestCOAL2Early(t *testing.T) {
	burstHouse(t, func(t *testing.T, h *bursting) {
		cl := h.connect(Options{Logger: slog.New(slog.DiscardHandler), RecentIDs: 8})
		run := consume(t, cl, ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(WithCoalescing()))
		h.start = time.Now()
		h.emit(1, 3, 5)
		h.want(t)
		h.emit(7)
		h.want(t, "0s: 4 e7, 0s to 0s")
		h.emit(2, 9, 4, 6)
		h.want(t, "0s: 3 e6, 0s to 0s")
		time.Sleep(10 * time.Second)
		h.want(t, "10s: 1 e9, 0s to 0s")
		run.end()
	})
	burstHouse(t, func(t *testing.T, h *bursting) {
		cl := h.connect(Options{Logger: slog.New(slog.DiscardHandler), MaxMessage: 64 << 10})
		run := consume(t, cl, ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(WithCoalescing(Coalescing{Keep: "all"})))
		h.start = time.Now()
		for seq := range 3 {
			h.emitter.Emit(t.Context(), tickPayload{Seq: seq, Channel: strings.Repeat("x", 30<<10)}, events.WithID(fmt.Sprint("e", seq)))
		}
		h.want(t, "0s: 3 e0 e1 e2, 0s to 0s")
		run.end()
		// What the latest stands for holds no bytes.
		run = consume(t, h.connect(Options{Logger: slog.New(slog.DiscardHandler), MaxMessage: 64 << 10}), ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(WithCoalescing()))
		h.start = time.Now()
		for seq := 10; seq < 19; seq++ {
			h.emitter.Emit(t.Context(), tickPayload{Seq: seq, Channel: strings.Repeat("x", 30<<10)}, events.WithID(fmt.Sprint("e", seq)))
		}
		h.want(t)
		time.Sleep(10 * time.Second)
		h.want(t, "10s: 9 e18, 0s to 0s")
		run.end()
	})
}

// COAL-2: what cannot be joined is refused, and so is joining where no handler is.
func TestCOAL2Refuses(t *testing.T) {
	burstHouse(t, func(t *testing.T, h *bursting) {
		cl := h.connect(Options{Logger: slog.New(slog.DiscardHandler)})
		nothing := func(context.Context, *tickEvent) error { return nil }
		key := []string{"/channel"}
		for want, b := range map[string]Binding{
			"publishes no x-coalesce; set Key and Quiet": h.house.on(nothing, WithCoalescing()),
			"publishes no x-coalesce":                    h.house.on(nothing, WithCoalescing(Coalescing{Key: key})),
			"Max 1s is less than Quiet 10s":              h.on(WithCoalescing(Coalescing{Max: time.Second})),
			`the pointer "channel" in Key is not`:        h.on(WithCoalescing(Coalescing{Key: []string{"channel"}})),
			"there are 9 pointers in Key":                h.on(WithCoalescing(Coalescing{Key: slices.Repeat(key, 9)})),
			"Quiet or Max, is negative":                  h.on(WithCoalescing(Coalescing{Quiet: -1})),
			`unknown Keep "first"`:                       h.on(WithCoalescing(Coalescing{Keep: "first"})),
			"one Coalescing at most":                     h.on(WithCoalescing(Coalescing{}, Coalescing{})),
		} {
			if err := Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, b); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", want, err)
			}
		}
		if _, err := Subscribe(t.Context(), cl, burstType(t), tickArguments{}, WithCoalescing()); err == nil || !strings.Contains(err.Error(), "for Consume") {
			t.Error(err)
		}
		bad := burstType(t)
		bad.Name, bad.Meta = "bad", map[string]any{wire.MetaCoalesce: map[string]any{"key": []string{"/channel"}, "quietSeconds": -1}}
		if _, err := server.Register(h.es, bad, server.Hooks[tickArguments, tickPayload]{}); err != nil {
			t.Fatal(err)
		}
		err := Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, Handle(bad, tickArguments{}, nothing, WithCoalescing()))
		if err == nil || !strings.Contains(err.Error(), "quietSeconds is -1") {
			t.Error(err)
		}
		run := consume(t, h.connect(Options{Logger: slog.New(slog.DiscardHandler)}), ConsumeOptions{Store: clientmemory.NewCursors()},
			Handle(bad, tickArguments{}, nothing, WithCoalescing(Coalescing{Key: key, Quiet: 1, Max: 1}))) // values of one's own need none
		run.end()
	})
}

// COAL-4: whatever comes when, whatever fails, over restarts: each event is in exactly one burst that is settled, those of
// a key in order, and no burst waits longer than its times say.
func TestCOAL4Property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := coalesceCase{
			quiet: time.Duration(rapid.IntRange(1, 5).Draw(rt, "quiet")) * time.Second, keep: rapid.SampledFrom([]string{wire.KeepLatest, wire.KeepAll}).Draw(rt, "keep"),
			workers: rapid.IntRange(1, 4).Draw(rt, "workers"), recent: rapid.SampledFrom([]int{6, 20, 4096}).Draw(rt, "recentIDs"),
			fails: rapid.IntRange(-2, 5).Draw(rt, "every so many calls fail"), restart: rapid.IntRange(-20, 20).Draw(rt, "restart"),
		}
		c.max = c.quiet + time.Duration(rapid.IntRange(0, 9).Draw(rt, "beyond"))*time.Second
		for range rapid.IntRange(1, 40).Draw(rt, "events") {
			c.waits = append(c.waits, time.Duration(rapid.SampledFrom([]int{0, 0, 100, 1000, 1500, 6000}).Draw(rt, "wait"))*time.Millisecond)
			c.channels = append(c.channels, rapid.IntRange(0, 4).Draw(rt, "channel"))
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = c.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

type coalesceCase struct {
	quiet, max      time.Duration
	keep            string
	workers, recent int
	fails, restart  int
	waits           []time.Duration
	channels        []int
}

func (c *coalesceCase) run(t *testing.T) error {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer es.Shutdown(context.Background())
	typ := tickType(t, "")
	emitter, err := server.Register(es, typ, server.Hooks[tickArguments, tickPayload]{})
	if err != nil {
		return err
	}
	var (
		mu      sync.Mutex
		faults  []string
		settled = map[string][]int{} // sequences by channel
		counts  = map[string]int{}
		calls   int
	)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	handle := func(ctx context.Context, ev *tickEvent) error {
		b := BurstOf(ctx, ev)
		mu.Lock()
		defer mu.Unlock()
		calls++
		first, last := b.First, b.Last
		if keep := len(b.Events); c.keep == wire.KeepAll && keep != b.Count || c.keep == wire.KeepLatest && keep != 1 {
			fault("%d of %d events", keep, b.Count)
		}
		for _, e := range b.Events {
			if e.Data.Channel != ev.Data.Channel {
				fault("%s with %s", e.Data.Channel, ev.Data.Channel)
			}
		}
		if c.recent == 4096 && c.fails < 2 && c.restart < 0 {
			// Nothing but time hands over.
			due := last.Add(c.quiet)
			if at := first.Add(c.max); at.Before(due) {
				due = at
			}
			if now := time.Now(); !now.Equal(due) {
				fault("handed over %v after it was due", now.Sub(due))
			}
		}
		if c.recent/2 < b.Count {
			fault("%d events in one burst", b.Count)
		}
		if c.fails > 1 && calls%c.fails == 1 {
			return errors.New("no")
		}
		for _, e := range b.Events {
			settled[ev.Data.Channel] = append(settled[ev.Data.Channel], e.Data.Seq)
		}
		counts[ev.Data.Channel] += b.Count
		return nil
	}
	var cursors clientstore.ConsumerStore = clientmemory.NewCursors()
	start := func() (stop func() error, err error) {
		mine, theirs := mcp.NewInMemoryTransports()
		served := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer close(served)
			transport.Run(ctx, es, theirs)
		}()
		cl, err := Connect(context.Background(), mine, Options{Logger: slog.New(slog.DiscardHandler), RecentIDs: c.recent})
		if err != nil {
			cancel()
			return nil, err
		}
		done := make(chan error, 1)
		consuming, end := context.WithCancel(context.Background())
		go func() {
			done <- Consume(consuming, cl, ConsumeOptions{Store: cursors, Workers: c.workers, MaxTries: 100, Retry: Backoff{Min: time.Second, Max: time.Second}},
				Handle(typ, tickArguments{}, handle, WithCoalescing(Coalescing{Key: []string{"/channel"}, Quiet: c.quiet, Max: c.max, Keep: c.keep})))
		}()
		synctest.Wait()
		return func() error {
			end()
			err := <-done
			cl.Close()
			cancel()
			<-served
			return err
		}, nil
	}
	stop, err := start()
	if err != nil {
		return err
	}
	for n, wait := range c.waits {
		time.Sleep(wait)
		if n == c.restart {
			if err := stop(); err != nil {
				return err
			}
			if stop, err = start(); err != nil {
				return err
			}
		}
		if err := emitter.Emit(context.Background(), tickPayload{Seq: n, Channel: fmt.Sprint(c.channels[n])}); err != nil {
			return err
		}
	}
	time.Sleep(10 * time.Minute)
	if err := stop(); err != nil {
		return err
	}
	want, wantCounts := map[string][]int{}, map[string]int{}
	for n, channel := range c.channels {
		want[fmt.Sprint(channel)] = append(want[fmt.Sprint(channel)], n)
		wantCounts[fmt.Sprint(channel)]++
	}
	for channel := range want {
		got := settled[channel]
		if counts[channel] != wantCounts[channel] {
			fault("channel %s: %d events are settled, want %d", channel, counts[channel], wantCounts[channel])
		}
		if c.keep == wire.KeepAll && !slices.Equal(got, want[channel]) {
			fault("channel %s: settled %v, want %v", channel, got, want[channel])
		}
		if c.keep == wire.KeepLatest && (!slices.IsSorted(got) || len(got) == 0 || got[len(got)-1] != want[channel][len(want[channel])-1]) {
			fault("channel %s: settled %v of %v", channel, got, want[channel])
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}

// BenchmarkOpenBursts is what 100,000 open keys take in a client, each with the latest of three events of 100 bytes.
func BenchmarkOpenBursts(b *testing.B) {
	const keys = 100_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f := &flow{}
		g := newBurstJoiner(f, Coalescing{Quiet: time.Hour, Max: time.Hour}, keys)
		for n := range 3 * keys {
			key := fmt.Sprintf("%020d", n%keys)
			g.bursts.Add(key, &job{f: f, place: &ledgerEntry{id: key}, o: events.Occurrence{ID: key, Name: "tick", Raw: make([]byte, 100)}}, time.Now())
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/key")
		if g.bursts.Open() != keys || f.held != -2*keys*100 {
			b.Fatal(g.bursts.Open(), f.held)
		}
	}
}

// COAL-2: what an application does not say is as the event type says, and Max where neither says anything that fits.
func TestCoalescingComplete(t *testing.T) {
	said := map[string]any{wire.MetaCoalesce: map[string]any{"key": []string{"/a"}, "quietSeconds": 3, "maxSeconds": 9, "keep": "all"}}
	b := []string{"/b"}
	for _, tt := range []struct {
		name string
		own  Coalescing
		meta map[string]any
		want Coalescing
	}{
		{"the type says all", Coalescing{}, said, Coalescing{Key: []string{"/a"}, Quiet: 3 * time.Second, Max: 9 * time.Second, Keep: "all"}},
		{"the application says all", Coalescing{Key: b, Quiet: time.Second, Max: time.Minute, Keep: "latest"}, said, Coalescing{Key: b, Quiet: time.Second, Max: time.Minute, Keep: "latest"}},
		{"a longer quiet time", Coalescing{Quiet: 9 * time.Second}, said, Coalescing{Key: []string{"/a"}, Quiet: 9 * time.Second, Max: 9 * time.Second, Keep: "all"}},
		{"a quiet time that the type's max does not fit", Coalescing{Quiet: 10 * time.Second}, said, Coalescing{Key: []string{"/a"}, Quiet: 10 * time.Second, Max: 100 * time.Second, Keep: "all"}},
		{"nobody says the max", Coalescing{Key: b, Quiet: time.Minute}, nil, Coalescing{Key: b, Quiet: time.Minute, Max: 10 * time.Minute, Keep: "latest"}},
		{"at most a day", Coalescing{Key: b, Quiet: 5 * time.Hour}, nil, Coalescing{Key: b, Quiet: 5 * time.Hour, Max: 24 * time.Hour, Keep: "latest"}},
		{"longer than a day", Coalescing{Key: b, Quiet: 25 * time.Hour}, nil, Coalescing{Key: b, Quiet: 25 * time.Hour, Max: 25 * time.Hour, Keep: "latest"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.own
			if err := c.setDefaults(tt.meta); err != nil || !reflect.DeepEqual(c, tt.want) {
				t.Errorf("%+v, %v; want %+v", c, err, tt.want)
			}
		})
	}
}
