package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// replaysPrefix begins the keys of states that are the replays under way in a process.
	replaysPrefix = "replays/"
	// maxTold bounds how many replays a process tells of.
	maxTold = 500
)

// replays are those that have begun in this process, as far as others may want to know of them.
type replays struct {
	mu      sync.Mutex
	begun   map[string]struct{} // ids of subscriptions
	telling bool                // a goroutine tells of them until none is left
}

// A toldReplays is what a process tells of its replays under way.
type toldReplays struct {
	At      time.Time                  `json:"at"`
	Running map[string]operator.Replay `json:"running"`
	// More tells that Running is not all of them.
	More bool `json:"more,omitempty"`
}

// replayHere replays a subscription that lives here, and has the other processes told.
func (a *Admin) replayHere(ctx context.Context, id, cursor string, last store.Position) error {
	if err := a.o.Webhooks.Replay(ctx, id, cursor, last); err != nil {
		return err
	}
	shared, ok := a.o.Store.(engine.Shared)
	if !ok {
		return nil
	}
	r := &a.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == nil {
		r.begun = map[string]struct{}{}
	}
	r.begun[id] = struct{}{}
	if !r.telling {
		r.telling = a.o.Go(func() { a.tellReplays(shared) })
	}
	return nil
}

// tellReplays tells the other processes of the replays of this one until none is under way.
func (a *Admin) tellReplays(shared engine.Shared) {
	own := engine.State{Key: replaysPrefix + rand.Text()}
	failed, cleaned := false, false
	for {
		told := a.underWay(maxTold)
		err := a.tellReplaysOnce(shared, &own, told)
		if err == nil && !cleaned {
			err = a.forgetReplays(shared)
			cleaned = err == nil
		}
		if err != nil && !failed {
			a.o.Log.Internal(context.Background(), "telling the other processes of replays", err)
		}
		if failed = err != nil; !failed && len(told.Running) == 0 && a.replays.toldAll() {
			return
		}
		select {
		case <-time.After(beatEvery):
		case <-a.o.Closing:
			if err := a.tellReplaysOnce(shared, &own, toldReplays{}); err != nil {
				a.o.Log.Internal(context.Background(), "telling the other processes of replays", err)
			}
			return
		}
	}
}

// toldAll ends the telling unless a replay has begun meanwhile.
func (r *replays) toldAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.telling = len(r.begun) > 0
	return !r.telling
}

// underWay are the replays of this process, or some of them where they are more than most; those that are over are forgotten.
func (a *Admin) underWay(most int) toldReplays {
	told := toldReplays{At: a.o.Now(), Running: map[string]operator.Replay{}}
	r := &a.replays
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.begun {
		var s sight
		if h := a.o.Webhooks.Get(id); h != nil {
			s.follow(h)
		}
		switch {
		case s.Replay == nil:
			delete(r.begun, id)
		case len(told.Running) == most:
			told.More = true
		default:
			told.Running[id] = *s.Replay
		}
	}
	return told
}

// tellReplaysOnce stores what is told, or deletes it where nothing is under way.
func (a *Admin) tellReplaysOnce(shared engine.Shared, own *engine.State, told toldReplays) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	if len(told.Running) == 0 && own.Revision == 0 {
		return nil
	}
	value, err := json.Marshal(told)
	if err != nil {
		return err
	}
	own.Value = value
	for {
		revision := uint64(0)
		if len(told.Running) == 0 {
			err = shared.DeleteState(ctx, own.Key, own.Revision)
		} else {
			revision, err = shared.PutState(ctx, *own)
		}
		if err == nil {
			own.Revision = revision
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		// Another process has deleted it, or the answer to an earlier call was lost.
		found, err := shared.States(ctx, own.Key, "", 1)
		if err != nil {
			return err
		}
		if own.Revision = 0; len(found) > 0 {
			own.Revision = found[0].Revision
		} else if len(told.Running) == 0 {
			return nil
		}
	}
}

// forgetReplays deletes what processes have told that have died.
func (a *Admin) forgetReplays(shared engine.Shared) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	_, silent, err := a.readReplays(ctx, shared)
	for _, s := range silent {
		if gone := shared.DeleteState(ctx, s.Key, s.Revision); gone != nil && !errors.Is(gone, store.ErrConflict) {
			err = cmp.Or(err, gone)
		}
	}
	return err
}

// readReplays returns the replays under way in all processes, and what is stored of processes that are silent.
func (a *Admin) readReplays(ctx context.Context, shared engine.Shared) (all toldReplays, silent []engine.State, err error) {
	found, err := shared.States(ctx, replaysPrefix, "", maxStates)
	if err != nil {
		return all, nil, fmt.Errorf("reading the replays of all processes: %w", err)
	}
	all.Running = map[string]operator.Replay{}
	now := a.o.Now()
	for _, s := range found {
		var told toldReplays
		if json.Unmarshal(s.Value, &told) != nil {
			continue // another build wrote it
		}
		if now.Sub(told.At) > silentFor {
			silent = append(silent, s)
			continue
		}
		maps.Copy(all.Running, told.Running)
		all.More = all.More || told.More
	}
	return all, silent, nil
}

// replayed adds the replay of a subscription that lives in another process, as that one has told.
func (l *look) replayed(s *sight) error {
	shared, ok := l.a.o.Store.(engine.Shared)
	if !ok || s.live != nil {
		return nil
	}
	if l.replays == nil {
		told, _, err := l.a.readReplays(l.ctx, shared)
		if err != nil {
			return err
		}
		l.replays = &told
	}
	if r, ok := l.replays.Running[s.ID]; ok {
		s.Replay = &r
	}
	s.mayReplay = l.replays.More
	return nil
}
