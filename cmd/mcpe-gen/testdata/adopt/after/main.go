// Command tickets is an MCP server with one tool.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"example.com/tickets/internal/notes"
	"example.com/tickets/internal/notes/notesserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	eventserver "github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type note struct {
	ID     string `json:"id"`
	Author string `json:"author"`
	Text   string `json:"text"`
}

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	server := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "v1.0.0"}, nil)
	es, err := eventserver.New(server, eventserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	noteAdded, err := notesserver.RegisterNoteAdded(es, notesserver.NoteAddedHooks{})
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

	mcp.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Add a note."},
		func(ctx context.Context, _ *mcp.CallToolRequest, n note) (*mcp.CallToolResult, any, error) {
			log.Printf("%s: %s", n.Author, n.Text)
			err := noteAdded.Emit(ctx, notes.NoteAddedPayload{
				ID:      n.ID,
				Author:  notes.Author{Name: n.Author},
				Text:    n.Text,
				AddedAt: events.NewTime(time.Now()),
			}, events.WithID("note-"+n.ID))
			if err != nil {
				log.Print(err) // the work is done, so the tool does not fail
			}
			return nil, nil, nil
		})

	handler := transport.NewHandler(es, transport.HandlerOptions{})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
