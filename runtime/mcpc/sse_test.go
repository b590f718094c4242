package mcpc_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// MCPC-WIRE-1 over HTTP+SSE: a session is a message connection, so callbacks come as on stdio.
func TestCallbacksOverSSE(t *testing.T) {
	g := newRig(t, serverQuiet(), mcpc.Options{}, nil)
	ts := httptest.NewServer(transport.NewSSEHandler(g.srv, g.es, nil))
	defer func() { g.stop(); ts.CloseClientConnections(); ts.Close(); ts.Client().CloseIdleConnections() }()
	stream, err := ts.Client().Get(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	next := func() string {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return ""
	}
	endpoint := ts.URL + next()
	post := func(body string) {
		t.Helper()
		resp, err := ts.Client().Post(endpoint, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %s", body, resp.Status)
		}
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	next()
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":` + withTask(2, "t") + `}}`)
	for i, want := range [][2]string{{`"id":2`, "created"}, {`"id":"MCPC_CALLBACK"`, "update"}, {`"id":"MCPC_CALLBACK"`, "update"}, {`"id":"MCPC_CALLBACK"`, "complete"}} {
		if got := next(); !strings.Contains(got, want[0]) || !strings.Contains(got, `\"event\":\"`+want[1]+`\"`) {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}
