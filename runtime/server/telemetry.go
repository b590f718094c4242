package server

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Outcomes of emits and polls.
const (
	emitAppended = "appended"
	emitRepeated = "repeated"
	pollEvents   = "events"
	pollEmpty    = "empty"
	failed       = "failed"
)

// operationNames maps the store operations to their names in reports.
var operationNames = [...]string{topic.AskedAppend: "append", topic.AskedRead: "read", opProgress: "progress"}

// opProgress is the operation that writes the progress of webhook subscriptions.
const opProgress = topic.AskedRead + 1

// countEmit counts a call to Emit.
func (et *eventType) countEmit(ctx context.Context, fresh bool, err error) {
	s := telemetry.Series{Kind: telemetry.Emits, Type: et.name, Failure: telemetry.FailureOf(err)}
	switch {
	case err != nil:
		s.Outcome = failed
	case fresh:
		s.Outcome = emitAppended
	default:
		s.Outcome = emitRepeated
	}
	et.server.options.Telemetry.Record(ctx, s, 1)
}

// countPoll counts the answer to a poll. et is nil if the event type is unknown, because an unknown name must not be
// reported.
func (s *Server) countPoll(ctx context.Context, et *eventType, some bool, err error) {
	x := telemetry.Series{Kind: telemetry.Polls, Failure: telemetry.FailureOf(err)}
	if et != nil {
		x.Type = et.name
	}
	switch {
	case err != nil:
		x.Outcome = failed
	case some:
		x.Outcome = pollEvents
	default:
		x.Outcome = pollEmpty
	}
	s.options.Telemetry.Record(ctx, x, 1)
}

// countFrames counts frames written to streams. The count of event frames is events, and all other frames are control
// frames.
func countFrames(ctx context.Context, t eventtype.Type, frames, events int) {
	et := t.(*eventType)
	recorder := et.server.options.Telemetry
	if events > 0 {
		recorder.Record(ctx, telemetry.Series{Kind: telemetry.Frames, Type: et.name, Detail: "event"}, float64(events))
	}
	if frames > events {
		recorder.Record(ctx, telemetry.Series{Kind: telemetry.Frames, Type: et.name, Detail: "control"}, float64(frames-events))
	}
}

// newStoreRecorder returns a function that records the duration and result of operations on a durable store. It returns
// nil for an in-memory store.
func (s *Server) newStoreRecorder() func(ctx context.Context, what topic.Asked, took time.Duration, err error) {
	if !s.options.Store.Durable() {
		return nil
	}
	return func(ctx context.Context, what topic.Asked, took time.Duration, err error) {
		s.options.Telemetry.Record(ctx, telemetry.Series{Kind: telemetry.StoreDuration, Detail: operationNames[what],
			Failure: telemetry.FailureOf(err)}, took.Seconds())
		if what != topic.AskedRead {
			s.writes.recordResult(ctx, err)
		}
	}
}

// newProgressRecorder is like newStoreRecorder, but for writes of the progress of webhook subscriptions.
func (s *Server) newProgressRecorder() func(context.Context, time.Duration, error) {
	f := s.newStoreRecorder()
	if f == nil {
		return nil
	}
	return func(ctx context.Context, took time.Duration, err error) { f(ctx, opProgress, took, err) }
}

// countSequenced counts the entries that were rejected in one pass over the outbox.
func (s *Server) countSequenced(done engine.Sequenced) {
	s.options.Telemetry.Record(context.Background(), telemetry.Series{Kind: telemetry.OutboxRejected}, float64(done.Rejected))
}

// observedKinds are the kinds that observe reports.
var observedKinds = []telemetry.Kind{
	telemetry.LogAppended, telemetry.TailDelay, telemetry.PollsHeld, telemetry.PollLeases, telemetry.StreamsOpen, telemetry.StreamLag,
	telemetry.LeaseHeld, telemetry.OutboxAge, telemetry.ControlDelay, telemetry.StoreGeneration, telemetry.ShardsOwned,
}

// observe reports the server's current values.
func (s *Server) observe(report func(telemetry.Series, float64)) {
	streams, lag, pollers := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, st := range s.streams.All() {
		event := st.Subscription().Event
		streams[event]++
		if n := st.Behind(); n != nil {
			lag[event] = max(lag[event], *n)
		}
	}
	for _, l := range s.leases.All() {
		pollers[l.Subscription().Event]++
	}
	for _, et := range s.eventTypes() {
		ofType := func(kind telemetry.Kind, value float64) { report(telemetry.Series{Kind: kind, Type: et.name}, value) }
		if et.topic != nil {
			ofType(telemetry.LogAppended, float64(et.topic.Appended()))
			if seen, ok := et.topic.Seen(); ok {
				ofType(telemetry.TailDelay, time.Since(seen).Seconds())
			}
		}
		ofType(telemetry.PollsHeld, float64(et.held.Load()))
		ofType(telemetry.PollLeases, float64(pollers[et.name]))
		ofType(telemetry.StreamsOpen, float64(streams[et.name]))
		ofType(telemetry.StreamLag, float64(lag[et.name]))
	}
	s.observeShards(report)
}

func (s *Server) observeShards(report func(telemetry.Series, float64)) {
	st, ok := s.parts.Status()
	if !ok {
		return
	}
	held := 0.0
	if st.Fence != 0 {
		held = 1
	}
	report(telemetry.Series{Kind: telemetry.LeaseHeld}, held)
	if st.Owned[engine.OutboxTopic] > 0 {
		report(telemetry.Series{Kind: telemetry.OutboxAge}, st.OutboxAge.Seconds())
	}
	if !st.LastLook.IsZero() {
		report(telemetry.Series{Kind: telemetry.ControlDelay}, time.Since(st.LastLook).Seconds())
	}
	if g, ok := s.options.Store.(engine.Shared); ok {
		report(telemetry.Series{Kind: telemetry.StoreGeneration}, float64(g.Generation()))
	}
	for work, n := range st.Owned {
		report(telemetry.Series{Kind: telemetry.ShardsOwned, Detail: work}, float64(n))
	}
}
