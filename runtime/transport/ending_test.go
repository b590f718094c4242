package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// SRV-6: Run answers a held poll with what it has when the server is shut down. A call that the end cuts
// short, in a hook or right after, gets no answer, but the end of the connection: an error would tell of a
// failure that there was not.
func TestCallsAtTheEnd(t *testing.T) {
	for _, how := range []string{"shutdown", "context"} {
		for _, hooked := range []bool{false, true} {
			for _, m := range modes[:2] {
				t.Run(fmt.Sprint(how, "/hooked ", hooked, "/", m.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { callsAtTheEnd(t, m, how, hooked) })
				})
			}
		}
	}
}

func callsAtTheEnd(t *testing.T, m mode, how string, hooked bool) {
	g := newRig(t, server.Options{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_ = Run(ctx, g.es, &mcp.IOTransport{Reader: inR, Writer: outW})
		outW.Close()
		inR.Close()
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(outR); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	send := func(msg string) {
		_, _ = io.WriteString(inW, msg+"\n") // which fails once the connection is closed
	}
	if !m.modern() {
		send(initializeRequest(m.version))
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		<-lines
	}
	send(m.request(`1`, wire.MethodPoll, `{"name":"tick"}`))
	_, rest, _ := strings.Cut(<-lines, `"cursor":`)
	cursor, _, _ := strings.Cut(rest, `,`)
	send(m.request(`2`, wire.MethodPoll, `{"name":"tick","timeoutMs":20000,"cursor":`+cursor+`}`))
	if hooked {
		g.hold = make(chan struct{}) // for good
		send(m.request(`3`, wire.MethodPoll, `{"name":"tick","arguments":{"channel":"x"}}`))
	}
	synctest.Wait()
	if how == "context" {
		cancel()
	} else {
		go g.es.Shutdown(ctx)
	}
	synctest.Wait()
	for _, method := range []string{wire.MethodPoll, wire.MethodStream} {
		go send(m.request(`"late `+method+`"`, method, `{"name":"tick","arguments":{"channel":"y"}}`))
	}
	time.Sleep(time.Minute)
	_ = g.es.Shutdown(ctx)
	held := false
	for line := range lines {
		held = held || strings.Contains(line, `"id":2,"result"`)
		if strings.Contains(line, `"error"`) {
			t.Error(line)
		}
	}
	if held != (how == "shutdown") {
		t.Errorf("the held poll was answered: %v", held)
	}
}
