// Command todos is an MCP server with several users: it makes one server for each request, and one for the events of all.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"example.com/todos/internal/notes"
	"example.com/todos/internal/notes/notesserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/overlay"
	eventserver "github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type todo struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// serverFor is the server of one user.
func serverFor(user string, noteAdded *notesserver.NoteAddedEmitter) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "todos", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add_todo", Description: "Add something to do."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in todo) (*mcp.CallToolResult, any, error) {
			log.Printf("%s: %s", user, in.Text)
			note := notes.NoteAddedPayload{ID: in.ID, Author: notes.Author{Name: user}, Text: in.Text, AddedAt: events.NewTime(time.Now())}
			if err := noteAdded.Emit(ctx, note); err != nil {
				log.Print(err) // the work is done, so the tool does not fail
			}
			return nil, nil, nil
		})
	return server
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

	srv := mcp.NewServer(&mcp.Implementation{Name: "todos", Version: "v1.0.0"}, nil)
	es, err := eventserver.New(srv, eventserver.Options{}) // Principal is the token's UserID
	if err != nil {
		log.Fatal(err)
	}
	noteAdded, err := notesserver.RegisterNoteAdded(es, notesserver.NoteAddedHooks{
		// Users get what is theirs.
		Match: func(ctx context.Context, p *notes.NoteAddedPayload, _ *notes.NoteAddedArguments) bool {
			return p.Author.Name == eventserver.PrincipalOf(ctx)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Tools for clients that do not support events: one reads each event type, one waits for whatever comes first.
	err = es.AddReadTools(notesserver.ReadTools()...)
	if err != nil {
		log.Fatal(err)
	}
	err = es.AddWaitTool()
	if err != nil {
		log.Fatal(err)
	}
	handler := overlay.NewHandler(es, mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return serverFor(auth.TokenInfoFromContext(r.Context()).UserID, noteAdded)
	}, nil), overlay.Options{})
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
