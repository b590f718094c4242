// Command assistant is an MCP server for incidents that speaks four protocols: MCP Events, MCPE, MCPC and conversation
// events. It serves MCP on /mcp (Streamable HTTP, both protocol
// eras), on stdio, or on both:
//
//	assistant -stdio
//	assistant -http 127.0.0.1:8080 -db assistant.db -tokens tokens.json
//
// With -db, events and the MCPE subscriptions of authenticated callers survive a restart. With stdio, there is only one
// user, who does not need a token. The event types are in examples/schemas/assistant.yaml. desk.go contains the tools
// and the single Emit that reaches all clients, report.go contains the background task, and memory.go contains the
// answers to a user's messages.
package main

import (
	"context"
	"encoding/json"
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

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/assistant/report"
	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// shutdownTime limits an orderly shutdown. It exceeds the 6 s that http.Server.Shutdown waits for a connection without
// a request.
const shutdownTime = 8 * time.Second

// localUser is the principal if the only caller is the process that started the server.
const localUser = "local"

type options struct {
	http, db, tokens string
	stdio            bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "assistant:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "assistant:", err)
		os.Exit(1)
	}
}

func parse(argv []string, stderr io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("assistant", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.http, "http", "", "address to serve MCP (/mcp) on, for example 127.0.0.1:8080")
	fs.BoolVar(&o.stdio, "stdio", false, "serve MCP on standard input and output")
	fs.StringVar(&o.db, "db", "", "SQLite file for events and subscriptions; without it they are in memory")
	fs.StringVar(&o.tokens, "tokens", "", "JSON file with an object of bearer token to principal; without it callers over HTTP are not authenticated")
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.http == "" && !o.stdio:
		return o, errors.New("give -http ADDR, -stdio or both")
	}
	return o, nil
}

// An application is a server with its protocols.
type application struct {
	srv  *mcp.Server
	es   *server.Server
	mcpe *mcpe.Adapter
	mcpc *mcpc.Adapter
	db   *sqlite.Store // nil in memory
}

// assemble creates a server with the four protocols.
func assemble(ctx context.Context, o options, log *slog.Logger) (_ *application, err error) {
	a := &application{srv: mcp.NewServer(&mcp.Implementation{Name: "assistant", Version: "0.1.0"}, nil)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close(ctx, nil))
		}
	}()
	so, mo := server.Options{NextPoll: time.Second, Logger: log}, mcpe.Options{Logger: log}
	if o.db != "" {
		if a.db, err = sqlite.Open(ctx, o.db, sqlite.Options{}); err != nil {
			return nil, err
		}
		so.Store, mo.Store = a.db, a.db
	}
	if o.http == "" {
		so.Principal = func(context.Context, *mcp.RequestExtra) string { return localUser }
	}
	if a.es, err = server.New(a.srv, so); err != nil { // MCP Events
		return nil, err
	}
	d, err := newDesk(a.srv, a.es, log)
	if err != nil {
		return nil, err
	}
	everything := func(string) bool { return true }
	if a.mcpc, err = mcpc.New(a.es, mcpc.Options{ListCheckTool: true, Forward: everything}); err != nil { // MCPC
		return nil, err
	}
	if err := mcpc.RegisterTask(a.mcpc, report.Task, d.write); err != nil {
		return nil, err
	}
	// Add MCPE after all event types, because its tools list the types and would change if types were added later.
	if a.mcpe, err = mcpe.New(a.es, mo); err != nil {
		return nil, err
	}
	// Conversation events.
	return a, conversation.Register(a.es, conversation.Handler[conversation.Memories]{OnUserMessage: d.remember}, conversation.Options{})
}

// close first ends streams and tasks, because http.Server.Shutdown waits for open requests. It closes the store last.
func (a *application) close(ctx context.Context, web *http.Server) (err error) {
	if a.es != nil {
		err = a.es.Shutdown(ctx)
	}
	if a.mcpc != nil {
		err = errors.Join(err, a.mcpc.Shutdown(ctx))
	}
	if web != nil {
		if e := web.Shutdown(ctx); e != nil {
			err = errors.Join(err, e, web.Close())
		}
	}
	if a.mcpe != nil {
		err = errors.Join(err, a.mcpe.Shutdown(ctx))
	}
	if a.db != nil {
		err = errors.Join(err, a.db.Close())
	}
	return err
}

// run serves until ctx ends or, on stdio, until the client disconnects.
func run(ctx context.Context, o options, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	a, err := assemble(ctx, o, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var web *http.Server
	failed := make(chan error, 1)
	if o.http != "" {
		if web, err = listen(a, o, log, stderr, func(err error) { failed <- err; cancel() }); err != nil {
			return errors.Join(err, end(a, nil))
		}
	}
	if o.stdio {
		err = transport.Run(ctx, a.es, &mcp.StdioTransport{})
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			err = nil
		}
	} else {
		<-ctx.Done()
	}
	select {
	case e := <-failed:
		err = errors.Join(err, e)
	default:
	}
	return errors.Join(err, end(a, web))
}

// listen serves HTTP in the background.
func listen(a *application, o options, log *slog.Logger, stderr io.Writer, failed func(error)) (*http.Server, error) {
	handler, err := withTokens(o.tokens, transport.NewHandler(a.es, transport.HandlerOptions{}))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	ln, err := net.Listen("tcp", o.http)
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	fmt.Fprintf(stderr, "assistant: listening on http://%s\n", ln.Addr())
	go func() {
		if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return web, nil
}

// end closes everything within shutdownTime.
func end(a *application, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return a.close(ctx, web)
}

// withTokens returns a handler that requires a bearer token from the file. The subscriptions belong to the token's
// principal.
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
		return &auth.TokenInfo{UserID: principal}, nil
	}
	return transport.Challenge(auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)), nil
}
