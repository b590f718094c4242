// Command websocket serves events over WebSockets. The SDK does not have a transport for WebSockets, so socket.go
// implements an mcp.Transport for servers and clients. The command is a separate module, so that the main module does
// not require the WebSocket library.
//
//	go run .            # serves ws://127.0.0.1:8080/mcp, a ticket every second
//	go run . -follow ws://127.0.0.1:8080/mcp
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "`address` to serve on")
	from := flag.String("follow", "", "`URL` of a server whose tickets are printed, in place of serving")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return serve(ctx, *addr) }
	if *from != "" {
		do = func() error {
			return follow(ctx, dialer{url: *from}, func(t *tickets.TicketCreatedPayload) { fmt.Println(t.TicketID, t.Title) })
		}
	}
	if err := do(); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// serve emits tickets until ctx ends.
func serve(ctx context.Context, addr string) error {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "websocket", Version: "v1.0.0"}, nil), server.Options{})
	if err != nil {
		return err
	}
	created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", newHandler(es))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second} // timeouts do not apply to a WebSocket
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	log.Printf("MCP on ws://%s/mcp", listener.Addr())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			// Shutting down the web server does not wait for WebSockets; shutting down the events server ends them.
			return errors.Join(es.Shutdown(ending), web.Shutdown(ending))
		case <-tick.C:
			id := strconv.Itoa(n)
			if err := created.Emit(ctx, ticket(id), events.WithID("ticket-"+id)); err != nil {
				return err
			}
		}
	}
}

func ticket(id string) tickets.TicketCreatedPayload {
	return tickets.TicketCreatedPayload{TicketID: "T-" + id, Title: "ticket " + id, Severity: tickets.SeverityLow, OpenedAt: events.NewTime(time.Now())}
}

// follow prints each ticket until ctx ends. It reconnects if the connection is lost.
func follow(ctx context.Context, to dialer, each func(*tickets.TicketCreatedPayload)) error {
	dial := func(context.Context) (mcp.Transport, error) { return to, nil } // Connect performs the handshake
	c, err := client.Connect(ctx, client.Dial(dial), client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	sub, err := ticketsclient.SubscribeTicketCreated(ctx, c, tickets.TicketCreatedArguments{})
	if err != nil {
		return err
	}
	for ev, err := range sub.Events() {
		if err != nil {
			return err
		}
		each(&ev.Data)
	}
	return ctx.Err()
}
