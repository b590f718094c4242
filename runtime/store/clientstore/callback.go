package clientstore

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Callback is the state that a client stores for a webhook subscription. With it, a later process answers on the
// same path with the same secrets, and can renew or end the subscription on the server. See CLI-5.
type Callback struct {
	// URL is the callback URL as the server knows it, byte for byte: part of the subscription's key. Path is its part
	// below the receiver. See SUB-4.
	URL  string `json:"url"`
	Path string `json:"path"`
	// Secrets are the accepted secrets, the newest first.
	Secrets []store.Secret `json:"secrets"`
	// Subscription is the id that the server assigned, "" before its first answer.
	Subscription string `json:"subscription,omitempty"`
	// Start is the cursor at which delivery began, used until a cursor is committed; "" for none.
	Start string `json:"start,omitempty"`
	// EventIDs are the most recent eventIds that the application has processed, the oldest first, for a type without
	// cursors. Those of other types are stored with the cursor.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CallbackStore stores callbacks by the key of the subscription's cursor. Implementations are safe for concurrent
// use, and each method is atomic. Records contain secrets.
type CallbackStore interface {
	// Callback returns the record of key and whether it exists.
	Callback(ctx context.Context, key string) (Callback, bool, error)
	// PutCallback replaces the record of key.
	PutCallback(ctx context.Context, key string, c Callback) error
	// DeleteCallback removes the record of key. An unknown key is not an error.
	DeleteCallback(ctx context.Context, key string) error
}
