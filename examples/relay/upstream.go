package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// An upstream is the client side of the relay. It receives events and stores them in the database.
type upstream struct {
	o         options
	log       *slog.Logger
	db        *sqlite.Store
	client    *client.Client
	publicURL string
	relayed   []*relayedType
	receiving sync.WaitGroup
}

// A relayedType is an event type that is relayed.
type relayedType struct {
	descriptor client.Descriptor
	args       json.RawMessage
	log        *eventLog
	sub        *client.TypedSubscription[json.RawMessage, json.RawMessage]
}

// bearer is a RoundTripper that adds the token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens the database, connects to the upstream server, and finds the event types to relay.
func connect(ctx context.Context, o options, log *slog.Logger) (_ *upstream, err error) {
	up := &upstream{o: o, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, up.close())
		}
	}()
	if up.db, err = sqlite.Open(ctx, o.db, sqlite.Options{}); err != nil {
		return nil, err
	}
	hooks, err := up.webhooks()
	if err != nil {
		return nil, err
	}
	hc := &http.Client{}
	if o.token != "" {
		hc.Transport = bearer(o.token)
	}
	// The database stores the client's entire state: cursors, bodies and callbacks.
	if up.client, err = client.Connect(ctx, client.HTTP(o.upstream, hc), client.Options{Cursors: up.db, Webhook: hooks, Logger: log}); err != nil {
		return nil, err
	}
	catalog, err := up.client.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list event types: %w", err)
	}
	return up, up.selectTypes(ctx, catalog)
}

func (up *upstream) webhooks() (*client.WebhookOptions, error) {
	// A relay is usually restarted, so it keeps its subscriptions and the upstream continues to retry.
	w := &client.WebhookOptions{PublicURL: up.o.publicURL, Received: up.db, Keep: true}
	if up.o.cert != "" {
		pair, err := tls.LoadX509KeyPair(up.o.cert, up.o.key)
		if err != nil {
			return nil, err
		}
		w.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	var err error
	if w.Listener, err = net.Listen("tcp", up.o.listen); err != nil {
		return nil, err
	}
	if w.PublicURL == "" {
		w.PublicURL = "https://" + w.Listener.Addr().String()
	}
	up.publicURL = w.PublicURL
	return w, nil
}

// selectTypes finds the descriptors of the types to relay and opens their logs.
func (up *upstream) selectTypes(ctx context.Context, catalog []client.Descriptor) error {
	selections := up.o.selections
	if len(selections) == 0 {
		for _, d := range catalog {
			selections = append(selections, selection{event: d.Name})
		}
	}
	for _, s := range selections {
		i := slices.IndexFunc(catalog, func(d client.Descriptor) bool { return d.Name == s.event })
		if i < 0 {
			return fmt.Errorf("the upstream has no event type %q", s.event)
		}
		args, err := arguments(s.args, catalog[i].InputSchema)
		if err != nil {
			return fmt.Errorf("-event %s: %w", s.event, err)
		}
		log, err := openLog(ctx, up.db, up.key(s.event), up.o.keep)
		if err != nil {
			return err
		}
		up.relayed = append(up.relayed, &relayedType{descriptor: catalog[i], args: args, log: log})
	}
	return nil
}

// key returns the database key of an event type. A database can be used for relays of several servers, one after the
// other.
func (up *upstream) key(event string) string { return "relay " + up.o.upstream + " " + event }

// arguments encodes the arguments of a selection as JSON. A value is JSON if the schema requires a type other than
// string, and a string otherwise.
func arguments(values url.Values, inputSchema json.RawMessage) (json.RawMessage, error) {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if len(inputSchema) == 0 {
		inputSchema = json.RawMessage(`{}`) // a server without a schema accepts any arguments
	}
	// A schema that is not an object, such as true, does not describe individual arguments.
	if err := json.Unmarshal(inputSchema, &schema); err != nil && inputSchema[0] == '{' {
		return nil, fmt.Errorf("read inputSchema: %w", err)
	}
	args := map[string]json.RawMessage{}
	for k := range values {
		v := values.Get(k)
		switch t, _ := schema.Properties[k].Type.(string); t {
		case "integer", "number", "boolean", "array", "object":
			if !json.Valid([]byte(v)) {
				return nil, fmt.Errorf("argument %s: %q is not a JSON %s", k, v, t)
			}
			args[k] = json.RawMessage(v)
		default:
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			args[k] = text
		}
	}
	return json.Marshal(args)
}

// subscribe subscribes to all selected types and starts moving events into the logs.
func (up *upstream) subscribe(ctx context.Context, failed context.CancelCauseFunc, terminated func(event string, reason *events.Error)) error {
	for _, r := range up.relayed {
		var err error
		name := r.descriptor.Name
		r.sub, err = client.Subscribe(ctx, up.client, client.Dynamic(name), r.args, client.WithCursorKey(up.key(name)))
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", name, err)
		}
		up.receiving.Go(func() {
			err := r.receive(ctx, up.log)
			var told *client.TerminatedError
			var reason *events.Error
			switch {
			case ctx.Err() != nil:
			case errors.As(err, &told) && errors.As(err, &reason):
				up.log.Warn("the upstream ended the subscription", "event", name, "reason", reason)
				terminated(name, reason)
			case err != nil:
				failed(fmt.Errorf("receiving %s: %w", name, err))
			}
		})
	}
	return nil
}

// receive appends incoming events to the log. Requesting the next item commits the current item, so receive stores the
// current item first.
func (r *relayedType) receive(ctx context.Context, log *slog.Logger) error {
	for ev, err := range r.sub.Events() {
		switch {
		case client.Final(err):
			return err
		case errors.As(err, new(*client.GapError)):
			err = r.log.appendGap(ctx)
		case errors.As(err, new(*client.PayloadError)):
			// An invalid occurrence cannot be relayed; the relay's clients get a gap.
			log.Warn("not relayed", "event", r.descriptor.Name, "err", err)
			err = r.log.appendGap(ctx)
		case err != nil:
			log.Warn("the upstream has trouble", "event", r.descriptor.Name, "err", err)
			continue // the missing events come later
		default:
			err = r.log.append(ctx, store.Entry{EventID: relayedID(ev.ID), Timestamp: ev.Timestamp, Data: ev.Raw})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relayedID returns the id with which the relay emits an event. A server may use any text as an id, but an id in a
// webhook must be valid in a header. Any other id is replaced with its hash.
func relayedID(id string) string {
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(id)))
	}
	return id
}

// close stops receiving events and then closes the database.
func (up *upstream) close() error {
	var err error
	if up.client != nil {
		err = up.client.Close()
	}
	up.receiving.Wait()
	if up.db != nil {
		err = errors.Join(err, up.db.Close())
	}
	return err
}
