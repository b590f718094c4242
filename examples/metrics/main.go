// Command metrics is an MCP server that exposes its metrics to Prometheus:
//
//	metrics -http 127.0.0.1:8080 -metrics 127.0.0.1:9464
//
// It serves MCP on /mcp. POST /tickets?title=… opens a ticket and emits ticket.created. GET /metrics has a separate
// address for Prometheus. alerts.yaml in this directory contains the alerts of docs/observability.md as Prometheus
// rules, and dashboard.json shows the same metrics in Grafana.
//
// It is a separate module, so that users of mcpe-gen do not have to download the OpenTelemetry SDK and an exporter.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/otelevents"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// shutdownTime limits an orderly shutdown.
const shutdownTime = 8 * time.Second

type options struct{ http, metrics string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.http, "http", "127.0.0.1:8080", "address to serve MCP (/mcp) and the desk (/tickets) on")
	flag.StringVar(&o.metrics, "metrics", "127.0.0.1:9464", "address to serve /metrics on")
	flag.Parse()
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

// newMeters returns a meter provider and a handler that exposes its metrics to Prometheus. Metric names consist of
// letters, digits and _, and end with the unit and _total.
func newMeters() (provider *sdkmetric.MeterProvider, handler http.Handler, err error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// run serves until ctx ends.
func run(ctx context.Context, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	meters, shown, err := newMeters()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meters.Shutdown(context.WithoutCancel(ctx))) }()

	srv := mcp.NewServer(&mcp.Implementation{Name: "metrics", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{
		Telemetry: otelevents.New(otelevents.Options{MeterProvider: meters}),
		Webhooks:  webhooks.New(webhooks.Options{}),
		Logger:    log,
	})
	if err != nil {
		return err
	}
	created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
	if err != nil {
		return err
	}

	public := http.NewServeMux()
	public.Handle("/mcp", transport.NewHandler(es, transport.HandlerOptions{}))
	public.Handle("POST /tickets", transport.SameOrigin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := created.Emit(r.Context(), tickets.TicketCreatedPayload{
			TicketID: rand.Text(), Title: r.FormValue("title"), Severity: tickets.SeverityNormal, OpenedAt: events.NewTime(time.Now().UTC())})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
	private := http.NewServeMux()
	private.Handle("GET /metrics", shown)

	stop := []func(context.Context) error{es.Shutdown}
	failed := make(chan error, 2)
	for _, s := range []struct {
		what, address string
		handler       http.Handler
	}{{"MCP", o.http, public}, {"metrics", o.metrics, private}} {
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			return errors.Join(err, stopAll(stop))
		}
		web := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
		stop = append(stop, web.Shutdown)
		go func() { failed <- web.Serve(listener) }()
		fmt.Fprintf(stderr, "%s on http://%s\n", s.what, listener.Addr())
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	return errors.Join(err, stopAll(stop))
}

// stopAll first ends the streams and then shuts down the HTTP servers.
func stopAll(stop []func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	for _, f := range stop {
		err = errors.Join(err, f(ctx))
	}
	return err
}
