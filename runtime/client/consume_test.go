package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

type tickEvent = events.Event[tickArguments, tickPayload]

// A diary is what handlers and callbacks of a test saw.
type diary struct {
	mu   sync.Mutex
	seen []string
}

func (r *diary) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprintf(format, args...))
}

// take returns what was seen since the last time.
func (r *diary) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

func (r *diary) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := r.take(); !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

// A consuming is a Consume that runs.
type consuming struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
}

// consume starts Consume of all ticks with a client of its own.
func (h *house) consume(o ConsumeOptions, b ...Binding) *consuming {
	h.t.Helper()
	cl := h.connect(Options{Logger: slog.New(slog.DiscardHandler)})
	return consume(h.t, cl, o, b...)
}

func consume(t *testing.T, cl *Client, o ConsumeOptions, b ...Binding) *consuming {
	ctx, cancel := context.WithCancel(t.Context())
	c := &consuming{t: t, cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer cl.Close()
		c.done <- Consume(ctx, cl, o, b...)
	}()
	synctest.Wait()
	return c
}

// end is the orderly end.
func (c *consuming) end() {
	c.t.Helper()
	c.cancel()
	if err := <-c.done; err != nil {
		c.t.Fatal(err)
	}
}

func (h *house) on(f func(ctx context.Context, ev *tickEvent) error, o ...SubscribeOption) Binding {
	return Handle(tickType(h.t, ""), tickArguments{}, f, o...)
}

func consumeHouse(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHouse(t, carriers[1], server.Options{})) })
}

// CON-1, CON-2: one call serves several subscriptions over every carrier until its context is done; handlers that run
// then finish, nothing new starts, and the next run gets what the last one has not handled, and nothing twice.
func TestCON1Drain(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{})
		cursors := clientmemory.NewCursors()
		var mu sync.Mutex
		handled := map[string]int{}
		release := make(chan struct{})
		on := func(channel string, mode string) Binding {
			return Handle(tickType(t, ""), tickArguments{Channel: channel}, func(ctx context.Context, ev *tickEvent) error {
				if ev.Arguments.Channel != channel || ev.ID != fmt.Sprint("e", ev.Data.Seq) {
					t.Errorf("%+v", ev)
				}
				if ev.Data.Seq > 10 {
					<-release
				}
				mu.Lock()
				defer mu.Unlock()
				handled[channel+ev.ID]++
				return nil
			}, WithMode(mode), WithCursorKey(channel))
		}
		start := func() *consuming {
			run := h.consume(ConsumeOptions{Store: cursors, Workers: 4}, on("even", "push"), on("odd", "poll"))
			time.Sleep(10 * time.Second)
			return run
		}
		run := start()
		h.emit(1, 100)
		time.Sleep(5 * time.Second)
		run.cancel()
		synctest.Wait()
		select {
		case err := <-run.done:
			t.Fatalf("returned while handlers run: %v", err)
		default:
		}
		close(release)
		run.end()
		if n := len(handled); n < 4 || n > 14 {
			t.Errorf("%d handled, want the 4 of the workers and at most 10 before", n)
		}
		run = start()
		time.Sleep(5 * time.Second)
		run.end()
		for i := 1; i <= 100; i++ {
			if id := fmt.Sprint([]string{"even", "odd"}[i%2], "e", i); handled[id] != 1 {
				t.Errorf("%s was handled %d times", id, handled[id])
			}
		}
	})
}

// CON-1: the drain is bounded. What its end has cut short is received again.
func TestCON1DrainTimeout(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		cursors := clientmemory.NewCursors()
		var seen diary
		stubborn := make(chan struct{})
		run := h.consume(ConsumeOptions{Store: cursors, Workers: 3, DrainTimeout: 5 * time.Second}, h.on(func(ctx context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			switch ev.Data.Seq {
			case 1:
				return nil
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			<-stubborn
			return nil
		}))
		h.emit(1, 3)
		synctest.Wait()
		start := time.Now()
		run.cancel()
		err := <-run.done
		if d := time.Since(start); d != 6*time.Second || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 handlers") {
			t.Errorf("after %v: %v", d, err)
		}
		close(stubborn)
		seen.take()
		run = h.consume(ConsumeOptions{Store: cursors}, h.on(func(ctx context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return nil
		}))
		seen.want(t, "e2", "e3")
		run.end()
	})
}

// CON-1, CON-3: a handler that the end of the drain cuts off has not failed: its event is not given up, however few tries
// it has, and the next run gets it.
func TestCON1DrainMakesNoDeadLetter(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		cursors := clientmemory.NewCursors()
		run := h.consume(ConsumeOptions{Store: cursors, MaxTries: 1, DrainTimeout: time.Second}, h.on(func(ctx context.Context, _ *tickEvent) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		h.emit(1, 1)
		synctest.Wait()
		run.cancel()
		if err := <-run.done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the drain ended with %v", err)
		}
		if letters, err := cursors.DeadLetters(t.Context(), 0, 10); err != nil || len(letters) != 0 {
			t.Errorf("given up: %+v, %v", letters, err)
		}
		var seen diary
		run = h.consume(ConsumeOptions{Store: cursors}, h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return nil
		}))
		seen.want(t, "e1")
		run.end()
	})
}

// CON-2: a process that is killed before its first event is handled loses nothing: the position at which it began is
// stored before a handler is called, although the store has just failed.
func TestCON2KilledBeforeTheFirstEventIsHandled(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		const key = "cursor"
		cursors, kept := &failing{Cursors: clientmemory.NewCursors(), save: errors.New("disk full")}, clientmemory.NewCursors()
		run := h.consume(ConsumeOptions{Store: cursors}, h.on(func(ctx context.Context, _ *tickEvent) error {
			saved, ok, err := cursors.Load(ctx, key)
			if err != nil || !ok {
				t.Errorf("nothing is stored when the first handler runs: %v", err)
				return err
			}
			return kept.Save(ctx, key, saved) // what a kill at this moment leaves
		}, WithCursorKey(key)))
		cursors.set(func() { cursors.save = nil })
		h.emit(1, 1)
		time.Sleep(time.Minute)
		run.end()
		var seen diary
		run = h.consume(ConsumeOptions{Store: kept}, h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return nil
		}, WithCursorKey(key)))
		seen.want(t, "e1")
		run.end()
	})
}

// CON-2: while the store does not take the first position, nothing is handled: what was handled then would not be known to
// have begun.
func TestCON2NothingIsHandledBeforeThePositionIsStored(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		cursors := &failing{Cursors: clientmemory.NewCursors(), save: errors.New("disk full")}
		var seen, problems diary
		run := h.consume(ConsumeOptions{Store: cursors, Retry: Backoff{Min: time.Minute, Max: time.Minute}, OnProblem: func(err error) {
			problems.add("%v", errors.As(err, new(*CommitError)))
		}}, h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return nil
		}))
		h.emit(1, 1)
		time.Sleep(10 * time.Second)
		seen.want(t)
		if told := problems.take(); !slices.Contains(told, "true") || slices.Contains(told, "false") {
			t.Errorf("told: %v", told)
		}
		cursors.set(func() { cursors.save = nil })
		time.Sleep(time.Minute)
		seen.want(t, "e1")
		run.end()
	})
}

// Consume refuses what it could not do, before anything is sent.
func TestConsumeRefuses(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		nothing := func(context.Context, *tickEvent) error { return nil }
		cl := h.connect(Options{})
		for want, run := range map[string]func() error{
			"Store is nil":       func() error { return Consume(t.Context(), cl, ConsumeOptions{}, h.on(nothing)) },
			"nothing to consume": func() error { return Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}) },
			"not made by Handle": func() error {
				return Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, Binding{})
			},
			"WithManualAck": func() error {
				return Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(nothing, WithManualAck()))
			},
			ErrKeyInUse.Error(): func() error {
				return Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(nothing), h.on(nothing))
			},
			"Webhook.Received": func() error {
				cl.webhooks = &webhookState{WebhookOptions: WebhookOptions{Received: clientmemory.NewReceived(clientmemory.NewCursors())}}
				defer func() { cl.webhooks = nil }()
				return Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(nothing))
			},
		} {
			if err := run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", want, err)
			}
		}
	})
}

// CON-3: a failed event is tried again with backoff until it is a dead letter with its error, tries and times; Discard
// gives up at once, RetryAfter says when, a panic and runtime.Goexit are errors. The watermark passes all of them.
func TestCON3Retry(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		cursors := clientmemory.NewCursors()
		start := time.Now()
		var mu sync.Mutex
		tries := map[int][]time.Duration{}
		run := h.consume(ConsumeOptions{Store: cursors, Workers: 2, MaxTries: 3, Retry: Backoff{Min: 8 * time.Second, Max: time.Minute}},
			h.on(func(ctx context.Context, ev *tickEvent) error {
				mu.Lock()
				defer mu.Unlock()
				tries[ev.Data.Seq] = append(tries[ev.Data.Seq], time.Since(start))
				switch n := len(tries[ev.Data.Seq]); ev.Data.Seq {
				case 1:
					return errors.New("never")
				case 2:
					return fmt.Errorf("wrapped: %w", Discard(errors.New("useless"+strings.Repeat("é", maxErrorText))))
				case 3:
					if n == 1 {
						return RetryAfter(time.Hour, errors.New("closed for lunch"))
					}
				case 4:
					panic("at the disco")
				case 5:
					runtime.Goexit()
				}
				return nil
			}))
		h.emit(1, 6)
		time.Sleep(2 * time.Hour)
		run.end()
		if n := len(tries[6]); n != 1 {
			t.Errorf("e6 was tried %d times", n)
		}
		if got := tries[3]; len(got) != 2 || got[1] != time.Hour {
			t.Errorf("RetryAfter: %v", got)
		}
		if got := tries[1]; len(got) != 3 || got[1] < 4*time.Second || got[1] > 8*time.Second || got[2]-got[1] < 8*time.Second || got[2]-got[1] > 16*time.Second {
			t.Errorf("backoff: %v", got)
		}
		found := map[string]clientstore.DeadLetter{}
		for d, err := range clientstore.DeadLetters(t.Context(), cursors) {
			if err != nil {
				t.Fatal(err)
			}
			found[d.EventID] = d
		}
		for id, want := range map[string]struct {
			tries int
			text  string
		}{"e1": {3, "never"}, "e2": {1, "useless"}, "e4": {3, "panic: at the disco\n"}, "e5": {3, "runtime.Goexit"}} {
			d := found[id]
			if d.Tries != want.tries || !strings.Contains(d.Error, want.text) || d.Event != "tick" || d.Timestamp.IsZero() ||
				string(d.Data) != fmt.Sprintf(`{"seq":%s,"channel":"%s"}`, id[1:], map[bool]string{true: "even", false: "odd"}[id == "e2" || id == "e4"]) {
				t.Errorf("%s: %+v", id, d)
			}
			if !d.First.Equal(start) || d.Last.Sub(start) != tries[int(id[1]-'0')][want.tries-1] {
				t.Errorf("%s: first %v, last %v", id, d.First.Sub(start), d.Last.Sub(start))
			}
		}
		if len(found) != 4 {
			t.Errorf("%d dead letters", len(found))
		}
		if text := found["e2"].Error; !utf8.ValidString(text) || len(text) > maxErrorText+len("\uFFFD") {
			t.Errorf("an error of %d bytes is cut inside a character", len(text))
		}
		if d := found["e4"]; !strings.Contains(d.Error, "TestCON3Retry") {
			t.Errorf("no stack in %q", d.Error)
		}
		var again diary
		run = h.consume(ConsumeOptions{Store: cursors}, h.on(func(_ context.Context, ev *tickEvent) error {
			again.add("%s", ev.ID)
			return nil
		}))
		again.want(t)
		run.end()
	})
}

// CON-4: a dead letter that is made due is handled again by a Consume that runs and by a later one; it goes when that
// succeeds and is put back when it fails.
func TestCON4RetryDeadLetter(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		cursors := clientmemory.NewCursors()
		var seen diary
		fails := true
		o := ConsumeOptions{Store: cursors, MaxTries: 1}
		on := h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s %d %s", ev.ID, ev.Data.Seq, ev.Timestamp)
			if fails {
				return errors.New("no")
			}
			return nil
		})
		letters := func() (all []clientstore.DeadLetter) {
			for d, err := range clientstore.DeadLetters(t.Context(), cursors) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, d)
			}
			return all
		}
		due := func() {
			for _, d := range letters() {
				if ok, err := cursors.RetryDeadLetter(t.Context(), d.Sequence); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		run := h.consume(o, on)
		const n = 64 + 10 // more than a page, and more than are in hand at once
		h.emit(1, n)
		synctest.Wait()
		first := seen.take()
		if len(first) != n || len(letters()) != n {
			t.Fatalf("%d tries, %d letters", len(first), len(letters()))
		}
		due()
		time.Sleep(retryInterval)
		synctest.Wait()
		if got := seen.take(); !slices.Equal(got, first) {
			t.Fatalf("tried again: %q", got)
		}
		for _, d := range letters() {
			if d.Tries != 2 || d.Due {
				t.Fatalf("put back: %+v", d)
			}
		}
		time.Sleep(time.Minute)
		seen.want(t)
		run.end()
		due()
		fails = false
		run = h.consume(o, on)
		seen.want(t, first...)
		if left := letters(); len(left) != 0 {
			t.Errorf("%d letters are left", len(left))
		}
		run.end()
	})
}

// A failing is a store that fails when told to.
type failing struct {
	*clientmemory.Cursors
	mu    sync.Mutex
	put   error
	save  error
	saves []time.Time
}

func (f *failing) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *failing) Save(ctx context.Context, key string, s clientstore.Saved) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.save != nil {
		return f.save
	}
	f.saves = append(f.saves, time.Now())
	return f.Cursors.Save(ctx, key, s)
}

func (f *failing) PutDeadLetter(ctx context.Context, d clientstore.DeadLetter, limit int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.put != nil {
		return f.put
	}
	return f.Cursors.PutDeadLetter(ctx, d, limit)
}

// CON-4: when the bound is reached Consume ends with an error that says so, and the event is received again; a store
// that fails is told of and tried again.
func TestCON4Full(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		m := &metertest.Meter{}
		st := &failing{Cursors: clientmemory.NewCursors()}
		var seen, problems diary
		o := ConsumeOptions{Store: st, MaxTries: 1, MaxDeadLetters: 2, Telemetry: m.Recorder(nil), OnProblem: func(err error) { problems.add("%v", err) }}
		on := h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return errors.New("no")
		})
		run := h.consume(o, on)
		st.set(func() { st.put = errors.New("disk is full") })
		h.emit(1, 1)
		problems.want(t, `client: committing cursor "`+defaultKey("tick", json.RawMessage(`{}`))+`": disk is full`)
		st.set(func() { st.put = nil })
		h.emit(2, 3)
		err := <-run.done
		if !errors.Is(err, clientstore.ErrDeadLettersFull) || !strings.Contains(err.Error(), `tick: event "e3"`) || !strings.Contains(err.Error(), `"no"`) {
			t.Errorf("%v", err)
		}
		if n := m.Counted()["mcp.events.consume.problems error.type=dead_letters_full,mcp.events.type=tick"]; n != 1 {
			t.Errorf("counted %v", m.Counted())
		}
		seen.want(t, "e1", "e2", "e3")
		o.MaxDeadLetters = 3
		run = h.consume(o, on)
		seen.want(t, "e3")
		run.end()
	})
}

// CON-5: events of one key are handled one after the other, in order, also over retries and event types; a slow key
// delays no other. One worker without a key handles all in order.
func TestCON5Order(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		var seen diary
		hold := make(chan struct{})
		o := ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 4, Key: func(o events.Occurrence) string {
			var p tickPayload
			_ = json.Unmarshal(o.Raw, &p)
			return fmt.Sprint(p.Seq % 3)
		}}
		failed := false
		run := h.consume(o, h.on(func(_ context.Context, ev *tickEvent) error {
			switch {
			case ev.Data.Seq == 3:
				<-hold
			case ev.Data.Seq == 2 && !failed:
				failed = true
				return RetryAfter(time.Minute, errors.New("later"))
			}
			seen.add("%s", ev.ID)
			return nil
		}))
		h.emit(1, 12)
		seen.want(t, "e1", "e4", "e7", "e10") // 2 waits for its retry, 3 runs
		time.Sleep(time.Minute)
		seen.want(t, "e2", "e5", "e8", "e11")
		close(hold)
		seen.want(t, "e3", "e6", "e9", "e12")
		run.end()
	})
	consumeHouse(t, func(t *testing.T, h *house) {
		var seen diary
		failed := false
		run := h.consume(ConsumeOptions{Store: clientmemory.NewCursors()}, h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			if ev.Data.Seq == 2 && !failed {
				failed = true
				return RetryAfter(time.Minute, errors.New("later"))
			}
			return nil
		}))
		h.emit(1, 4)
		seen.want(t, "e1", "e2")
		time.Sleep(time.Minute)
		seen.want(t, "e2", "e3", "e4")
		run.end()
	})
}

// CON-3, CON-5: an event whose key cannot be told becomes a dead letter, and the others go on.
func TestCON5KeyPanics(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		var seen diary
		letters := clientmemory.NewCursors()
		run := h.consume(ConsumeOptions{Store: letters, Key: func(o events.Occurrence) string {
			if o.ID == "e2" {
				panic("no key")
			}
			return ""
		}}, h.on(func(_ context.Context, ev *tickEvent) error { seen.add("%s", ev.ID); return nil }))
		h.emit(1, 3)
		seen.want(t, "e1", "e3")
		run.end()
		all, err := letters.DeadLetters(t.Context(), 0, 10)
		if err != nil || len(all) != 1 || all[0].EventID != "e2" || all[0].Tries != 0 || !strings.Contains(all[0].Error, "Key: panic: no key") {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// CON-2: a subscription is held up once half as many events have passed the oldest one as its client remembers, and goes on
// when that is settled.
func TestCON2Bounded(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		var handled atomic.Int64
		hold := make(chan struct{})
		cl := h.connect(Options{RecentIDs: 20, Buffer: 4})
		run := consume(t, cl, ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 2}, h.on(func(_ context.Context, ev *tickEvent) error {
			if ev.Data.Seq == 1 {
				<-hold
			}
			handled.Add(1)
			return nil
		}))
		h.emit(1, 100)
		synctest.Wait()
		if n := handled.Load(); n != 9 {
			t.Errorf("%d handled beyond the oldest, want 9", n)
		}
		close(hold)
		time.Sleep(time.Minute)
		if n := handled.Load(); n != 100 {
			t.Errorf("%d handled", n)
		}
		run.end()
	})
}

// CON-6: a server that is away when Consume begins is waited for, and told of once; one that refuses is an error at
// once, and so is one that ends a subscription.
func TestCON6(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		var seen, problems diary
		var down atomic.Bool
		open := h.transport().(*dialed).open
		cl, err := Connect(t.Context(), Dial(func(ctx context.Context) (mcp.Transport, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return open(ctx)
		}), Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		h.stop()
		o := ConsumeOptions{Store: clientmemory.NewCursors(), OnProblem: func(err error) { problems.add("problem") }}
		run := consume(t, cl, o, h.on(func(_ context.Context, ev *tickEvent) error {
			seen.add("%s", ev.ID)
			return nil
		}))
		time.Sleep(10 * time.Minute)
		problems.want(t, "problem")
		h.start()
		down.Store(false)
		time.Sleep(2 * time.Minute)
		h.emit(1, 2)
		seen.want(t, "e1", "e2")
		if err := h.es.Remove("tick"); err != nil {
			t.Fatal(err)
		}
		err = <-run.done
		var terminated *TerminatedError
		if !errors.As(err, &terminated) || !errors.Is(err, events.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
	consumeHouse(t, func(t *testing.T, h *house) {
		cl := h.connect(Options{})
		nothing := func(context.Context, *events.Event[json.RawMessage, json.RawMessage]) error { return nil }
		good := h.on(func(context.Context, *tickEvent) error { return nil })
		for want, b := range map[error]Binding{
			events.ErrNotFound:      Handle(Dynamic("tock"), nil, nothing),
			events.ErrInvalidParams: Handle(Dynamic("tick"), json.RawMessage(`{"nonsense":1}`), nothing),
		} {
			start := time.Now()
			err := Consume(t.Context(), cl, ConsumeOptions{Store: clientmemory.NewCursors()}, good, b)
			if !errors.Is(err, want) || time.Since(start) > 0 {
				t.Errorf("after %v: %v, want %v", time.Since(start), err, want)
			}
		}
		if left := cl.Subscriptions(); len(left) != 0 {
			t.Errorf("%+v lives", left)
		}
	})
}

// CON-6: which failures of a first subscription are waited out.
func TestCON6Passes(t *testing.T) {
	kind := func(k wire.Kind) error { return fmt.Errorf("x: %w", &events.Error{Kind: k}) }
	for err, want := range map[error]bool{
		ErrSessionLost: true, &unreachableError{errors.New("x")}: true, &waitError{errors.New("x"), time.Second}: true,
		context.DeadlineExceeded: true, &StatusError{Status: 500}: true, &StatusError{Status: 429}: true,
		&StatusError{Status: 401}: false, &StatusError{Status: 403}: false, ErrNoEvents: false, ErrClosed: false, ErrKeyInUse: false,
		&NoCompatibleDeliveryModeError{}: false, &AnswerError{Err: errors.New("x")}: false, errors.New("x"): false,
		kind(wire.Internal): true, kind(wire.UpstreamError): true, kind(wire.ResourceExhausted): true,
		kind(wire.InvalidParams): false, kind(wire.NotFound): false, kind(wire.Forbidden): false, kind(wire.Unsupported): false, kind(wire.MethodNotFound): false,
	} {
		if got := isTemporary(err, true); got != want {
			t.Errorf("%T %v passes: %v", err, err, got)
		}
	}
	if isTemporary(ErrSessionLost, false) { // one session
		t.Error("waits for a session that cannot come again")
	}
}

// A tracer remembers spans.
type tracer struct {
	noop.Tracer
	mu    sync.Mutex
	spans []*span
}

type span struct {
	noop.Span
	name       string
	kind       trace.SpanKind
	links      []trace.Link
	attributes map[attribute.Key]string
	status     codes.Code
	ended      bool
}

func (r *tracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(o...)
	s := &span{name: name, kind: c.SpanKind(), links: c.Links(), attributes: map[attribute.Key]string{}}
	s.SetAttributes(c.Attributes()...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) IsRecording() bool                { return true }
func (s *span) End(...trace.SpanEndOption)       { s.ended = true }
func (s *span) SetStatus(c codes.Code, _ string) { s.status = c }
func (s *span) SetAttributes(all ...attribute.KeyValue) {
	for _, kv := range all {
		s.attributes[kv.Key] = kv.Value.String()
	}
}

// CON-7: a span per try, linked to where the event was emitted, and metrics of what came of the tries and of what is
// not settled.
func TestCON7(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		m, r := &metertest.Meter{}, &tracer{}
		hold := make(chan struct{})
		run := h.consume(ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 4, MaxTries: 2, Telemetry: m.Recorder(r)}, h.on(func(ctx context.Context, ev *tickEvent) error {
			if !trace.SpanFromContext(ctx).IsRecording() {
				t.Error("no span")
			}
			switch ev.Data.Seq {
			case 1:
				<-hold
			case 2:
				return errors.New("no")
			}
			return nil
		}))
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		if err := h.ticks.Emit(t.Context(), tickPayload{Seq: 1}, events.WithMeta(map[string]any{"traceparent": parent})); err != nil {
			t.Fatal(err)
		}
		h.emit(2, 3)
		time.Sleep(time.Minute)
		got := m.Observed(t)
		if got["mcp.events.consume.in_flight mcp.events.type=tick"] != 1 || got["mcp.events.consume.lag mcp.events.type=tick"] != 60 {
			t.Errorf("observed %v", got)
		}
		close(hold)
		run.end()
		want := map[string]int64{"handled": 2, "retried": 1, "dead": 1}
		for outcome, n := range want {
			if got := m.Counted()["mcp.events.consume.tries mcp.events.outcome="+outcome+",mcp.events.type=tick"]; got != n {
				t.Errorf("%s: %d", outcome, got)
			}
		}
		if m.Callbacks() != 0 {
			t.Error("the instruments are still observed")
		}
		linked, failed := 0, 0
		for _, s := range r.spans {
			if s.name != "handle tick" || s.kind != trace.SpanKindConsumer || !s.ended || s.attributes["mcp.events.type"] != "tick" {
				t.Errorf("%+v", s)
			}
			for _, l := range s.links {
				if l.SpanContext.TraceID().String() == parent[3:35] {
					linked++
				}
			}
			if s.status == codes.Error && s.attributes["error.type"] == "_OTHER" {
				failed++
			}
		}
		if len(r.spans) != 4 || linked != 1 || failed != 2 {
			t.Errorf("%d spans, %d linked, %d failed", len(r.spans), linked, failed)
		}
	})
}

// CON-8: gaps and payloads that do not decode are told and counted; an undecodable payload is a dead letter with its
// bytes, and so is an event that cannot be read at all.
func TestCON8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		payloads := []string{`{"seq":1}`, `{ "seq" : "x" }`, `{"seq":3}`}
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			cursor := "c1"
			res := map[string]any{"events": []any{}, "cursor": cursor, "truncated": p.Cursor != nil && *p.Cursor == "old", "hasMore": false, "nextPollMs": 1000}
			if p.Cursor != nil && *p.Cursor == "old" {
				var all []any
				for i, data := range payloads {
					all = append(all, map[string]any{"eventId": fmt.Sprint("e", i+1), "name": "tick", "timestamp": "2026-11-23T00:00:00Z", "data": json.RawMessage(data)})
				}
				all = append(all, map[string]any{"name": "tick", "data": "nobody"})
				res["events"] = all
			}
			return res, nil
		}
		cl := connect(t, f, carriers[1], Options{Mode: "poll", Logger: slog.New(slog.DiscardHandler)})
		m := &metertest.Meter{}
		cursors := clientmemory.NewCursors()
		var seen, problems diary
		run := consume(t, cl, ConsumeOptions{Store: cursors, Telemetry: m.Recorder(nil), OnProblem: func(err error) { problems.add("%T", err) }},
			Handle(events.Type[struct{}, tickPayload]{Info: events.Info{Name: "tick"}}, struct{}{}, func(_ context.Context, ev *events.Event[struct{}, tickPayload]) error {
				seen.add("%s", ev.ID)
				return nil
			}, WithCursor("old"), WithCursorKey("k")))
		time.Sleep(10 * time.Second)
		seen.want(t, "e1", "e3")
		got := problems.take()
		slices.Sort(got)
		if !slices.Equal(got, []string{"*client.GapError", "*client.PayloadError", "*client.PayloadError"}) {
			t.Errorf("problems: %q", got)
		}
		counted := m.Counted()
		if counted["mcp.events.consume.problems error.type=gap,mcp.events.type=tick"] != 1 || counted["mcp.events.consume.problems error.type=payload,mcp.events.type=tick"] != 2 {
			t.Errorf("counted %v", counted)
		}
		letters, err := cursors.DeadLetters(t.Context(), 0, 10)
		if err != nil || len(letters) != 2 {
			t.Fatalf("%+v, %v", letters, err)
		}
		for _, d := range letters {
			switch {
			case d.EventID == "e2" && d.Tries == 1 && strings.Contains(string(d.Data), `"x"`):
			case d.EventID == "" && d.Tries == 0 && strings.Contains(string(d.Data), `"nobody"`) && strings.Contains(d.Error, "eventId"):
			default:
				t.Errorf("%+v", d)
			}
		}
		run.end()
		if saved, ok, _ := cursors.Load(t.Context(), "k"); !ok || saved.Cursor != "c1" {
			t.Errorf("saved %+v", saved)
		}
	})
}

// CON-9: middleware stands around every handler, the first outermost; handlers decode the payload that it passes on.
func TestCON9Middleware(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		var seen diary
		named := func(name string) func(Handler) Handler {
			return func(next Handler) Handler {
				return func(ctx context.Context, o events.Occurrence) error {
					seen.add("%s %s", name, o.ID)
					err := next(ctx, o)
					seen.add("%s %v", name, err)
					return err
				}
			}
		}
		double := func(next Handler) Handler {
			return func(ctx context.Context, o events.Occurrence) error {
				o.Raw = json.RawMessage(`{"seq":42}`)
				return next(ctx, o)
			}
		}
		run := h.consume(ConsumeOptions{Store: clientmemory.NewCursors(), Middleware: []func(Handler) Handler{named("a"), named("b"), double}},
			h.on(func(_ context.Context, ev *tickEvent) error {
				seen.add("handler %d", ev.Data.Seq)
				return nil
			}))
		h.emit(1, 1)
		seen.want(t, "a e1", "b e1", "handler 42", "b <nil>", "a <nil>")
		run.end()
	})
}

// CON-10: a watermark is saved at once, then at most every 100 ms, and at the end; a save that fails is told, and
// made up for.
func TestCON10Saves(t *testing.T) {
	consumeHouse(t, func(t *testing.T, h *house) {
		st := &failing{Cursors: clientmemory.NewCursors()}
		var problems diary
		run := h.consume(ConsumeOptions{Store: st, Workers: 8, OnProblem: func(err error) { problems.add("%v", err) }},
			h.on(func(context.Context, *tickEvent) error { return nil }, WithCursorKey("k")))
		for i := range 1000 {
			h.emit(i+1, i+1)
			time.Sleep(10 * time.Millisecond)
		}
		st.set(func() {
			if n := len(st.saves); n < 90 || n > 101 {
				t.Errorf("%d saves in 10 s", n)
			}
			for i := 1; i < len(st.saves); i++ {
				if d := st.saves[i].Sub(st.saves[i-1]); d < saveInterval {
					t.Errorf("save %d came %v after the one before", i, d)
				}
			}
			st.save = errors.New("disk is full")
		})
		h.emit(1001, 1001)
		time.Sleep(250 * time.Millisecond)
		if got := problems.take(); len(got) < 2 || got[0] != `client: committing cursor "k": disk is full` {
			t.Errorf("%q", got)
		}
		st.set(func() { st.save = nil })
		run.end()
		if saved, _, _ := st.Load(t.Context(), "k"); len(saved.EventIDs) == 0 || saved.EventIDs[len(saved.EventIDs)-1] != "e1001" {
			t.Errorf("saved %+v", saved)
		}
		run = h.consume(ConsumeOptions{Store: st}, h.on(func(context.Context, *tickEvent) error { return nil }, WithCursorKey("k")))
		st.set(func() { st.save = errors.New("gone") })
		h.emit(1002, 1002)
		synctest.Wait()
		run.cancel()
		if err := <-run.done; !errors.As(err, new(*CommitError)) {
			t.Errorf("the last save failed: %v", err)
		}
	})
}
