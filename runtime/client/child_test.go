package client

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const childVar = "MCPE_CLIENT_TEST_CHILD"

// runChild makes this test binary a server on stdin and stdout when the environment says so: one
// that prints log lines between its messages, dies after each event, or does not want to exit.
func runChild() bool {
	kind := os.Getenv(childVar)
	if kind == "" {
		return false
	}
	f := newFake(strings.Contains(kind, "legacy"))
	noise := func(s string) {
		if strings.Contains(kind, "noisy") {
			os.Stdout.WriteString(s)
		}
	}
	fmt.Fprintln(os.Stderr, "child up")
	noise("starting up…\n[INFO] {not json\n{\"level\":\"info\",\"msg\":\"json logger\"}\n[1,2]\n\n\"a string\"\n12\n")
	f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
		return polled("c1", false, 0, fmt.Sprint("e", os.Getpid())), nil
	}
	f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
		from := 0
		if st.p.Cursor != nil {
			fmt.Sscanf(*st.p.Cursor, "c%d", &from)
		}
		st.active(fmt.Sprint("c", from))
		for i := from + 1; i <= from+3; i++ {
			noise(fmt.Sprintf("log line %d\n{\"jsonrpc\":\"2.0\",\"cut\n", i))
			st.event(fmt.Sprint("e", i), fmt.Sprint("c", i))
		}
		if strings.Contains(kind, "dies") {
			time.Sleep(20 * time.Millisecond) // so that the client has a chance to read it
			os.Exit(3)
		}
		return hold(st)
	}
	conn, err := (&mcp.StdioTransport{}).Connect(context.Background())
	if err != nil {
		panic(err)
	}
	interrupted := make(chan os.Signal, 1)
	if strings.Contains(kind, "stubborn") {
		signal.Ignore(syscall.SIGTERM)
		signal.Notify(interrupted, os.Interrupt) // without it and without cgo, the wait for it may be a deadlock
	}
	f.serveConn(conn)
	f.wg.Wait()
	if strings.Contains(kind, "stubborn") {
		for range 1 << 20 {
			fmt.Println("still here, and filling the pipe")
		}
		<-interrupted
	}
	return true
}
