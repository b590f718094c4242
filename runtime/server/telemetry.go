package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Outcomes of emits and polls.
const (
	emitAppended = "appended"
	emitRepeated = "repeated"
	pollEvents   = "events"
	pollEmpty    = "empty"
	failed       = "failed"
)

// metrics contains a server's metric instruments (docs/observability.md).
type metrics struct {
	emits, polls, frames metric.Int64Counter
	rejected             metric.Int64Counter
	store                metric.Float64Histogram
	asked                [len(operationNames)][]metric.RecordOption // for successful operations

	instruments *telemetry.Instruments
	appended    metric.Int64ObservableCounter
	held        metric.Int64ObservableUpDownCounter
	pollers     metric.Int64ObservableUpDownCounter
	streams     metric.Int64ObservableUpDownCounter
	lag         metric.Int64ObservableGauge
	tail        metric.Float64ObservableGauge
	shards      metric.Int64ObservableUpDownCounter
	lease       metric.Int64ObservableUpDownCounter
	outbox      metric.Float64ObservableGauge
	control     metric.Float64ObservableGauge
	generation  metric.Int64ObservableGauge
	stop        func()
}

// operationNames maps the store operations to their names in metrics.
var operationNames = [...]string{topic.AskedAppend: "append", topic.AskedRead: "read", opProgress: "progress"}

// opProgress is the operation that writes the progress of webhook subscriptions.
const opProgress = topic.AskedRead + 1

func newMetrics(m metric.Meter) (*metrics, error) {
	i := telemetry.New(m)
	x := &metrics{instruments: i, stop: func() {}}
	x.emits = i.Counter("emit.calls", "{call}", "Calls of Emit.")
	x.appended = i.Observed("log.appended", "{occurrence}", "Occurrences that became visible in this process, from any emitter.")
	x.polls = i.Counter("poll.answers", "{poll}", "Answered polls, including polls of read tools.")
	x.held = i.Present("poll.held", "{poll}", "Polls waiting for an occurrence.")
	x.pollers = i.Present("poll.leases", "{lease}", "Pollers with an unexpired lease.")
	x.streams = i.Present("stream.open", "{stream}", "Open streams, and subscriptions of MCPE.")
	x.frames = i.Counter("stream.frames", "{frame}", "Frames written to streams.")
	x.lag = i.Gauge("stream.lag", "{occurrence}", "Entries by which the slowest stream of an event type lags its log.")
	x.store = i.Seconds("store.duration", "Duration of operations of a durable store.")
	x.tail = i.Age("tail.delay", "Time since this process last checked the log of an event type for appends of other processes.")
	x.shards = i.Present("shard.owned", "{shard}", "Shards of a shared store that this process owns.")
	x.rejected = i.Counter("outbox.rejected", "{occurrence}", "Invalid outbox entries that were set aside.")
	x.outbox = i.Age("outbox.age", "Age of the oldest occurrence in the outbox, as reported by the process that relays it.")
	x.control = i.Age("control.delay", "Time since this process last read the operators' orders from other processes.")
	x.generation = i.Gauge("store.generation", "{generation}", "Number of new epochs of a shared store's logs.")
	x.lease = i.Present("lease.held", "{lease}", "1 while this process holds its lease on a shared store, otherwise 0.")
	for op, name := range operationNames {
		x.asked[op] = []metric.RecordOption{telemetry.With(telemetry.Operation.String(name))}
	}
	return x, i.Err()
}

// typeAttributes contains precomputed attributes for an event type's frequent measurements.
type typeAttributes struct {
	appended, repeated, events, empty []metric.AddOption
	event, control                    []metric.AddOption // frames
	name                              []metric.ObserveOption
}

func newTypeAttributes(event string) typeAttributes {
	typ := telemetry.Type.String(event)
	add := func(a attribute.KeyValue) []metric.AddOption { return []metric.AddOption{telemetry.With(typ, a)} }
	return typeAttributes{
		appended: add(telemetry.Outcome.String(emitAppended)), repeated: add(telemetry.Outcome.String(emitRepeated)),
		events: add(telemetry.Outcome.String(pollEvents)), empty: add(telemetry.Outcome.String(pollEmpty)),
		event: add(telemetry.Frame.String("event")), control: add(telemetry.Frame.String("control")),
		name: []metric.ObserveOption{telemetry.With(typ)},
	}
}

// countEmit counts a call to Emit.
func (et *eventType) countEmit(ctx context.Context, fresh bool, err error) {
	m, c := et.server.metrics, &et.attributes
	switch {
	case err != nil:
		m.emits.Add(ctx, 1, metric.WithAttributes(telemetry.Type.String(et.name), telemetry.Outcome.String(failed),
			telemetry.ErrorType.String(telemetry.ErrorTypeOf(err))))
	case fresh:
		m.emits.Add(ctx, 1, c.appended...)
	default:
		m.emits.Add(ctx, 1, c.repeated...)
	}
}

// countPoll counts the answer to a poll. et is nil if the event type is unknown, because an unknown name must not
// become an attribute.
func (s *Server) countPoll(ctx context.Context, et *eventType, some bool, err error) {
	switch {
	case err != nil:
		set := []attribute.KeyValue{telemetry.Outcome.String(failed), telemetry.ErrorType.String(telemetry.ErrorTypeOf(err))}
		if et != nil {
			set = append(set, telemetry.Type.String(et.name))
		}
		s.metrics.polls.Add(ctx, 1, metric.WithAttributes(set...))
	case some:
		s.metrics.polls.Add(ctx, 1, et.attributes.events...)
	default:
		s.metrics.polls.Add(ctx, 1, et.attributes.empty...)
	}
}

// countFrames counts frames written to streams. The count of event frames is events, and all other frames are control
// frames.
func countFrames(ctx context.Context, t eventtype.Type, frames, events int) {
	et := t.(*eventType)
	if events > 0 {
		et.server.metrics.frames.Add(ctx, int64(events), et.attributes.event...)
	}
	if frames > events {
		et.server.metrics.frames.Add(ctx, int64(frames-events), et.attributes.control...)
	}
}

// newStoreRecorder returns a function that records the duration and result of operations on a durable store. It returns
// nil for an in-memory store.
func (s *Server) newStoreRecorder() func(ctx context.Context, what topic.Asked, took time.Duration, err error) {
	if !s.options.Store.Durable() {
		return nil
	}
	m := s.metrics
	return func(ctx context.Context, what topic.Asked, took time.Duration, err error) {
		with := m.asked[what]
		if err != nil {
			with = []metric.RecordOption{metric.WithAttributes(telemetry.Operation.String(operationNames[what]),
				telemetry.ErrorType.String(telemetry.ErrorTypeOf(err)))}
		}
		m.store.Record(ctx, took.Seconds(), with...)
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

// registerCallback registers the callback for the observable instruments. m.stop unregisters it.
func (m *metrics) registerCallback(s *Server) (err error) {
	m.stop, err = m.instruments.Observe(func(_ context.Context, o metric.Observer) error {
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
			name := et.attributes.name
			if et.topic != nil {
				o.ObserveInt64(m.appended, et.topic.Appended(), name...)
				if seen, ok := et.topic.Seen(); ok {
					o.ObserveFloat64(m.tail, time.Since(seen).Seconds(), name...)
				}
			}
			o.ObserveInt64(m.held, et.held.Load(), name...)
			o.ObserveInt64(m.pollers, pollers[et.name], name...)
			o.ObserveInt64(m.streams, streams[et.name], name...)
			o.ObserveInt64(m.lag, lag[et.name], name...)
		}
		m.observeShards(s, o)
		return nil
	})
	return err
}

// countSequenced counts the entries that were rejected in one pass over the outbox.
func (m *metrics) countSequenced(done engine.Sequenced) {
	m.rejected.Add(context.Background(), int64(done.Rejected))
}

func (m *metrics) observeShards(s *Server, o metric.Observer) {
	st, ok := s.parts.Status()
	if !ok {
		return
	}
	n := int64(0)
	if st.Fence != 0 {
		n = 1
	}
	o.ObserveInt64(m.lease, n)
	if st.Owned[engine.OutboxTopic] > 0 {
		o.ObserveFloat64(m.outbox, st.OutboxAge.Seconds())
	}
	if !st.LastLook.IsZero() {
		o.ObserveFloat64(m.control, time.Since(st.LastLook).Seconds())
	}
	if g, ok := s.options.Store.(engine.Shared); ok {
		o.ObserveInt64(m.generation, int64(g.Generation()))
	}
	for work, n := range st.Owned {
		o.ObserveInt64(m.shards, int64(n), metric.WithAttributes(telemetry.Work.String(work)))
	}
}
