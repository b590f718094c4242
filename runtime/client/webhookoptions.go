package client

import (
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

// WebhookOptions configures webhook delivery of a [Client]. Events arrive as POSTs to a receiver. Either the
// client serves it on Listener, or the application mounts it on another server and sets Receiver.
//
// With Received and Callbacks, a client that is killed at any point loses nothing that it has acknowledged. The next
// process with the same stores restores the paths and secrets, hands out the stored bodies, and subscribes again from
// the position after them.
type WebhookOptions struct {
	// PublicURL is where servers reach the receiver. It is an absolute https URL without query; the path of each
	// endpoint is appended.
	PublicURL string
	// Receiver handles the requests; nil creates one, which needs Listener. Several clients may share a Receiver.
	Receiver *webhook.Receiver
	// Listener serves only the receiver, until the client is closed. It is also closed if Connect fails. If nil, the
	// application serves Receiver.
	Listener net.Listener
	// TLS is used on Listener; nil means that a proxy in front of it terminates TLS.
	TLS *tls.Config
	// WellKnown also serves, on Listener, the document that declares consent for all paths of the receiver. Servers
	// then subscribe without a challenge. See [webhook.Receiver.WellKnown] for the information that this discloses, and
	// VER-1.
	WellKnown bool

	// Received stores each body before it is acknowledged with 2xx. It must save cursors where [Options].Cursors loads
	// them; a sqlite store does both. If nil, bodies are acknowledged once they are in the subscription's queue. After
	// a crash they are then received again from the committed cursor, which types without cursors lack.
	Received clientstore.ReceivedStore
	// Callbacks keeps paths and secrets across a restart. The default is Received or Options.Cursors, if one of them
	// implements the interface.
	Callbacks clientstore.CallbackStore

	// TTL is the requested lifetime of a subscription without refresh; 0 means 30 min, negative no expiry. A server may
	// grant another time (SUB-6). Subscriptions are refreshed after two thirds of the granted lifetime.
	TTL time.Duration
	// Refresh is how often subscriptions without expiry are refreshed; 0 means 1 h. The server's list is read at the
	// same time.
	Refresh time.Duration
	// Rotate is the age at which the next refresh replaces a secret; 0 means 24 h, negative disables rotation.
	Rotate time.Duration
	// Grace is how long a replaced secret is still accepted; 0 means 10 min. See SUB-5.
	Grace time.Duration
	// Keep leaves subscriptions at the server when the client or a subscription is closed. A later process can continue
	// them; without Callbacks it has no effect. The default is to unsubscribe.
	Keep bool
}

const (
	defaultTTL     = 30 * time.Minute
	defaultRefresh = time.Hour
	defaultRotate  = 24 * time.Hour
	defaultOverlap = 10 * time.Minute
)

// webhooks is the state shared by the webhook subscriptions of one client.
type webhooks struct {
	WebhookOptions
	public  string       // without a trailing slash
	handler http.Handler // the handler of Listener
	server  *http.Server
	served  chan struct{} // closed when server has stopped
}

func newWebhooks(o *Options) (*webhooks, error) {
	if o.Webhook == nil {
		return nil, nil
	}
	w := &webhooks{WebhookOptions: *o.Webhook}
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

func (w *webhooks) prepare(o *Options) (err error) {
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
	if err := w.route(); err != nil {
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
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&w.TTL, defaultTTL)
	set(&w.Refresh, defaultRefresh)
	set(&w.Rotate, defaultRotate)
	set(&w.Grace, defaultOverlap)
	return nil
}

// route sets the handler for Listener.
func (w *webhooks) route() error {
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

// publicURL checks the base of the callback URLs (SUB-3).
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

// Limits of the embedded receiver's server. The receiver limits bodies itself.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
)

func (w *webhooks) serve(o *Options) {
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

// close shuts the embedded server down. Requests in flight get one second to complete.
func (w *webhooks) close() {
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
