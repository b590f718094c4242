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
	// republishWait is how long an append waits for its entry to be republished before it reads the entry.
	republishWait = 5 * time.Millisecond
	// minPollInterval is the minimum time between two polls of a log.
	minPollInterval = 100 * time.Millisecond
	// maxPolls is the maximum number of logs that are polled per second.
	maxPolls = 256
)

// handleRepublished handles an entry that the servers republish on ns.t.<log>.<epoch>.
func (s *Store) handleRepublished(m *nats.Msg) {
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
	e, err := s.entryFromMessage(l.stream, m)
	if err != nil { // a reader that reaches the entry receives the error
		s.log.Error("jetstream: a republished entry cannot be decoded", "log", l.name, "error", err)
		return
	}
	l.recordPosition(e.Position)
	select {
	case l.turn <- struct{}{}:
		l.mu.Lock()
		next := l.head + 1
		l.mu.Unlock()
		if e.Position == next {
			l.deliver([]storedEntry{e})
		}
		<-l.turn
	default: // the holder of turn delivers it
	}
	if l.behind() {
		s.mu.Lock()
		if !s.closed {
			s.tasks.Go(func() { l.followInBackground(s.life) })
		}
		s.mu.Unlock()
	}
}

// recordPosition records that the log has an entry at p.
func (l *Log) recordPosition(p store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = max(l.want, p)
}

func (l *Log) behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want > l.head && !l.ended
}

// deliver makes entries that follow the head visible and passes them to Appended in one step, so that Bounds always
// includes every entry passed to Appended. The caller must hold turn.
func (l *Log) deliver(entries []storedEntry) {
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
	l.setHead(list[len(list)-1].Position, entries[len(entries)-1].stamp)
	if l.options.Appended != nil {
		l.options.Appended(list)
	}
}

// setHead advances the head. The caller must hold mu.
func (l *Log) setHead(p store.Position, stamp time.Time) {
	l.head, l.stamp, l.want = p, stamp, max(l.want, p)
	if !l.ended {
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// follow reads entries until all known positions have been delivered.
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

// advance reads and delivers entries until the head reaches want. The caller must hold turn.
func (l *Log) advance(ctx context.Context) error {
	for {
		l.mu.Lock()
		head, want := l.head, l.want
		l.mu.Unlock()
		if head >= want {
			return nil
		}
		found, first, err := l.fetchConsecutive(ctx, head+1, want, pageMax)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			l.deliver(found)
			continue
		}
		l.mu.Lock() // the entries were evicted unread
		l.first = max(l.first, first)
		l.tail.Clear()
		l.setHead(max(head, first-1), time.Time{})
		l.mu.Unlock()
	}
}

// followInBackground calls follow until it succeeds and records the result.
func (l *Log) followInBackground(ctx context.Context) {
	err := retry(ctx, func() (bool, error) {
		err := l.follow(ctx)
		return errors.Is(err, ErrUnreachable), err
	})
	l.recordResult(err)
}

// recordResult stores the result of a poll for Ping. It logs the first error after a success.
func (l *Log) recordResult(err error) {
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

// waitFor waits until the entry at p has been delivered.
func (l *Log) waitFor(ctx context.Context, p store.Position) error {
	l.recordPosition(p)
	t := time.NewTimer(republishWait)
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
			return retry(ctx, func() (bool, error) {
				err := l.follow(ctx)
				return errors.Is(err, ErrUnreachable), err
			})
		}
	}
}

// checkHead queries the stream's leader for the log's epoch and last position, and returns ErrNewEpoch if the epoch has
// changed. If proof is set, it also checks that the stream has a quorum. If the stream has lost delivered entries,
// checkHead begins a new epoch.
func (l *Log) checkHead(ctx context.Context, proof bool) error {
	ask := l.s.leaderInfo
	if proof {
		ask = l.s.provenInfo
	}
	l.mu.Lock()
	head, stamp := l.head, l.stamp // read before the request: the log may advance meanwhile
	l.mu.Unlock()
	info, err := ask(ctx, l.stream)
	if apiErrorCode(err) == codeNoStream {
		l.end()
		return fmt.Errorf("log %s: %w: stream %s does not exist any more", l.name, engine.ErrNewEpoch, l.stream)
	}
	if err != nil {
		return err
	}
	if info.Config.Metadata[metaEpoch] != l.token {
		l.end()
		return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
	}
	if err := l.s.checkLogStream(l.name, l.short, info); err != nil {
		return err
	}
	if hasLostDelivered(info, head, l.s.clock.appendTime(info.State.LastTime), stamp) {
		if !proof {
			return l.checkHead(ctx, true)
		}
		l.end() // even if the new epoch cannot begin: new entries would get positions below the head
		want := info.Config
		l.s.beginEpoch(&want, info)
		if err := l.s.callAPI(ctx, "STREAM.UPDATE."+l.stream, want, nil); err != nil {
			return err
		}
		return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
	}
	if err := checkLimits(info); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.want = max(l.first, store.Position(info.State.FirstSeq)), max(l.want, store.Position(info.State.LastSeq))
	if info.State.Msgs > 0 {
		l.proven = witness{l.token, store.Position(info.State.LastSeq), info.State.LastTime}
	}
	// The options of the latest OpenLog call apply, regardless of the process that made it.
	age, err1 := time.ParseDuration(info.Config.Metadata[metaAge])
	count, err2 := strconv.Atoi(info.Config.Metadata[metaCount])
	if err1 == nil && err2 == nil && (age != l.options.MaxAge || count != l.options.MaxCount) {
		l.options.MaxAge, l.options.MaxCount, l.young, l.until = age, count, 0, time.Time{}
	}
	return nil
}

// checkLimits returns an error if the stream's limits differ from those set by the latest OpenLog call. In that case,
// the stream was modified, and retained entries may have been lost. OpenLog restores the limits.
func checkLimits(info *jetstream.StreamInfo) error {
	c, want := &info.Config, info.Config
	age, err1 := time.ParseDuration(c.Metadata[metaAge])
	count, err2 := strconv.Atoi(c.Metadata[metaCount])
	want.Metadata = map[string]string{}
	setLimits(&want, store.LogOptions{MaxAge: age, MaxCount: count})
	if err1 != nil || err2 != nil || c.MaxAge != want.MaxAge || c.MaxMsgs != want.MaxMsgs {
		return fmt.Errorf("%w: %s has MaxAge %v and MaxMsgs %d, its log was opened with MaxAge %s and MaxCount %s; opening it again sets them",
			ErrForeign, c.Name, c.MaxAge, c.MaxMsgs, c.Metadata[metaAge], c.Metadata[metaCount])
	}
	return nil
}

// hasLostDelivered reports whether the stream was replaced, ends before the delivered head, or has a different entry at
// the head.
func hasLostDelivered(info *jetstream.StreamInfo, head store.Position, last, stamp time.Time) bool {
	was, end := info.Config.Metadata[metaGroup], store.Position(info.State.LastSeq)
	return was != "" && was != raftGroup(info) || end < head || end == head && !stamp.IsZero() && info.State.Msgs > 0 && !last.Equal(stamp)
}

// hasLostEntries reports whether the stream has lost entries that the log delivered before it ended. For an open log,
// checkHead detects such a loss.
func (l *Log) hasLostEntries(info *jetstream.StreamInfo) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended && hasLostDelivered(info, l.head, l.s.clock.appendTime(info.State.LastTime), l.stamp)
}

// pollOnce polls the log once. It checks that the stream has a quorum, requests the head from the leader, and reads up
// to it. It returns early if another call has completed a poll that began after this call.
func (l *Log) pollOnce(ctx context.Context) error {
	called := time.Now()
	select {
	case l.looking <- struct{}{}:
		defer func() { <-l.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	wait := minPollInterval - time.Since(l.looked)
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
	err := l.checkHead(ctx, true)
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

// pollInBackground polls the log once and records the result for Ping.
func (l *Log) pollInBackground() {
	if l.current() == nil {
		l.recordResult(l.pollOnce(l.s.life))
	}
}

// CatchUp implements [engine.Log].
func (l *Log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	ctx, done, err := l.beginCall(ctx)
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
	if err := l.pollOnce(ctx); err != nil {
		return 0, l.s.wrapClosed(fmt.Errorf("log %s: %w", l.name, err))
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

// poll reads new entries of every log once per Poll interval, one log after another and at most maxPolls per second.
func (s *Store) poll() {
	for s.pause(s.o.Poll) {
		s.mu.Lock()
		logs := make([]*Log, 0, len(s.logs))
		for _, l := range s.logs {
			logs = append(logs, l)
		}
		s.mu.Unlock()
		for _, l := range logs {
			l.pollInBackground()
			if err := l.recordWitness(s.life, time.Now()); err != nil {
				s.log.Debug("jetstream: the witness of a log was not stored", "log", l.name, "error", err)
			}
			if !s.pause(time.Second / maxPolls) {
				return
			}
		}
	}
}

// watch checks the state every 5 s. Cluster requests are more frequent and also detect a generation that another
// process has begun.
func (s *Store) watch() {
	for s.pause(5 * time.Second) {
		s.watchGeneration()
	}
}

// pause waits for d. It returns false if the store is closed before then.
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
