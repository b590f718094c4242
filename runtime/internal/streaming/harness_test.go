package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("secret internal text")

type incident = eventtypetest.Incident

// A bed has streams of one event type, of which hooks hear.
type bed struct {
	*Streams
	*eventtypetest.Type
	t       *testing.T
	members lease.Members

	mu      sync.Mutex
	heard   []string      // by hooks
	refuse  error         // what OnSubscribe says
	during  func()        // called by OnSubscribe
	refused *events.Error // what the hooks say when they are asked again
	unread  bool          // requests of operators have not been read
	frames  int           // that were written, of which so many are occurrences
	events  int
	logged  strings.Builder
}

// inBubble runs f with streams; in the end nothing of them may be left.
func inBubble(t *testing.T, o Options, e eventtypetest.Options, f func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, Type: eventtypetest.New(t, "e", e)}
		b.members.Host = b
		o.Members, o.Access, o.Wrote, o.Log = &b.members, &access.Gate{Authorize: b.authorize, Heard: b.current}, b.wrote, &fault.Log{Logger: slog.New(slog.NewTextHandler(b, nil))}
		if o.Heartbeat == 0 {
			o.Heartbeat = 15 * time.Second
		}
		b.Streams = New(o)
		f(b)
		b.Streams.Close()
		b.Wait()
		if h := b.Holding(); h != (Holding{}) || len(b.members.Holding()) != 0 || b.Feeds().Len() != 0 {
			t.Errorf("left: %+v, holders %v, %d feeds", h, b.members.Holding(), b.Feeds().Len())
		}
		if b.Topic() != nil {
			if left := b.Topic().Holding().Readers; len(left) != 0 {
				t.Errorf("readers left in the index: %q", left)
			}
		}
	})
}

func (b *bed) Hears(eventtype.Arguments) bool { return true }

func (b *bed) Subscribed(context.Context, eventtype.Subscription, eventtype.Arguments) error {
	b.note("on")
	if b.during != nil {
		b.during()
	}
	return b.refuse
}

func (b *bed) Unsubscribed(eventtype.Subscription, eventtype.Arguments)           { b.note("off") }
func (b *bed) Take(string, int) error                                             { return nil }
func (b *bed) Refused(context.Context, string, eventtype.Arguments) *events.Error { return nil }
func (b *bed) Give(string, int)                                                   {}

func (b *bed) note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, line)
}

func (b *bed) authorize(context.Context, string, string, json.RawMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused == nil {
		return nil
	}
	return b.refused
}

func (b *bed) current() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.unread
}

// read sets whether the requests of operators have been read.
func (b *bed) read(read bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = !read
}

func (b *bed) forbid(e *events.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = e
}

func (b *bed) wrote(_ context.Context, et eventtype.Type, frames, occurrences int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if et != b.Type {
		b.t.Error("frames of another event type")
	}
	b.frames += frames
	b.events += occurrences
}

// Write keeps what is logged, and log returns it.
func (b *bed) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logged.Write(p)
}

func (b *bed) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logged.String()
}

// hooks fails unless the author's have heard that, in all.
func (b *bed) hooks(want ...string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.heard, want) {
		b.t.Errorf("hooks heard %q, want %q", b.heard, want)
	}
}

// request is ann's for arguments, of a request with the id 8 in the stateless era.
func (b *bed) request(arguments string) Request {
	b.t.Helper()
	a, err := b.Arguments(arguments)
	if err != nil {
		b.t.Fatal(err)
	}
	return Request{Type: b.Type, Sub: eventtype.Identify(wire.ModePush, "ann", "", a), Args: a, Head: b.Head(), ID: json.RawMessage("8"), Stateless: true}
}

func from(cursor string) topic.Replay { return topic.Replay{Cursor: &cursor} }

// open opens a stream that must open.
func (b *bed) open(r Request) *live {
	b.t.Helper()
	st, err := b.Open(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	l := &live{b: b, Stream: st, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(b.t.Context())
	return l
}

// run opens a stream and runs it.
func (b *bed) run(r Request) *live {
	b.t.Helper()
	l := b.open(r)
	l.start()
	synctest.Wait()
	return l
}

// A live is a stream with its carrier, which keeps what is written.
type live struct {
	*Stream
	b      *bed
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	final  json.RawMessage
	err    error

	mu      sync.Mutex
	gate    func(n int) error // asked before each write; nil lets all pass
	n       int
	shorts  []string
	cursors []string // as JSON
}

func (l *live) start() {
	go func() {
		defer close(l.done)
		l.final, l.err = l.Run(l.ctx, l)
	}()
}

func (l *live) Write(frames []frame.Frame) error {
	if l.gate != nil {
		if err := l.gate(l.n); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	for _, f := range frames {
		var p struct {
			EventID   string          `json:"eventId"`
			Truncated bool            `json:"truncated"`
			Cursor    json.RawMessage `json:"cursor"`
			Error     struct {
				Data json.RawMessage `json:"data"`
			} `json:"error"`
		}
		if err := json.Unmarshal(f.Params(), &p); err != nil {
			l.b.t.Errorf("%s: %v", f, err)
		}
		short := strings.TrimPrefix(f.Method(), wire.NotificationPrefix)
		if p.Truncated {
			short += " truncated"
		}
		l.shorts = append(l.shorts, strings.TrimSpace(short+" "+p.EventID+string(p.Error.Data)))
		l.cursors = append(l.cursors, string(p.Cursor))
	}
	return nil
}

// wrote fails unless that was written, in all.
func (l *live) wrote(what string, want ...string) {
	l.b.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.shorts, want) {
		l.b.t.Errorf("%s: %q, want %q", what, l.shorts, want)
	}
}

// lines are what was written so far, and cursorOf is the cursor of one of them, "" for null.
func (l *live) lines() []string {
	l.b.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.shorts)
}

func (l *live) cursorOf(i int) (text string) {
	l.b.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := json.Unmarshal([]byte(l.cursors[i]), &text); err != nil {
		l.b.t.Fatal(err)
	}
	return text
}

// over waits until the stream has ended, by the server or, where err is set, with an error.
func (l *live) over(err error) {
	l.b.t.Helper()
	<-l.done
	if !errors.Is(l.err, err) || (l.final == nil) != (err != nil) {
		l.b.t.Errorf("ended with %s, %v; want error %v", l.final, l.err, err)
	}
}

// A brokenLog is one in memory that cannot be read while it is broken.
type brokenLog struct {
	store.EventLog
	mu     sync.Mutex
	broken bool
}

func (l *brokenLog) open(_ string, o store.LogOptions) (store.EventLog, error) {
	l.EventLog = memory.NewLog(o)
	return l, nil
}

func (l *brokenLog) set(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

func (l *brokenLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken {
		return store.Batch{}, errTest
	}
	return l.EventLog.Read(ctx, after, limit)
}

// A fadingLog is one in memory on which something happens between two reads.
type fadingLog struct {
	store.EventLog
	mu    sync.Mutex
	reads int // until then
	then  func()
}

func (l *fadingLog) open(_ string, o store.LogOptions) (store.EventLog, error) {
	l.EventLog = memory.NewLog(o)
	return l, nil
}

// after has f called before the read that follows the next n.
func (l *fadingLog) after(n int, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads, l.then = n, f
}

func (l *fadingLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	l.mu.Lock()
	var now func()
	if l.reads--; l.reads < 0 {
		now, l.then = l.then, nil
	}
	l.mu.Unlock()
	if now != nil {
		now()
	}
	return l.EventLog.Read(ctx, after, limit)
}

// occurrences are the shorts of those.
func occurrences(ids ...any) (all []string) {
	for _, id := range ids {
		all = append(all, fmt.Sprint("event ", id))
	}
	return all
}
