package ledger

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// A callbackRecord is the value of cb. In a store with a key, Sealed has the Secrets.
type callbackRecord struct {
	Key          []byte         `json:"key"`
	URL          string         `json:"url"`
	Path         string         `json:"path"`
	Secrets      []store.Secret `json:"secrets,omitempty"`
	Sealed       []byte         `json:"sealed,omitempty"`
	Subscription string         `json:"subscription,omitempty"`
	Start        []byte         `json:"start,omitempty"`
	EventIDs     [][]byte       `json:"eventIds,omitempty"`
}

// Bytes implements [store.Value].
func (c *callbackRecord) Bytes() []byte { return encode(c) }

func callbackKey(key string) string { return join(familyCallback, hash(key)) }

// sealCallback returns the record of a callback.
func (l *Ledger) sealCallback(key string, c clientstore.Callback) (*callbackRecord, error) {
	record := &callbackRecord{Key: []byte(key), URL: c.URL, Path: c.Path, Secrets: own(c.Secrets), Subscription: c.Subscription, Start: []byte(c.Start)}
	if len(record.Start) == 0 {
		record.Start = nil
	}
	var raw int
	if record.EventIDs, raw = blobs(c.EventIDs); l.box.Keyed() {
		var err error
		if record.Sealed, err = l.box.Seal(sealed.CallbackID(key), c.Secrets); err != nil {
			return nil, err
		}
		record.Secrets = nil
	}
	for _, text := range []string{c.URL, c.Path, c.Subscription} {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("%w: the URL, the path or the subscription ID %.40q… is not valid UTF-8", ErrName, text)
		}
		raw += len(text)
	}
	for _, s := range c.Secrets {
		raw += len(s.Key) + 64
	}
	return record, fits("a callback", raw+len(key)+len(c.Start), record)
}

// openCallback returns the callback of a record.
func (l *Ledger) openCallback(record *callbackRecord) (c clientstore.Callback, err error) {
	c = clientstore.Callback{URL: record.URL, Path: record.Path, Secrets: own(record.Secrets), Subscription: record.Subscription,
		Start: string(record.Start), EventIDs: texts(record.EventIDs)}
	switch {
	case record.Sealed != nil:
		c.Secrets, err = l.box.Open(sealed.CallbackID(string(record.Key)), record.Sealed)
	case l.box.Keyed():
		err = fmt.Errorf("%w: the secrets of callback %q were written without the key of the store", sealed.ErrForm, record.Key)
	}
	return c, err
}

// resealedCallback returns a record with its secrets sealed by the current key, or nil if that is how they are.
func (l *Ledger) resealedCallback(r store.Record, plain bool) (store.Value, error) {
	record, err := decode[callbackRecord](r)
	if err != nil {
		return nil, err
	}
	next, id := *record, sealed.CallbackID(string(record.Key))
	if record.Sealed == nil {
		if !plain {
			_, err := l.openCallback(record)
			return nil, err
		}
		next.Secrets = nil
		next.Sealed, err = l.box.Seal(id, record.Secrets)
	} else {
		next.Sealed, err = l.box.Renew(id, record.Sealed, false)
	}
	if err != nil || next.Sealed == nil {
		return nil, err
	}
	return &next, nil
}

// Callback implements [clientstore.CallbackStore].
func (c *Client) Callback(ctx context.Context, key string) (cb clientstore.Callback, ok bool, err error) {
	found, err := c.l.e.Get(ctx, store.Latest, callbackKey(key))
	if err == nil {
		var record *callbackRecord
		if record, err = decode[callbackRecord](found[0]); err == nil && record == nil {
			return cb, false, nil
		}
		if err == nil {
			cb, err = c.l.openCallback(record)
		}
	}
	if err != nil {
		return clientstore.Callback{}, false, fmt.Errorf("reading callback %q: %w", key, err)
	}
	return cb, true, nil
}

// PutCallback implements [clientstore.CallbackStore]. It encrypts the secrets if the ledger has a key.
func (c *Client) PutCallback(ctx context.Context, key string, cb clientstore.Callback) error {
	at := callbackKey(key)
	record, err := c.l.sealCallback(key, cb)
	if err == nil {
		_, err = c.l.change(ctx, []string{at}, func(r reading) (*store.Commit, error) {
			return &store.Commit{Writes: []store.Write{r.write(at, record)}}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("saving callback %q: %w", key, err)
	}
	return nil
}

// DeleteCallback implements [clientstore.CallbackStore].
func (c *Client) DeleteCallback(ctx context.Context, key string) error {
	at := callbackKey(key)
	if _, err := c.l.change(ctx, []string{at}, deletion(at)); err != nil {
		return fmt.Errorf("deleting callback %q: %w", key, err)
	}
	return nil
}
