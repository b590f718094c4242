package transport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type none struct{}

type tick struct {
	Seq int `json:"seq"`
}

// newServer makes a server with one event type; real servers register generated ones.
func newServer() *server.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "clock", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = server.Register(es, events.Type[none, tick]{Info: events.Info{
		Name: "clock.tick", Description: "The clock ticks.",
		InputSchema:   json.RawMessage(`{"type":"object","additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}},"required":["seq"]}`),
	}}, server.Hooks[none, tick]{})
	if err != nil {
		log.Fatal(err)
	}
	return es
}

// An HTTP server that ends its streams when it is shut down.
func ExampleNewHandler() {
	es := newServer()
	hs := httptest.NewServer(transport.NewHandler(es, transport.HandlerOptions{}))
	defer hs.Close()
	hs.Config.RegisterOnShutdown(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		es.Shutdown(ctx)
	})

	body := `{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"clock.tick","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, hs.URL, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "events/poll")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct {
		Result struct {
			Events     []any `json:"events"`
			NextPollMs int   `json:"nextPollMs"`
		} `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, len(answer.Result.Events), answer.Result.NextPollMs)
	// Output: 200 OK 0 5000
}

// A server on a pair of pipes, as it runs on standard input and output with mcp.StdioTransport.
func ExampleRun() {
	es := newServer()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		ran <- transport.Run(context.Background(), es, &mcp.IOTransport{Reader: in, Writer: out})
	}()

	fmt.Fprintln(toServer, `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	var answer struct {
		Result struct {
			Events []struct {
				Name     string   `json:"name"`
				Delivery []string `json:"delivery"`
			} `json:"events"`
		} `json:"result"`
	}
	if err := json.NewDecoder(fromServer).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Result.Events)

	toServer.Close() // the client hangs up
	fmt.Println(<-ran)
	// Output:
	// [{clock.tick [poll push]}]
	// <nil>
}
