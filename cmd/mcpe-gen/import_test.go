package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A server of imported event types advertises descriptors equal to those that were imported, with
// names, texts, delivery, schemas and fingerprint (EVOL-4).
func TestImportRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../../examples/schemas/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			original := advertised(t, file)
			text, found, err := importer.Write(importer.Events(toWire(original)), importer.Options{From: "memory"})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range found {
				if d.Severity != source.Note {
					t.Error(d)
				}
			}
			again := filepath.Join(t.TempDir(), "imported.yaml")
			if err := os.WriteFile(again, text, 0o666); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(descriptorValues(original), descriptorValues(advertised(t, again))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// advertised is what a server of the event file answers to events/list, in memory.
func advertised(t *testing.T, file string) []client.Descriptor {
	t.Helper()
	// A type that is offered by webhook alone needs a server with webhooks.
	p, err := clitest.NewPeer(file, server.Options{Webhooks: webhooks.New(webhooks.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- transport.Run(ctx, p.Events, theirs) }()
	defer func() {
		cancel()
		<-ended
		if err := p.Events.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// descriptorValues writes schemas as values: the order of members means nothing.
func descriptorValues(ds []client.Descriptor) []map[string]any {
	var list []map[string]any
	for _, d := range ds {
		raw, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			panic(err)
		}
		list = append(list, v)
	}
	return list
}
