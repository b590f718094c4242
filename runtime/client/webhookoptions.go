package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// WebhookOptions configures webhook delivery for a [Client]. Events arrive as POST requests to a receiver. Either the
// client serves the receiver on Listener, or the application sets Receiver and mounts it on its own server.
//
// With Received and Callbacks, a client that is killed at any point loses no acknowledged events. The next process with
// the same stores restores the paths and secrets, delivers the stored bodies, and subscribes again from the position
// after them.
type WebhookOptions struct {
	// PublicURL is the base URL of the receiver as seen by servers. It is an absolute https URL without a query. The
	// path of each endpoint is appended.
	PublicURL string
	// Receiver handles the requests. If nil, a receiver is created, which requires Listener. Several clients may share
	// a Receiver.
	Receiver *webhook.Receiver
	// Listener is the listener on which the client serves the receiver until it is closed. Listener is also closed if
	// Connect fails. If nil, the application must serve Receiver.
	Listener net.Listener
	// TLS is the TLS configuration for Listener; nil if a proxy in front of it terminates TLS.
	TLS *tls.Config
	// WellKnown makes Listener serve a document that declares consent for all paths of the receiver. Servers then
	// subscribe without a challenge. [webhook.Receiver.WellKnown] describes the information that this discloses. See
	// VER-1.
	WellKnown bool

	// Received stores each body before it is acknowledged with 2xx. It must save cursors where [Options].Cursors loads
	// them; a sqlite store does both. If nil, bodies are acknowledged once they are queued for the subscription. After
	// a crash, events are then received again from the committed cursor, unless the type has no cursors.
	Received clientstore.ReceivedStore
	// Callbacks stores paths and secrets across restarts. The default is Received or Options.Cursors, whichever
	// implements the interface.
	Callbacks clientstore.CallbackStore

	// TTL is the requested lifetime of a subscription that is not refreshed; 0 means 30 min, negative no expiry. A
	// server may grant a different lifetime (SUB-6). Subscriptions are refreshed after two thirds of the granted
	// lifetime.
	TTL time.Duration
	// Refresh is the interval between refreshes of subscriptions without expiry; 0 means 1 h. Each refresh also reads
	// the server's list.
	Refresh time.Duration
	// Rotate is the age at which the next refresh replaces a secret; 0 means 24 h, negative disables rotation.
	Rotate time.Duration
	// Grace is how long a replaced secret is still accepted; 0 means 10 min. See SUB-5.
	Grace time.Duration
	// Keep leaves subscriptions on the server when the client or a subscription is closed. A later process can continue
	// them. It has no effect without Callbacks. The default is to unsubscribe.
	Keep bool
}

const (
	defaultTTL     = 30 * time.Minute
	defaultRefresh = time.Hour
	defaultRotate  = 24 * time.Hour
	defaultOverlap = 10 * time.Minute
)

// webhookState is the state shared by a client's webhook subscriptions.
type webhookState struct {
	WebhookOptions
	public  string       // without a trailing slash
	handler http.Handler // the handler of Listener
	server  *http.Server
	served  chan struct{} // closed when server has stopped
}

func newWebhooks(o *Options) (*webhookState, error) {
	if o.Webhook == nil {
		return nil, nil
	}
	w := &webhookState{WebhookOptions: *o.Webhook}
	if err := w.prepare(o); err != nil {
		if w.Listener != nil {
			err = errors.Join(err, w.Listener.Close())
		}
		return nil, err
	}
	if w.Listener != nil {
		w.serve(o)
	}
	return w, nil
}

func (w *webhookState) prepare(o *Options) (err error) {
	if w.public, err = publicURL(w.PublicURL); err != nil {
		return err
	}
	if w.Receiver == nil {
		if w.Listener == nil {
			return errors.New("client: webhooks need a Receiver, a Listener or both")
		}
		if w.Receiver, err = webhook.NewReceiver(webhook.ReceiverOptions{Logger: o.Logger}); err != nil {
			return err
		}
	}
	if err := w.setHandler(); err != nil {
		return err
	}
	if o.Cursors == nil {
		o.Cursors, _ = w.Received.(clientstore.CursorStore)
	}
	if w.Received != nil && o.Cursors == nil {
		return errors.New("client: Webhook.Received needs the Cursors that it saves to")
	}
	for _, candidate := range []any{w.Received, o.Cursors} {
		if found, ok := candidate.(clientstore.CallbackStore); ok && w.Callbacks == nil {
			w.Callbacks = found
		}
	}
	w.TTL = cmp.Or(w.TTL, defaultTTL)
	w.Refresh = cmp.Or(w.Refresh, defaultRefresh)
	w.Rotate = cmp.Or(w.Rotate, defaultRotate)
	w.Grace = cmp.Or(w.Grace, defaultOverlap)
	return nil
}

// setHandler sets the handler for Listener.
func (w *webhookState) setHandler() error {
	w.handler = w.Receiver
	if !w.WellKnown {
		return nil
	}
	if w.Listener == nil {
		return errors.New("client: Webhook.WellKnown is for Listener; an application's own server mounts Receiver.WellKnown")
	}
	base, err := url.Parse(w.public)
	if err != nil {
		return err
	}
	document, err := w.Receiver.WellKnown(base.EscapedPath())
	if err != nil {
		return fmt.Errorf("client: Webhook.PublicURL: %w", err)
	}
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// The path is compared as a whole: a ServeMux would redirect unclean paths.
		if r.URL.Path == wire.PathReceivers {
			document.ServeHTTP(rw, r)
			return
		}
		w.Receiver.ServeHTTP(rw, r)
	})
	return nil
}

// publicURL checks the base URL of callbacks (SUB-3) and removes its trailing slashes.
func publicURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("client: Webhook.PublicURL: %w", err)
	case u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("client: Webhook.PublicURL %q is not an absolute https URL", text)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return "", fmt.Errorf("client: Webhook.PublicURL has user information, a query or a fragment")
	}
	return strings.TrimRight(text, "/"), nil
}

// Limits for the embedded server. The receiver itself limits bodies.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
)

func (w *webhookState) serve(o *Options) {
	w.server = &http.Server{Handler: w.handler, TLSConfig: w.TLS, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	w.served = make(chan struct{})
	go func() {
		defer close(w.served)
		var err error
		if w.TLS != nil {
			err = w.server.ServeTLS(w.Listener, "", "")
		} else {
			err = w.server.Serve(w.Listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("serving webhooks ended", "err", err)
		}
	}()
}

// close shuts down the embedded server. Requests in flight have one second to complete.
func (w *webhookState) close() {
	if w == nil || w.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close()
	}
	<-w.served
}
