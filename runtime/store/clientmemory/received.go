package clientmemory

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Received is an in-memory [clientstore.ReceivedStore]. It saves cursors to a separate store.
type Received struct {
	cursors clientstore.CursorStore

	mu   sync.Mutex
	keys map[string]*inbox
}

type inbox struct {
	last   uint64
	bodies []clientstore.Received
}

// NewReceived returns an empty store that saves cursors to the given cursor store.
func NewReceived(cursors clientstore.CursorStore) *Received {
	return &Received{cursors: cursors, keys: map[string]*inbox{}}
}

// PutReceived implements [clientstore.ReceivedStore].
func (r *Received) PutReceived(ctx context.Context, key string, e clientstore.Received) (fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.keys[key]
	if box == nil {
		box = &inbox{}
		r.keys[key] = box
	}
	if slices.ContainsFunc(box.bodies, func(o clientstore.Received) bool { return o.EventID == e.EventID }) {
		return false, nil
	}
	box.last++
	e.Sequence, e.Body = box.last, bytes.Clone(e.Body)
	box.bodies = append(box.bodies, e)
	return true, nil
}

// Received implements [clientstore.ReceivedStore].
func (r *Received) Received(ctx context.Context, key string, after uint64, limit int) ([]clientstore.Received, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.keys[key]
	if box == nil {
		return nil, nil
	}
	from := slices.IndexFunc(box.bodies, func(o clientstore.Received) bool { return o.Sequence > after })
	if from < 0 {
		return nil, nil
	}
	return slices.Clone(box.bodies[from:min(from+max(limit, 0), len(box.bodies))]), nil
}

// TakeReceived implements [clientstore.ReceivedStore].
func (r *Received) TakeReceived(ctx context.Context, key string, upTo uint64, s clientstore.Saved) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Cursor != "" {
		if err := r.cursors.Save(ctx, key, s); err != nil {
			return err
		}
	}
	if box := r.keys[key]; box != nil {
		box.bodies = slices.DeleteFunc(box.bodies, func(o clientstore.Received) bool { return o.Sequence <= upTo })
	}
	return nil
}
