// Command todos is an MCP server with several users: one server has the events of all.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"example.com/todos/internal/notes"
	"example.com/todos/internal/notes/notesserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type todo struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// newServer is the one server of all users.
func newServer() (*server.Server, error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "todos", Version: "v1.0.0"}, nil)
	es, err := server.New(srv, server.Options{}) // Principal is the token's UserID
	if err != nil {
		return nil, err
	}
	noteAdded, err := notesserver.RegisterNoteAdded(es, notesserver.NoteAddedHooks{
		// Users get what is theirs.
		Match: func(ctx context.Context, p *notes.NoteAddedPayload, _ *notes.NoteAddedArguments) bool {
			return p.Author.Name == server.PrincipalOf(ctx)
		},
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(es.AddReadTools(notesserver.ReadTools()...), es.AddWaitTool())
	if err != nil {
		return nil, err
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "add_todo", Description: "Add something to do."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in todo) (*mcp.CallToolResult, any, error) {
			user := server.PrincipalOf(ctx)
			log.Printf("%s: %s", user, in.Text)
			err := noteAdded.Emit(ctx, notes.NoteAddedPayload{
				ID:      in.ID,
				Author:  notes.Author{Name: user},
				Text:    in.Text,
				AddedAt: events.NewTime(time.Now()),
			})
			if err != nil {
				log.Print(err) // the work is done, so the tool does not fail
			}
			return nil, nil, nil
		})
	return es, nil
}

// verify knows two users; your identity provider knows more.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, ok := map[string]string{"s3cret-of-ada": "ada", "s3cret-of-bob": "bob"}[token]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: user}, nil
}

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	es, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	handler := transport.NewHandler(es, transport.HandlerOptions{})
	authenticate := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticate(handler))

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
