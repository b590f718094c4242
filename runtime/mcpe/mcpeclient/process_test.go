package mcpeclient_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
)

const childVariable = "MCPE_CLIENT_TEST_CHILD"

// child is a server on stdio as the original implementation is one: its logger writes to stdout.
func child() {
	say := func(line string) { fmt.Println(line) }
	say("[mcpe] server starting on stdio")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := in.Text()
		id := "null"
		if _, rest, ok := strings.Cut(line, `"id":`); ok {
			id, _, _ = strings.Cut(rest, ",")
		}
		result := ""
		switch {
		case strings.Contains(line, `"initialize"`):
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mcpe-server","version":"1.0.0"}}`
		case strings.Contains(line, `"tools/list"`):
			result = `{"tools":[{"name":"events_subscribe","inputSchema":{"type":"object"}}]}`
		case strings.Contains(line, `"events_subscribe"`):
			result = originalSub
		case strings.Contains(line, `"tools/call"`):
			result = `{"content":[{"type":"text","text":"{\"success\":true}"}]}`
		}
		say("{ not json: handled " + id + " }")
		if result != "" {
			say(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
		}
		if strings.Contains(line, `"events_subscribe"`) {
			say("[mcpe] delivering to sub-1")
			say(notifications[0])
		}
	}
}

// MCPE-CONF-2: log lines on stdout between the messages of a real process.
func TestLogLinesOnStdout(t *testing.T) {
	p := client.Command(os.Args[0])
	p.Cmd.Env = append(os.Environ(), childVariable+"=1")
	c, err := client.Connect(t.Context(), p, client.Options{ProtocolVersion: wire.RevisionLegacy})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := client.Subscribe(t.Context(), c, pushed, arguments{}, mcpeclient.New(c).Via(mcpeclient.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range sub.Events() {
		if err != nil || ev.Data.N != 1 || ev.ID != "s1" {
			t.Errorf("got %+v, %v", ev, err)
		}
		break
	}
}
