package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/hostileserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// fuzzSubscription is a subscription without a server, whose inbox is emptied after each input.
func fuzzSubscription() *subscription {
	c := &Client{opts: Options{}, log: slog.New(slog.DiscardHandler)}
	c.opts.setDefaults()
	return &subscription{c: c, name: "tick", inbox: newInbox(1<<20, 1<<40), seen: newIDSet(16), refused: map[string]bool{},
		ready: make(chan error, 1), log: c.log}
}

// typedItem is what an iteration shows of an item.
func typedItem[A, P any](s *subscription, it item) (events.Event[A, P], error) {
	s.typed = reflect.ValueOf(new(A)).Elem()
	ev, err := s.toEvent(reflect.TypeFor[events.Event[A, P]](), it)
	return *ev.(*events.Event[A, P]), err
}

// items empties the inbox and checks what an application is shown: an occurrence of this event type with
// a bounded id, a gap or a note.
func (s *subscription) items(t *testing.T) {
	for {
		it, ok, _ := s.inbox.tryTake()
		if !ok {
			return
		}
		if !it.shown() {
			continue
		}
		ev, err := typedItem[json.RawMessage, json.RawMessage](s, it)
		if err == nil && (ev.Name != "tick" && ev.Name != "" || len(ev.ID) > wire.MaxEventID || ev.ID == "" || len(ev.Data) == 0 || ev.Data[0] != '{') {
			t.Fatalf("shown: %+v", ev)
		}
		if err != nil && Final(err) {
			t.Fatalf("an item of the inbox ends the iteration: %v", err)
		}
		if it.cursor != nil && len(*it.cursor) > maxCursor {
			t.Fatal("a cursor beyond the bound is kept")
		}
	}
}

// FuzzAnswers holds that whatever a server answers to the calls of a client is read or refused, within
// the bounds (CLI-2, CLI-3, CLI-5, LIST-2).
func FuzzAnswers(f *testing.F) {
	for _, c := range hostileserver.Cases() {
		if r, ok := strings.CutPrefix(c.Message, `{"jsonrpc":"2.0","id":$ID,"result":`); ok && len(r) < 4096 {
			f.Add([]byte(strings.TrimSuffix(r, "}")))
		}
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all listResult
		if page, err := wire.DecodeListPage(raw); err == nil {
			all.add(page.Entries)
			if len(all.list)+len(all.leftOut) != len(page.Entries) {
				t.Fatalf("%d and %d of %d entries", len(all.list), len(all.leftOut), len(page.Entries))
			}
		}
		for _, d := range all.list {
			if d.Name == "" || !json.Valid(d.InputSchema) || !json.Valid(d.PayloadSchema) {
				t.Fatalf("%+v", d)
			}
			_, _ = wire.Fingerprint(d.InputSchema, d.PayloadSchema)
		}
		if res, err := decodePoll(raw); err == nil {
			s := fuzzSubscription()
			if d := res.nextPollWait(); d < 0 || d > maxWait {
				t.Fatalf("waits %v", d)
			}
			if err := s.takeBatch(t.Context(), res); err != nil {
				t.Fatal(err)
			}
			s.items(t)
		}
		if r, err := readSubscribed(raw, now, time.Hour); err == nil {
			if r.lifetime != 0 && (r.lifetime < shortestLifetime || r.lifetime > time.Hour) || len(r.ID) > maxID {
				t.Fatalf("%+v", r)
			}
		} else if !errors.As(err, new(*AnswerError)) {
			t.Fatal(err)
		}
	})
}

// FuzzStreamFrames holds the same for the notifications of a stream.
func FuzzStreamFrames(f *testing.F) {
	for _, m := range []string{"active", "event", "heartbeat", "error", "terminated", "x"} {
		for _, p := range []string{`{}`, `null`, `{"cursor":"c","truncated":true}`, `{"error":{"code":-32014,"message":"m","data":{"reason":"schema_changed"}}}`,
			`{"eventId":"e","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":"c"}`} {
			f.Add(m, []byte(p))
		}
	}
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		s := fuzzSubscription()
		st := &stream{s: s, in: newFrameQueue(true)}
		err := st.handle(t.Context(), frame{wire.NotificationPrefix + method, params})
		if (err != nil) != (method == "terminated") {
			t.Fatalf("%s %s: %v", method, params, err)
		}
		if err != nil && !errors.As(err, new(*TerminatedError)) {
			t.Fatal(err)
		}
		_ = subscriptionID(params)
		if len(s.cursor) > maxCursor {
			t.Fatal("a cursor beyond the bound is kept")
		}
		s.items(t)
	})
}

// FuzzSSE holds that an SSE body of any content reaches the SDK only as events that it can read, within
// the bound, and that the filter ends with the body.
func FuzzSSE(f *testing.F) {
	for _, c := range hostileserver.Cases() {
		if c.Raw != "" && len(c.Raw) < 4096 {
			f.Add([]byte(c.Raw), true)
		}
	}
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/event\",\"params\":{}}\n\n"), true)
	f.Add([]byte("id: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, body []byte, streaming bool) {
		const limit = 1 << 10
		b := newTapState(false, &observers{})
		defer b.abort()
		own := newCall(newFrameQueue(true))
		own.method = wire.MethodPoll
		if streaming {
			// Nobody takes the frames here: they must not be waited for.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			p := &poster{limit: limit}
			if err := p.receive(ctx, &session{board: b}, &http.Response{Body: io.NopCloser(bytes.NewReader(body))}, own, "1"); err == nil {
				t.Fatal("the end of a stream has no reason")
			}
			return
		}
		out, err := io.ReadAll(&sseTap{blocks: newBlockReader(bytes.NewReader(body), limit), board: b, own: own, id: "1"})
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(strings.ReplaceAll(string(out), "\r\n", "\n"), "\n\n") {
			var data []string
			for line := range strings.SplitSeq(block, "\n") {
				if v, ok := strings.CutPrefix(line, "data:"); ok {
					data = append(data, v)
				}
			}
			text := strings.TrimSpace(strings.Join(data, "\n"))
			if len(block) > limit {
				t.Fatalf("a block of %d bytes", len(block))
			}
			if text == "" || strings.Contains(string(out), "\r") && !strings.Contains(string(out), "\r\n") {
				continue
			}
			if _, err := jsonrpc.DecodeMessage([]byte(text)); err != nil {
				t.Fatalf("%q reaches the SDK: %v", text, err)
			}
		}
	})
}

// FuzzLines holds that what a process writes is read line by line, within the bound, to its end.
func FuzzLines(f *testing.F) {
	f.Add([]byte("garbage\n\n[]\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"))
	f.Add([]byte("[{\"jsonrpc\":\"2.0\",\"method\":\"x\"},null]\n\ufeff{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1 << 10
		l := newLineConn(bytes.NewReader(text), io.Discard, limit, slog.New(slog.DiscardHandler))
		for n := 0; ; n++ {
			m, err := (&pipeConn{lineConn: l}).Read(t.Context())
			if err == io.EOF || errors.Is(err, ErrTooLarge) {
				return
			}
			if err != nil || m == nil || n > len(text) {
				t.Fatal(m, err, n)
			}
		}
	})
}

// FuzzStoredBodies holds that what an earlier process stored is handed out or passed over, never taken
// for what it is not (CLI-5, D10).
func FuzzStoredBodies(f *testing.F) {
	for _, body := range hostileserver.Bodies {
		if len(body) < 4096 {
			f.Add("msg_1", []byte(body))
		}
	}
	f.Add("e1", hostileserver.Good())
	f.Add("msg_gap_1", []byte(`{"type":"gap","cursor":"c"}`))
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		d, err := webhook.ParseDelivery(webhook.Stamp{ID: id}, body)
		if err != nil || d.Type != "" && d.Type != wire.EnvelopeGap {
			return
		}
		s := fuzzSubscription()
		cb := &callback{s: s}
		if err := cb.enqueue(t.Context(), &d, 1); err != nil {
			t.Fatal(err)
		}
		s.items(t)
	})
}
