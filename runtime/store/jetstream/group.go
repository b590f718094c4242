package jetstream

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxGroup is the maximum number of entries in a group.
	maxGroup = 512
	// maxReadSubjects is the maximum number of entries read per request. Entries can be large, and a server sends at
	// most 64 MiB.
	maxReadEntries = 64
)

// AppendGroup implements [engine.Shared]. It publishes the group as one batch, with an expected sequence for each
// entry. If an entry already exists, AppendGroup sends the batch again without that entry (JS-7).
func (s *Store) AppendGroup(ctx context.Context, name string, group []store.Outgoing) ([]engine.Appended, error) {
	if len(group) > maxGroup {
		return nil, fmt.Errorf("log %s: a group has at most %[3]d entries, but this one has %[2]d", name, len(group), maxGroup)
	}
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	appended, err := s.appendGroup(ctx, name, group)
	if err != nil {
		return nil, s.wrapClosed(fmt.Errorf("log %s: %w", name, err))
	}
	return appended, nil
}

// A groupAppend is the state of one AppendGroup call.
type groupAppend struct {
	s       *Store
	stream  string
	under   func(token, id string) string
	token   string
	earlier []earlierEpoch
	options store.LogOptions
	head    store.Position // at most that of the last poll
	call    uint64
	began   time.Time
	group   []store.Outgoing
	bodies  [][]byte
	unsure  bool

	done []engine.Appended
}

func (s *Store) appendGroup(ctx context.Context, name string, group []store.Outgoing) ([]engine.Appended, error) {
	g := groupAppend{s: s, stream: strings.ToUpper(s.o.Namespace) + "_L_" + logToken(name), call: mathrand.Uint64(), began: time.Now(), group: group}
	g.under = func(token, id string) string { return s.o.Namespace + ".l." + logToken(name) + "." + token + "." + id }
	for i := range group {
		body := encode(&group[i].Entry, g.call)
		if limit := s.write.MaxPayload() - maxHeaders; int64(len(body)) > limit {
			return nil, fmt.Errorf("%w: entry %d has %d bytes, the servers' max_payload leaves %d", engine.ErrRefused, i, len(body), limit)
		}
		g.bodies = append(g.bodies, body)
	}
	err := retry(ctx, func() (bool, error) { return g.step(ctx, name) })
	if err != nil && g.unsure {
		err = fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	l := s.logs[name]
	s.mu.Unlock()
	if l != nil && l.current() == nil { // make the entries visible now; a later poll finds any entries that this follow misses
		for i := range g.done {
			l.recordPosition(g.done[i].Position)
		}
		_ = l.follow(ctx)
	}
	return g.done, nil
}

// step looks up existing entries and sends the remaining entries once.
func (g *groupAppend) step(ctx context.Context, name string) (again bool, err error) {
	info, err := g.s.leaderInfo(ctx, g.stream)
	switch {
	case apiErrorCode(err) == codeNoStream:
		return false, engine.ErrNoLog
	case err != nil:
		return errors.Is(err, ErrUnreachable) && ctx.Err() == nil, err
	}
	if err := g.s.checkLogStream(name, logToken(name), info); err != nil {
		return false, err
	}
	g.token, g.earlier, g.head = info.Config.Metadata[metaEpoch], earlierOf(info), store.Position(info.State.LastSeq)
	g.options.MaxAge, _ = time.ParseDuration(info.Config.Metadata[metaAge])
	g.options.MaxCount, _ = strconv.Atoi(info.Config.Metadata[metaCount])
	found, err := g.readExisting(ctx)
	if err != nil {
		return errors.Is(err, ErrUnreachable) && ctx.Err() == nil, err
	}
	g.done = make([]engine.Appended, len(g.group))
	var rest []int
	var expect []uint64
	for i := range g.group {
		stands, known, newest := g.lastEntry(found, &g.group[i])
		switch {
		case known && stands.call == g.call: // the answer to its batch was lost
			g.done[i] = engine.Appended{Position: stands.Position, Fresh: true}
		case known && g.isDuplicate(&stands, &g.group[i]):
			g.done[i] = engine.Appended{Position: stands.Position, Err: store.Repeats(stands.Position, stands.Data, g.group[i].Entry.Data)}
		default:
			rest, expect = append(rest, i), append(expect, newest)
		}
	}
	if len(rest) == 0 {
		g.unsure = false
		return false, nil
	}
	first, err := g.sendBatch(ctx, rest, expect)
	var wrong *wrongSequence
	switch {
	case err == nil:
		for n, i := range rest {
			g.done[i] = engine.Appended{Position: store.Position(first) + store.Position(n), Fresh: true}
		}
		return false, nil
	case errors.As(err, &wrong), errors.Is(err, errUndecided):
		return true, err
	case errors.Is(err, errUnanswered):
		g.unsure = true
	}
	return errors.Is(err, ErrUnreachable) && ctx.Err() == nil && !g.s.write.IsClosed(), err
}

// readExisting reads from any server the last entry of each of the group's subjects, in this and earlier epochs. If the
// response is stale, the expected sequences make the batch fail.
func (g *groupAppend) readExisting(ctx context.Context) (found map[string]storedEntry, err error) {
	found = map[string]storedEntry{}
	var subjects []string
	for i := range g.group {
		id := subjectID(&g.group[i].Entry)
		subjects = append(subjects, g.under(g.token, id))
		for _, e := range g.earlier {
			subjects = append(subjects, g.under(e.token, id))
		}
	}
	for len(subjects) > 0 {
		n := min(len(subjects), maxReadEntries)
		_, err := g.s.pull(ctx, g.stream, map[string]any{"multi_last": subjects[:n]}, func(m *nats.Msg) error {
			e, err := g.s.entryFromMessage(g.stream, m)
			found[m.Header.Get(jetstream.SubjectHeader)] = e
			return err
		})
		if err != nil {
			return nil, err
		}
		subjects = subjects[n:]
	}
	return found, nil
}

// lastEntry returns the last entry with the id and audience of o. The result newest is the sequence of the last such
// entry in this epoch, or 0 if this epoch has no such entry.
func (g *groupAppend) lastEntry(found map[string]storedEntry, o *store.Outgoing) (e storedEntry, known bool, newest uint64) {
	id := subjectID(&o.Entry)
	if e, known = found[g.under(g.token, id)]; known {
		return e, true, uint64(e.Position)
	}
	for i := len(g.earlier) - 1; i >= 0 && !known; i-- {
		e, known = found[g.under(g.earlier[i].token, id)]
	}
	return e, known, 0
}

// isDuplicate reports whether, by the rules of AppendOnce, the existing entry e prevents o from being appended.
func (g *groupAppend) isDuplicate(e *storedEntry, o *store.Outgoing) bool {
	return o.Once && e.Position > o.Above && (g.options.MaxAge <= 0 || g.s.clock.now().Sub(e.stamp) <= g.options.MaxAge) &&
		(g.options.MaxCount <= 0 || e.Position > g.head || g.head-e.Position < store.Position(g.options.MaxCount))
}

// sendBatch appends entries of the group in one batch and returns the sequence of the first entry.
func (g *groupAppend) sendBatch(ctx context.Context, rest []int, expect []uint64) (first uint64, err error) {
	messages := make([]*nats.Msg, len(rest))
	for n, i := range rest {
		messages[n] = &nats.Msg{Subject: g.under(g.token, subjectID(&g.group[i].Entry)), Data: g.bodies[i], Header: nats.Header{
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(expect[n], 10)}}}
	}
	return g.s.publishBatch(ctx, g.began, messages)
}
