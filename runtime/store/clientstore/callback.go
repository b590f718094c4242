package clientstore

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Callback is what a client keeps of one webhook subscription, so that a later process answers
// on the same path with the same secrets and can end or renew what the server still has. See
// CLI-5.
type Callback struct {
	// URL is the callback URL as the server knows it, byte for byte: part of the subscription's
	// key. Path is its part below the receiver. See SUB-4.
	URL  string `json:"url"`
	Path string `json:"path"`
	// Secrets are the accepted ones, the newest first.
	Secrets []store.Secret `json:"secrets"`
	// Subscription is the id that the server gave, "" before its first answer.
	Subscription string `json:"subscription,omitempty"`
	// Start is the cursor at which delivery began, for when nothing has been committed yet; "" when
	// there is none.
	Start string `json:"start,omitempty"`
	// EventIDs are the most recent eventIds that the application is done with, oldest first, of a
	// type without cursors; those of other types lie beside the cursor.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CallbackStore keeps callbacks by the key of the subscription's cursor. Implementations are safe
// for concurrent use, and each method is one atomic step. Records hold secrets.
type CallbackStore interface {
	// Callback returns the record of key and whether there is one.
	Callback(ctx context.Context, key string) (Callback, bool, error)
	// PutCallback replaces the record of key.
	PutCallback(ctx context.Context, key string, c Callback) error
	// DeleteCallback forgets the record of key; an unknown key is no error.
	DeleteCallback(ctx context.Context, key string) error
}
