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

// A storedCursor is the encoding of a client's cursor in the stream. The application has processed the webhook bodies
// up to Taken (JS-32).
type storedCursor struct {
	Saved clientstore.Saved
	Taken uint64
}

// A storedReceived is the encoding of a webhook body in the stream.
type storedReceived struct{ EventID, Body []byte }

// A storedCallback is the encoding of a client's callback in the stream. Secrets contains the sealed secrets of
// Callback.
type storedCallback struct {
	Callback clientstore.Callback
	Secrets  []byte
}

// clientPrefix returns the subject prefix for a client's key.
func clientPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16]) + "."
}

func cursorSubject(key string) string { return clientPrefix(key) + "c" }

func callbackSubject(key string) string { return clientPrefix(key) + "b" }

func receivedSubject(key, id string) string {
	sum := sha256.Sum256([]byte(id))
	return clientPrefix(key) + "r." + hex.EncodeToString(sum[:16])
}

// clientRecords returns the stream of client state. The first call creates the stream if necessary.
func (s *Store) clientRecords(ctx context.Context) (*recordStream, error) {
	unlock, err := s.locks.Lock(ctx, "client")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s.client.Load() == nil {
		c := s.newRecordStream("c", "b.")
		if err := s.ensureStream(ctx, s.recordStreamConfig(c, "client")); err != nil {
			return nil, err
		}
		s.client.Store(c)
	}
	return s.client.Load(), nil
}

// changeClient changes the client records of a key.
func (s *Store) changeClient(ctx context.Context, key string, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	err = s.withLock(ctx, "key "+key, func(ctx context.Context) error {
		c, err := s.clientRecords(ctx)
		if err != nil {
			return err
		}
		first, err = c.change(ctx, subjects, step)
		return err
	})
	return first, err
}

// readClient decodes a client record into v. It returns false if the record does not exist.
func (s *Store) readClient(ctx context.Context, subject string, v any) (bool, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	c, err := s.clientRecords(ctx)
	if err != nil {
		return false, s.wrapClosed(err)
	}
	r, err := c.read(ctx, true, subject)
	if err != nil {
		return false, s.wrapClosed(err)
	}
	return decodeRecord(r.of(subject), v)
}

func decodeRecord(r record, v any) (bool, error) {
	if !r.exists() {
		return false, nil
	}
	if err := json.Unmarshal(r.body, v); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrCorrupt, r.subject, err)
	}
	return true, nil
}

// Load implements [clientstore.CursorStore].
func (s *Store) Load(ctx context.Context, key string) (clientstore.Saved, bool, error) {
	var c storedCursor
	_, err := s.readClient(ctx, cursorSubject(key), &c)
	if err != nil || c.Saved.Cursor == "" {
		return clientstore.Saved{}, false, err
	}
	return c.Saved, true, nil
}

// Save implements [clientstore.CursorStore].
func (s *Store) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	return s.commitCursor(ctx, key, func(c *storedCursor) { c.Saved = saved })
}

// Delete implements [clientstore.CursorStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.commitCursor(ctx, key, func(c *storedCursor) { c.Saved = clientstore.Saved{} })
}

func (s *Store) commitCursor(ctx context.Context, key string, change func(*storedCursor)) error {
	subject := cursorSubject(key)
	_, err := s.changeClient(ctx, key, []string{subject}, func(r *reading) ([]write, error) {
		var c storedCursor
		if _, err := decodeRecord(r.of(subject), &c); err != nil {
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
	body, err := json.Marshal(storedReceived{[]byte(x.EventID), x.Body})
	if err != nil {
		return false, err
	}
	subject, at := receivedSubject(key, x.EventID), cursorSubject(key)
	first, err := s.changeClient(ctx, key, []string{subject, at}, func(r *reading) ([]write, error) {
		var c storedCursor
		if _, err := decodeRecord(r.of(at), &c); err != nil {
			return nil, err
		}
		if is := r.of(subject); is.exists() && is.sequence > c.Taken {
			return nil, nil
		}
		return []write{put(r.of(subject), body)}, nil
	})
	return first > 0, err
}

// Received implements [clientstore.ReceivedStore].
func (s *Store) Received(ctx context.Context, key string, after uint64, limit int) (bodies []clientstore.Received, err error) {
	var c storedCursor
	if _, err := s.readClient(ctx, cursorSubject(key), &c); err != nil {
		return nil, err
	}
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at := clientPrefix(key) + "r."
	all, _, err := s.client.Load().scan(ctx, at+"*", s.proofSubject(at), max(after, c.Taken)+1, max(limit, 1))
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	for _, r := range all {
		if !r.exists() || len(bodies) >= limit {
			continue
		}
		var x storedReceived
		if _, err := decodeRecord(r, &x); err != nil {
			return nil, err
		}
		bodies = append(bodies, clientstore.Received{Sequence: r.sequence, EventID: string(x.EventID), Body: x.Body})
	}
	return bodies, nil
}

// TakeReceived implements [clientstore.ReceivedStore]. TakeReceived first records the sequence of the last taken body
// in the cursor's message. Bodies up to that sequence are no longer returned. Then it deletes them.
func (s *Store) TakeReceived(ctx context.Context, key string, upTo uint64, saved clientstore.Saved) error {
	c, err := s.clientRecords(ctx)
	if err != nil {
		return err
	}
	last, err := c.prove(ctx) // later bodies have greater sequences
	if err != nil {
		return s.wrapClosed(err)
	}
	upTo = min(upTo, last)
	err = s.commitCursor(ctx, key, func(c *storedCursor) {
		if c.Taken = max(c.Taken, upTo); saved.Cursor != "" {
			c.Saved = saved
		}
	})
	if err != nil {
		return err
	}
	if err := s.purge(ctx, c, clientPrefix(key)+"r.>", upTo+1); err != nil {
		s.log.Debug("jetstream: bodies that were taken were not deleted", "error", err)
	}
	return nil
}

// Callback implements [clientstore.CallbackStore].
func (s *Store) Callback(ctx context.Context, key string) (clientstore.Callback, bool, error) {
	var x storedCallback
	is, err := s.readClient(ctx, callbackSubject(key), &x)
	if err != nil || !is {
		return clientstore.Callback{}, false, err
	}
	if x.Callback.Secrets, err = s.box.Open(sealed.CallbackID(key), x.Secrets); err != nil {
		return clientstore.Callback{}, false, classifySecretError(err)
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
	body, err := json.Marshal(storedCallback{c, secrets})
	if err != nil {
		return err
	}
	subject := callbackSubject(key)
	_, err = s.changeClient(ctx, key, []string{subject}, func(r *reading) ([]write, error) { return []write{put(r.of(subject), body)}, nil })
	return err
}

// DeleteCallback implements [clientstore.CallbackStore].
func (s *Store) DeleteCallback(ctx context.Context, key string) error {
	subject := callbackSubject(key)
	_, err := s.changeClient(ctx, key, []string{subject}, func(r *reading) ([]write, error) {
		if x := r.of(subject); x.exists() {
			return []write{remove(x)}, nil
		}
		return nil, nil
	})
	return err
}
