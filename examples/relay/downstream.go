package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// noArguments is the inputSchema of every relayed type, because the relay's own arguments are the filter.
const noArguments = `{"type":"object","properties":{},"additionalProperties":false}`

// A downstream is the server side of the relay.
type downstream struct {
	events *server.Server
	web    *http.Server
	addr   net.Addr
	log    *slog.Logger
}

// serve registers the relayed types and starts listening.
func serve(ctx context.Context, o options, up *upstream, log *slog.Logger, failed context.CancelCauseFunc) (*downstream, error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "mcpe-relay", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{Operators: operators.New(), NextPoll: o.interval, SkipPayloadValidation: true, Logger: log})
	if err != nil {
		return nil, err
	}
	d := &downstream{events: es, log: log}
	for _, r := range up.relayed {
		if err := d.register(r); err != nil {
			return nil, err
		}
	}
	handler, err := withTokens(o.tokens, transport.NewHandler(es, transport.HandlerOptions{}))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	d.addr = listener.Addr()
	d.web = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	go func() {
		if err := d.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return d, nil
}

// register registers a relayed type with a check that reads its log. Every client receives all events in the log.
func (d *downstream) register(r *relayedType) error {
	in := json.RawMessage(noArguments)
	t := events.Type[json.RawMessage, json.RawMessage]{Info: events.Info{Name: r.descriptor.Name, Description: r.descriptor.Description,
		InputSchema: in, PayloadSchema: r.descriptor.PayloadSchema, Source: events.SourceCheck}}
	check := func(ctx context.Context, _ json.RawMessage, cursor string) (events.Page[json.RawMessage], error) {
		return r.log.page(ctx, cursor)
	}
	return server.RegisterCheck(d.events, t, check, server.Hooks[json.RawMessage, json.RawMessage]{}, server.WithSharedCheck())
}

// terminate forwards the upstream's termination of an event type.
func (d *downstream) terminate(event string, reason *events.Error) {
	_, err := d.events.Admin().Terminate(context.Background(), operator.Target{Event: event}, events.NewError(reason.Kind, reason.Data))
	if err != nil {
		d.log.Error("ending a type failed", "event", event, "err", err)
	}
}

// close first ends streams, because http.Server.Shutdown waits for open requests.
func (d *downstream) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := d.events.Shutdown(ctx)
	if e := d.web.Shutdown(ctx); e != nil {
		err = errors.Join(err, e, d.web.Close())
	}
	return err
}

// withTokens returns a handler that requires a bearer token from the file.
func withTokens(file string, next http.Handler) (http.Handler, error) {
	if file == "" {
		return next, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var principals map[string]string
	if err := json.Unmarshal(b, &principals); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object of token to principal: %w", file, err)
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		principal, ok := principals[token]
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		// Tokens from a file do not expire, but the SDK requires an expiration.
		return &auth.TokenInfo{UserID: principal, Expiration: time.Now().AddDate(1, 0, 0)}, nil
	}
	return transport.Challenge(auth.RequireBearerToken(verify, nil)(next)), nil
}
