// Package check contains test helpers shared by packages storetest and enginetest.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Must returns a function that returns v, or fails the test if err is not nil.
func Must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// At returns a time that every store can represent, in whole microseconds and without a monotonic clock reading.
func At(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 123_456_000) }

// Subscription returns a record with the given id and with every field set.
func Subscription(id string) store.Subscription {
	return store.Subscription{
		ID: id, Principal: "alice", URL: "https://receiver.example/hooks/1", Event: "incident.created",
		Arguments:  json.RawMessage(`{"severity":"P1"}`),
		Secrets:    []store.Secret{{Key: []byte("new-secret-of-thirty-two-bytes--")}, {Key: []byte("old"), NotAfter: At(300)}},
		Codes:      1,
		Generation: 1<<63 + 5, // generations use all 64 bits
		Admitted:   store.ControlPosition{Generation: 1<<63 + 1, Position: 1<<62 + 2},
		CreatedAt:  At(0), RefreshedAt: At(1), ExpiresAt: At(2), Truncated: true, NotBefore: At(6), PausedAt: At(7),
		Requests: map[store.RequestKind]store.Request{
			store.RequestReplay: {Number: 2, Key: "k", At: At(8).UTC(), Actor: "ann", Cursor: "c", Last: 9, Done: store.Outcome{Number: 1, At: At(9).UTC(), Failure: "no"},
				Replay: &store.Replay{Actor: "bob", Last: 8, Settled: []store.Span{{From: 3, To: 9}}}},
			store.RequestSend: {Number: 1, At: At(10).UTC(), Events: []store.Resend{{EventID: "e", Seen: At(11).UTC()}}},
			store.RequestGap:  {Signaled: store.ControlPosition{Generation: 3, Position: 7}},
			store.RequestEnd:  {Number: 1, At: At(12).UTC(), Ends: true, Reason: json.RawMessage(`{"code":-32012}`)},
		},
		Progress: store.Progress{Epoch: 1<<64 - 1, Base: 7, Settled: []store.Span{{From: 9, To: 9}, {From: 12, To: 20}}, Open: true, Upstream: "u7"},
		Health:   store.Health{Suspended: true, SuspendedAfter: At(3), FailedSince: At(4), LastDeliveryAt: At(5), LastError: "timeout", Slow: true},
		Report:   Report(13),
	}
}

// Report returns a report of the given second, with every field set.
func Report(second int) *store.Report {
	at := At(second).UTC()
	return &store.Report{At: at, Owner: "host/1", LastErrorAt: at.Add(-time.Second), LastStatus: 401, NextAt: at.Add(time.Second), LostAt: at.Add(time.Minute),
		Held: store.HeldQueued, Sending: 2, Abandoned: store.HourCount{Slice: 3_000_000, Counts: [6]uint32{1, 2, 3, 4, 5, 6}}}
}

// Put stores the record and returns it with its new revision. The record's progress must equal the stored progress or,
// for a new generation, be open.
func Put(t *testing.T, s store.SubscriptionStore, sub store.Subscription) store.Subscription {
	t.Helper()
	revision, err := s.PutSubscription(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	sub.Revision = revision
	return sub
}

// Get returns the record with the given id, which must exist.
func Get(t *testing.T, s store.SubscriptionStore, id string) store.Subscription {
	t.Helper()
	sub, ok, err := s.Subscription(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("subscription %s: found %v, error %v", id, ok, err)
	}
	return sub
}

// Equal fails the test with a diff if the two values differ.
func Equal(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Entry returns an entry with the given id.
func Entry(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"id":` + strconv.Quote(id) + `}`)}
}

// OpenLog opens a log.
func OpenLog(t *testing.T, s store.Store, name string, o store.LogOptions) store.EventLog {
	t.Helper()
	l, err := s.OpenLog(t.Context(), name, o)
	if err != nil {
		t.Fatalf("OpenLog(%q): %v", name, err)
	}
	return l
}

// Add appends n entries whose ids are derived from their positions.
func Add(t *testing.T, l store.EventLog, n int) {
	t.Helper()
	_, head := Bounds(t, l)
	for i := range n {
		want := head + store.Position(i) + 1
		p, err := l.Append(t.Context(), Entry(fmt.Sprint("e", want)))
		if err != nil || p != want {
			t.Fatalf("Append = %d, %v; want %d", p, err, want)
		}
	}
}

// Read reads from a log.
func Read(t *testing.T, l store.EventLog, after store.Position, limit int) store.Batch {
	t.Helper()
	b, err := l.Read(t.Context(), after, limit)
	if err != nil {
		t.Fatalf("Read(%d, %d): %v", after, limit, err)
	}
	return b
}

// Bounds returns the bounds of a log.
func Bounds(t *testing.T, l store.EventLog) (oldest, head store.Position) {
	t.Helper()
	oldest, head, err := l.Bounds(context.Background())
	if err != nil {
		t.Errorf("Bounds: %v", err)
	}
	return oldest, head
}

// Proof returns the proof of the entry at a position.
func Proof(t *testing.T, l store.EventLog, p store.Position) uint32 {
	t.Helper()
	n, err := l.Proof(t.Context(), p)
	if err != nil {
		t.Fatalf("Proof(%d): %v", p, err)
	}
	return n
}

// Once calls AppendOnce and checks the returned position and whether the entry is fresh.
func Once(t *testing.T, l store.EventLog, e store.Entry, above, want store.Position, wantFresh bool) {
	t.Helper()
	p, fresh, err := l.AppendOnce(t.Context(), e, above)
	if err != nil || p != want || fresh != wantFresh {
		t.Fatalf("AppendOnce(%s for %q above %d) = %d, %v, %v; want %d, %v", e.EventID, e.Targets, above, p, fresh, err, want, wantFresh)
	}
}

// Reused checks that AppendOnce rejects an existing id with different data.
func Reused(t *testing.T, l store.EventLog, e store.Entry, above, want store.Position) {
	t.Helper()
	p, fresh, err := l.AppendOnce(t.Context(), e, above)
	if p != want || fresh || !errors.Is(err, events.ErrIDReused) {
		t.Fatalf("AppendOnce(%s) with other data = %d, %v, %v; want %d, false, ErrIDReused", e.EventID, p, fresh, err, want)
	}
}

// With returns a copy of the entry with the given data.
func With(e store.Entry, data string) store.Entry {
	e.Data = json.RawMessage(data)
	return e
}
