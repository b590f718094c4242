package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// soon is how long an append waits for its entry to be republished before it reads the entry.
	soon = 5 * time.Millisecond
	// between is the minimum time between two looks at one log.
	between = 100 * time.Millisecond
	// looks is the maximum number of logs that poll looks at per second.
	looks = 256
)

// told handles an entry that the servers republish on ns.t.<log>.<epoch>.
func (s *Store) told(m *nats.Msg) {
	part := strings.Split(m.Subject, ".")
	if len(part) != 4 {
		return
	}
	s.mu.Lock()
	l := s.named[part[2]]
	if s.closed {
		l = nil
	}
	s.mu.Unlock()
	if l == nil || l.token != part[3] {
		return
	}
	e, err := s.fromHeader(l.stream, m)
	if err != nil { // readers get the error when they reach the entry
		s.log.Error("jetstream: a republished entry cannot be decoded", "log", l.name, "error", err)
		return
	}
	l.noted(e.Position)
	select {
	case l.turn <- struct{}{}:
		l.mu.Lock()
		next := l.head + 1
		l.mu.Unlock()
		if e.Position == next {
			l.tell([]stored{e})
		}
		<-l.turn
	default: // the holder of turn delivers it
	}
	if l.behind() {
		s.mu.Lock()
		if !s.closed {
			s.tasks.Go(func() { l.keepUp(s.life) })
		}
		s.mu.Unlock()
	}
}

// noted records that the log has an entry at p.
func (l *Log) noted(p store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = max(l.want, p)
}

func (l *Log) behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want > l.head && !l.ended
}

// tell makes entries that follow the head visible and passes them to Appended in one step, so that Bounds never
// returns less than Appended has seen. The caller holds turn.
func (l *Log) tell(entries []stored) {
	list := make([]store.Entry, len(entries))
	for i := range entries {
		list[i] = entries[i].Entry
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if list[0].Position != l.head+1 { // entries in between were evicted unread
		l.tail.Clear()
	}
	l.tail.Add(list...)
	l.reach(list[len(list)-1].Position, entries[len(entries)-1].stamp)
	if l.options.Appended != nil {
		l.options.Appended(list)
	}
}

// reach moves the head. The caller holds mu.
func (l *Log) reach(p store.Position, stamp time.Time) {
	l.head, l.stamp, l.want = p, stamp, max(l.want, p)
	if !l.ended {
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// follow reads entries until all positions that are known to exist were delivered.
func (l *Log) follow(ctx context.Context) error {
	for l.behind() {
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := l.advance(ctx)
		<-l.turn
		if err != nil {
			return err
		}
	}
	return l.current()
}

// advance does the work of follow. The caller holds turn.
func (l *Log) advance(ctx context.Context) error {
	for {
		l.mu.Lock()
		head, want := l.head, l.want
		l.mu.Unlock()
		if head >= want {
			return nil
		}
		found, first, err := l.fetch(ctx, head+1, want, pageMax)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			l.tell(found)
			continue
		}
		l.mu.Lock() // the entries were evicted unread
		l.first = max(l.first, first)
		l.tail.Clear()
		l.reach(max(head, first-1), time.Time{})
		l.mu.Unlock()
	}
}

// keepUp calls follow in the background, until it succeeds.
func (l *Log) keepUp(ctx context.Context) {
	err := asLong(ctx, func() (bool, error) {
		err := l.follow(ctx)
		return errors.Is(err, ErrUnreachable), err
	})
	l.note(err)
}

// note keeps the result of a look for Ping, and logs an error that follows a success.
func (l *Log) note(err error) {
	if l.s.life.Err() != nil || errors.Is(err, engine.ErrNewEpoch) {
		return
	}
	l.mu.Lock()
	known := l.fault != nil
	l.fault = err
	l.mu.Unlock()
	if err != nil && !known {
		l.s.log.Error("jetstream: the log cannot be followed", "log", l.name, "error", err)
	}
}

// await waits until the entry at p was delivered.
func (l *Log) await(ctx context.Context, p store.Position) error {
	l.noted(p)
	t := time.NewTimer(soon)
	defer t.Stop()
	for {
		l.mu.Lock()
		head, moved, ended := l.head, l.moved, l.ended
		l.mu.Unlock()
		switch {
		case head >= p:
			return nil
		case ended:
			return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return asLong(ctx, func() (bool, error) {
				err := l.follow(ctx)
				return errors.Is(err, ErrUnreachable), err
			})
		}
	}
}

// check asks the leader of the stream, with or without a proof, whether the log still has the epoch with which it was
// opened, and where it ends. If the stream has lost delivered entries, check begins a new epoch.
func (l *Log) check(ctx context.Context, proof bool) error {
	ask := l.s.info
	if proof {
		ask = l.s.proven
	}
	l.mu.Lock()
	head, stamp := l.head, l.stamp // read before the request: the log may advance meanwhile
	l.mu.Unlock()
	info, err := ask(ctx, l.stream)
	if code(err) == codeNoStream {
		l.over()
		return fmt.Errorf("log %s: %w: stream %s does not exist any more", l.name, engine.ErrNewEpoch, l.stream)
	}
	if err != nil {
		return err
	}
	if info.Config.Metadata[metaEpoch] != l.token {
		l.over()
		return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
	}
	if err := l.s.ours(l.name, l.short, info); err != nil {
		return err
	}
	if lost(info, head, l.s.clock.stamped(info.State.LastTime), stamp) {
		if !proof {
			return l.check(ctx, true)
		}
		l.over() // even if the new epoch cannot begin: new entries would get positions below the head
		want := info.Config
		l.s.renewed(&want, info)
		if err := l.s.api(ctx, "STREAM.UPDATE."+l.stream, want, nil); err != nil {
			return err
		}
		return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
	}
	if err := changed(info); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.want = max(l.first, store.Position(info.State.FirstSeq)), max(l.want, store.Position(info.State.LastSeq))
	if info.State.Msgs > 0 {
		l.proven = witness{l.token, store.Position(info.State.LastSeq), info.State.LastTime}
	}
	// The options of the last opening apply, in whichever process it was.
	age, err1 := time.ParseDuration(info.Config.Metadata[metaAge])
	count, err2 := strconv.Atoi(info.Config.Metadata[metaCount])
	if err1 == nil && err2 == nil && (age != l.options.MaxAge || count != l.options.MaxCount) {
		l.options.MaxAge, l.options.MaxCount, l.young, l.until = age, count, 0, time.Time{}
	}
	return nil
}

// changed refuses a stream whose limits differ from those of the last opening. Somebody has changed it since, and
// retained entries may be lost. OpenLog restores the limits.
func changed(info *jetstream.StreamInfo) error {
	c, want := &info.Config, info.Config
	age, err1 := time.ParseDuration(c.Metadata[metaAge])
	count, err2 := strconv.Atoi(c.Metadata[metaCount])
	want.Metadata = map[string]string{}
	limit(&want, store.LogOptions{MaxAge: age, MaxCount: count})
	if err1 != nil || err2 != nil || c.MaxAge != want.MaxAge || c.MaxMsgs != want.MaxMsgs {
		return fmt.Errorf("%w: %s has MaxAge %v and MaxMsgs %d, its log was opened with MaxAge %s and MaxCount %s; opening it again sets them",
			ErrForeign, c.Name, c.MaxAge, c.MaxMsgs, c.Metadata[metaAge], c.Metadata[metaCount])
	}
	return nil
}

// lost reports whether the stream was replaced, lacks the head that was delivered, or has another entry at the head.
func lost(info *jetstream.StreamInfo, head store.Position, last, stamp time.Time) bool {
	was, end := info.Config.Metadata[metaGroup], store.Position(info.State.LastSeq)
	return was != "" && was != group(info) || end < head || end == head && !stamp.IsZero() && info.State.Msgs > 0 && !last.Equal(stamp)
}

// lacks reports whether the stream has lost entries that an ended log had delivered. For an open log, check does
// that.
func (l *Log) lacks(info *jetstream.StreamInfo) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended && lost(info, l.head, l.s.clock.stamped(info.State.LastTime), l.stamp)
}

// look proves that the stream has a quorum, asks the leader for its head, and reads up to it. It returns early if
// another call's look began after this call.
func (l *Log) look(ctx context.Context) error {
	called := time.Now()
	select {
	case l.looking <- struct{}{}:
		defer func() { <-l.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	wait := between - time.Since(l.looked)
	good := l.seen.After(called)
	l.mu.Unlock()
	if good {
		return nil
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	began := time.Now()
	err := l.check(ctx, true)
	if err == nil {
		err = l.follow(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked = time.Now(); err == nil {
		l.seen = began
	}
	return err
}

// lookAlone looks in the background and notes the result for Ping.
func (l *Log) lookAlone() {
	if l.current() == nil {
		l.note(l.look(l.s.life))
	}
}

// CatchUp implements [engine.Log].
func (l *Log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	ctx, done, err := l.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	l.mu.Lock()
	head := l.head
	l.mu.Unlock()
	if head >= p {
		return head, nil
	}
	if err := l.look(ctx); err != nil {
		return 0, l.s.because(fmt.Errorf("log %s: %w", l.name, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head, nil
}

// Seen implements [engine.Log].
func (l *Log) Seen() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// poll looks at every log once per Poll, one after the other, at most looks per second.
func (s *Store) poll() {
	for s.pause(s.o.Poll) {
		s.mu.Lock()
		logs := make([]*Log, 0, len(s.logs))
		for _, l := range s.logs {
			logs = append(logs, l)
		}
		s.mu.Unlock()
		for _, l := range logs {
			l.lookAlone()
			if err := l.testify(s.life, time.Now()); err != nil {
				s.log.Debug("jetstream: the witness of a log was not stored", "log", l.name, "error", err)
			}
			if !s.pause(time.Second / looks) {
				return
			}
		}
	}
}

// watch looks at the state every 5 s. Requests for the cluster's state are more frequent and show a life that another
// process has begun.
func (s *Store) watch() {
	for s.pause(5 * time.Second) {
		s.watchLife()
	}
}

// pause waits for d. It returns false if the store is closed meanwhile.
func (s *Store) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.life.Done():
		return false
	}
}
