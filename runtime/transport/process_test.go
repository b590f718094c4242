package transport

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// childVariable makes the test binary a server on standard input and output.
const childVariable = "MCPE_TRANSPORT_CHILD"

// child is the server process of TestProcess.
func child() int {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		return 1
	}
	ticks, err := server.Register(es, events.Type[tickArguments, tickPayload]{Info: tickType("tick").Info}, server.Hooks[tickArguments, tickPayload]{
		OnSubscribe: func(context.Context, server.Subscription, *tickArguments) error { return nil },
	})
	if err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = ticks.Emit(ctx, tickPayload{Seq: i})
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if err := Run(ctx, es, &mcp.StdioTransport{}); err != nil && ctx.Err() == nil {
		return 1
	}
	return 0
}

// A real process on real standard input and output: streams flow, and it ends well when it is
// interrupted and when its client hangs up.
func TestProcess(t *testing.T) {
	for _, m := range modes[:2] {
		for _, how := range []string{"interrupt", "hang up"} {
			t.Run(m.name+"/"+how, func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childVariable+"=1")
				cmd.Stderr = os.Stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				next := func() envelope {
					if !lines.Scan() {
						t.Fatalf("no line: %v", lines.Err())
					}
					env, _ := parseEnvelope(lines.Bytes())
					return env
				}
				if !m.modern() {
					io.WriteString(in, initializeRequest(m.version)+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
					next()
				}
				io.WriteString(in, m.request(`9007199254740993`, wire.MethodStream, `{"name":"tick"}`)+"\n")
				if active := next(); active.method != wire.NotificationActive || subscriptionID(active) != `9007199254740993` {
					t.Errorf("first %s %s", active.method, active.params)
				}
				for range 3 {
					if ev := next(); ev.method != wire.NotificationEvent {
						t.Errorf("then %s", ev.method)
					}
				}
				started := time.Now()
				if how == "interrupt" {
					if err := cmd.Process.Signal(os.Interrupt); err != nil {
						t.Fatal(err)
					}
				} else {
					in.Close()
				}
				last := ""
				for lines.Scan() {
					last = lines.Text()
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("exit: %v", err)
				}
				if d := time.Since(started); d > time.Minute {
					t.Errorf("it took %v to exit", d)
				}
				if how == "interrupt" && !strings.Contains(last, `"id":9007199254740993,"result"`) {
					t.Errorf("last line %s", last)
				}
			})
		}
	}
}
