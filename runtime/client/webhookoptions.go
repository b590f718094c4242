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

// WebhookOptions let a [Client] receive by webhook. Events come as POSTs to a receiver: either one
// that the client serves on Listener, or one that the application mounts on its own server and
// gives as Receiver.
//
// With Received and Callbacks a client that is killed at any point loses nothing that it has
// answered for: the next process with the same stores takes up the same paths and secrets, hands
// out what had been received, and subscribes again from where that ends.
type WebhookOptions struct {
	// PublicURL is where servers reach the receiver, an absolute https URL without query; the path
	// of each endpoint is appended to it.
	PublicURL string
	// Receiver takes the requests; nil makes one, which needs Listener. Several clients may share
	// one.
	Receiver *webhook.Receiver
	// Listener is served with the receiver, and nothing else, until the client is closed. It is
	// closed also when Connect fails. Nil: the application serves Receiver.
	Listener net.Listener
	// TLS is used on Listener; nil means that something in front of it ends TLS.
	TLS *tls.Config
	// WellKnown serves on Listener also the document by which all paths of the receiver consent to
	// be called, so that servers subscribe without asking by a challenge; see
	// [webhook.Receiver.WellKnown] for what that gives away. See VER-1.
	WellKnown bool

	// Received stores each body before it is answered with 2xx. It has to save cursors where
	// [Options].Cursors loads them; a sqlite store is both. Nil: bodies are answered for once they
	// are in the subscription's queue, and after a crash come again from the committed cursor,
	// which types without cursors do not have.
	Received clientstore.ReceivedStore
	// Callbacks keeps paths and secrets over a restart. Default: Received or Options.Cursors,
	// where one of them can.
	Callbacks clientstore.CallbackStore

	// TTL is how long a subscription is to live without refresh; 0 means 30 min, negative for ever. A server may grant
	// another time (SUB-6). Subscriptions are refreshed after two thirds of what was granted.
	TTL time.Duration
	// Refresh is how often subscriptions without expiry are refreshed all the same, and the
	// server's list is read again; 0 means 1 h.
	Refresh time.Duration
	// Rotate is the age at which a secret is replaced by the next refresh; 0 means 24 h, negative
	// never.
	Rotate time.Duration
	// Grace is how long a replaced secret is still accepted; 0 means 10 min. See SUB-5.
	Grace time.Duration
	// Keep leaves subscriptions at the server when the client or a subscription is closed, for a
	// next process to take up; without Callbacks it has no effect. Default is to unsubscribe.
	Keep bool
}

const (
	defaultTTL     = 30 * time.Minute
	defaultRefresh = time.Hour
	defaultRotate  = 24 * time.Hour
	defaultOverlap = 10 * time.Minute
)

// webhooks is what the webhook subscriptions of one client share.
type webhooks struct {
	WebhookOptions
	public  string       // without a slash at its end
	handler http.Handler // what Listener is served with
	server  *http.Server
	served  chan struct{} // closed when server is through
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
		// Compared as a whole: a ServeMux would answer odd paths with redirects.
		if r.URL.Path == wire.PathReceivers {
			document.ServeHTTP(rw, r)
			return
		}
		w.Receiver.ServeHTTP(rw, r)
	})
	return nil
}

// publicURL checks the URL that callbacks begin with (SUB-3).
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

// Bounds of the embedded receiver's server. Bodies have a bound of their own.
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

// close ends the embedded server; requests under way get a moment to be answered.
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
