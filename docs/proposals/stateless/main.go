// Command stateless measures what a stateless MCP request costs in the official Go SDK: an empty custom method, asked
// in process without a network, against a handler of net/http that reads the same request and writes the same answer.
//
//	go run ./docs/proposals/stateless
//	go run ./docs/proposals/stateless -memprofile mem.out && go tool pprof -sample_index=alloc_space -top mem.out
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	revision = "2026-07-28"
	method   = "example/empty"
	body     = `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + revision + `",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"probe","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

type (
	params struct{ mcp.ParamsBase }
	result struct{ mcp.ResultBase }
)

func main() {
	profile := flag.String("memprofile", "", "write a profile of allocations to this `file`")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*profile); err != nil {
		log.Fatal("stateless: ", err)
	}
}

func run(profile string) error {
	srv := mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1"}, nil)
	err := mcp.AddReceivingCustomMethod(srv, method, func(context.Context, *mcp.ServerSession, *params) (*result, error) { return &result{}, nil })
	if err != nil {
		return err
	}
	get := func(*http.Request) *mcp.Server { return srv }
	fmt.Println("handler              requests/s   KB/request   allocations/request")
	var plain float64
	for _, h := range []struct {
		name string
		http.Handler
	}{
		{"net/http", http.HandlerFunc(byHand)},
		{"SDK, event stream", mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})},
		{"SDK, JSON", mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})},
	} {
		if w := ask(h); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"result"`) {
			return fmt.Errorf("%s answers %d %s", h.name, w.Code, w.Body)
		}
		m := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(h)
			}
		})
		rate := 1e9 / float64(m.NsPerOp())
		if plain == 0 {
			plain = rate
		}
		fmt.Printf("%-18s  %7.0f %.2f  %9.1f  %12d\n", h.name, rate, rate/plain, float64(m.AllocedBytesPerOp())/1024, m.AllocsPerOp())
	}
	if profile == "" {
		return nil
	}
	f, err := os.Create(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}

// byHand does what has to be done: it looks at the headers, parses the request and answers it.
func byHand(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || json.Unmarshal(b, &request) != nil || r.Header.Get("Mcp-Protocol-Version") != revision || request.Method != method {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, request.ID)
}

func ask(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", revision)
	r.Header.Set("Mcp-Method", method)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
