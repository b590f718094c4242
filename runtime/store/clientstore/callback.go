package clientstore

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Callback is the state that a client stores for a webhook subscription. After a restart, the client uses it to
// receive on the same path with the same secrets, and to renew or end the subscription. See CLI-5.
type Callback struct {
	// URL is the callback URL exactly as the server uses it. It is part of the subscription's key. Path is the URL path
	// relative to the receiver. See SUB-4.
	URL  string `json:"url"`
	Path string `json:"path"`
	// Secrets are the accepted secrets, newest first.
	Secrets []store.Secret `json:"secrets"`
	// Subscription is the id assigned by the server, or "" before its first response.
	Subscription string `json:"subscription,omitempty"`
	// Start is the cursor at which delivery began, or "". It is used until a cursor is committed.
	Start string `json:"start,omitempty"`
	// EventIDs are the most recent eventIds that the application has processed, oldest first, for an event type without
	// cursors. For other types, they are stored with the cursor.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CallbackStore stores callbacks under the keys of their subscriptions' cursors. Implementations are safe for
// concurrent use, and each method is atomic. Records contain secrets.
type CallbackStore interface {
	// Callback returns the record for key and whether it exists.
	Callback(ctx context.Context, key string) (Callback, bool, error)
	// PutCallback stores c under key and replaces any existing record.
	PutCallback(ctx context.Context, key string, c Callback) error
	// DeleteCallback removes the record for key. An unknown key is not an error.
	DeleteCallback(ctx context.Context, key string) error
}
