package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// A cursor is the stored form of a client's cursor. The application has processed the bodies of webhooks up to Taken
// (JS-32).
type cursor struct {
	Saved clientstore.Saved
	Taken uint64
}

// A received is the stored form of a webhook's body.
type received struct{ EventID, Body []byte }

// A callback is the stored form of a client's callback. The secrets are sealed and kept outside Callback.
type callback struct {
	Callback clientstore.Callback
	Secrets  []byte
}

// clientAt returns the prefix of the subjects of a client's key.
func clientAt(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16]) + "."
}

func cursorAt(key string) string { return clientAt(key) + "c" }

func callbackAt(key string) string { return clientAt(key) + "b" }

func receivedAt(key, id string) string {
	sum := sha256.Sum256([]byte(id))
	return clientAt(key) + "r." + hex.EncodeToString(sum[:16])
}

// kept returns the stream of client state. The first call creates it.
func (s *Store) kept(ctx context.Context) (*records, error) {
	unlock, err := s.locks.Lock(ctx, "client")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s.client.Load() == nil {
		c := s.records("c", "b.")
		if _, err := s.ensure(ctx, s.keeping(c, "client")); err != nil {
			return nil, err
		}
		s.client.Store(c)
	}
	return s.client.Load(), nil
}

// keep changes records of client state under one key.
func (s *Store) keep(ctx context.Context, key string, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	err = s.one(ctx, "key "+key, func(ctx context.Context) error {
		c, err := s.kept(ctx)
		if err != nil {
			return err
		}
		first, err = c.change(ctx, subjects, step)
		return err
	})
	return first, err
}

// keptAt reads one record of client state into v. It returns false if the record does not exist.
func (s *Store) keptAt(ctx context.Context, subject string, v any) (bool, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	c, err := s.kept(ctx)
	if err != nil {
		return false, s.because(err)
	}
	r, err := c.read(ctx, true, subject)
	if err != nil {
		return false, s.because(err)
	}
	return found(r.of(subject), v)
}

func found(r record, v any) (bool, error) {
	if !r.there() {
		return false, nil
	}
	if err := json.Unmarshal(r.body, v); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrCorrupt, r.subject, err)
	}
	return true, nil
}

// Load implements [clientstore.CursorStore].
func (s *Store) Load(ctx context.Context, key string) (clientstore.Saved, bool, error) {
	var c cursor
	_, err := s.keptAt(ctx, cursorAt(key), &c)
	if err != nil || c.Saved.Cursor == "" {
		return clientstore.Saved{}, false, err
	}
	return c.Saved, true, nil
}

// Save implements [clientstore.CursorStore].
func (s *Store) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	return s.commitCursor(ctx, key, func(c *cursor) { c.Saved = saved })
}

// Delete implements [clientstore.CursorStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.commitCursor(ctx, key, func(c *cursor) { c.Saved = clientstore.Saved{} })
}

func (s *Store) commitCursor(ctx context.Context, key string, change func(*cursor)) error {
	subject := cursorAt(key)
	_, err := s.keep(ctx, key, []string{subject}, func(r *reading) ([]write, error) {
		var c cursor
		if _, err := found(r.of(subject), &c); err != nil {
			return nil, err
		}
		change(&c)
		b, err := json.Marshal(c)
		return []write{put(r.of(subject), b)}, err
	})
	return err
}

// PutReceived implements [clientstore.ReceivedStore].
func (s *Store) PutReceived(ctx context.Context, key string, x clientstore.Received) (fresh bool, err error) {
	body, err := json.Marshal(received{[]byte(x.EventID), x.Body})
	if err != nil {
		return false, err
	}
	subject, at := receivedAt(key, x.EventID), cursorAt(key)
	first, err := s.keep(ctx, key, []string{subject, at}, func(r *reading) ([]write, error) {
		var c cursor
		if _, err := found(r.of(at), &c); err != nil {
			return nil, err
		}
		if is := r.of(subject); is.there() && is.sequence > c.Taken {
			return nil, nil
		}
		return []write{put(r.of(subject), body)}, nil
	})
	return first > 0, err
}

// Received implements [clientstore.ReceivedStore].
func (s *Store) Received(ctx context.Context, key string, after uint64, limit int) (bodies []clientstore.Received, err error) {
	var c cursor
	if _, err := s.keptAt(ctx, cursorAt(key), &c); err != nil {
		return nil, err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at := clientAt(key) + "r."
	all, _, err := s.client.Load().scan(ctx, at+"*", s.proofIn(at), max(after, c.Taken)+1, max(limit, 1))
	if err != nil {
		return nil, s.because(err)
	}
	for _, r := range all {
		if !r.there() || len(bodies) >= limit {
			continue
		}
		var x received
		if _, err := found(r, &x); err != nil {
			return nil, err
		}
		bodies = append(bodies, clientstore.Received{Sequence: r.sequence, EventID: string(x.EventID), Body: x.Body})
	}
	return bodies, nil
}

// TakeReceived implements [clientstore.ReceivedStore]. The cursor's message records up to which sequence bodies were
// taken. These bodies are never returned afterwards, and TakeReceived deletes them last.
func (s *Store) TakeReceived(ctx context.Context, key string, upTo uint64, saved clientstore.Saved) error {
	c, err := s.kept(ctx)
	if err != nil {
		return err
	}
	last, err := c.prove(ctx) // later bodies have greater sequences
	if err != nil {
		return s.because(err)
	}
	upTo = min(upTo, last)
	err = s.commitCursor(ctx, key, func(c *cursor) {
		if c.Taken = max(c.Taken, upTo); saved.Cursor != "" {
			c.Saved = saved
		}
	})
	if err != nil {
		return err
	}
	if err := s.purge(ctx, c, clientAt(key)+"r.>", upTo+1); err != nil {
		s.log.Debug("jetstream: bodies that were taken were not deleted", "error", err)
	}
	return nil
}

// Callback implements [clientstore.CallbackStore].
func (s *Store) Callback(ctx context.Context, key string) (clientstore.Callback, bool, error) {
	var x callback
	is, err := s.keptAt(ctx, callbackAt(key), &x)
	if err != nil || !is {
		return clientstore.Callback{}, false, err
	}
	if x.Callback.Secrets, err = s.box.Open(sealed.CallbackID(key), x.Secrets); err != nil {
		return clientstore.Callback{}, false, natured(err)
	}
	return x.Callback, true, nil
}

// PutCallback implements [clientstore.CallbackStore].
func (s *Store) PutCallback(ctx context.Context, key string, c clientstore.Callback) error {
	secrets, err := s.box.Seal(sealed.CallbackID(key), c.Secrets)
	if err != nil {
		return err
	}
	c.Secrets = nil
	body, err := json.Marshal(callback{c, secrets})
	if err != nil {
		return err
	}
	subject := callbackAt(key)
	_, err = s.keep(ctx, key, []string{subject}, func(r *reading) ([]write, error) { return []write{put(r.of(subject), body)}, nil })
	return err
}

// DeleteCallback implements [clientstore.CallbackStore].
func (s *Store) DeleteCallback(ctx context.Context, key string) error {
	subject := callbackAt(key)
	_, err := s.keep(ctx, key, []string{subject}, func(r *reading) ([]write, error) {
		if x := r.of(subject); x.there() {
			return []write{remove(x)}, nil
		}
		return nil, nil
	})
	return err
}
