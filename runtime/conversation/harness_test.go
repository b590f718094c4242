package conversation

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// connect runs a server with the handler in memory and returns a client session with it. Both end
// with the test or the bubble that calls the returned function.
func connect[S any](t *testing.T, h Handler[S], version string, wrap func(mcp.Transport) mcp.Transport) (*mcp.ClientSession, func()) {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if h.OnUserMessage != nil || h.OnAssistantResponse != nil {
		if err := Register(es, h, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	near, far := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		transport.Run(ctx, es, near)
	}()
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	if err := Install(c); err != nil {
		t.Fatal(err)
	}
	var ct mcp.Transport = far
	if wrap != nil {
		ct = wrap(far)
	}
	session, err := c.Connect(ctx, ct, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return session, func() {
		session.Close()
		cancel()
		es.Shutdown(context.Background())
		<-ended
	}
}

// says is a handler that answers every message with a text.
func says(text string) Handler[Memories] {
	return Handler[Memories]{OnUserMessage: func(context.Context, Message) (Answer[Memories], error) { return Answer[Memories]{Context: text}, nil }}
}

// approving returns consents for the servers.
func approving(t *testing.T, servers ...string) *FileConsents {
	t.Helper()
	c := NewConsents()
	for _, s := range servers {
		if err := c.Grant(t.Context(), Consent{Server: s}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
