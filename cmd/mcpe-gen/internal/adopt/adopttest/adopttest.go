// Package adopttest applies the edits of `mcpe-gen init --format json` as a coding agent does.
package adopttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An Edit is an element of "edits".
type Edit struct {
	File                  string
	Line                  int
	Replace, Insert, Note string
	Imports               []string
}

// Parse returns the edits of the document that init prints.
func Parse(t *testing.T, document []byte) []Edit {
	t.Helper()
	var said struct{ Edits []Edit }
	if err := json.Unmarshal(document, &said); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	if said.Edits == nil {
		t.Fatalf("the document has no edits:\n%s", document)
	}
	return said.Edits
}

// Apply applies the edits that have a line to the files below a directory.
func Apply(t *testing.T, dir string, edits []Edit) {
	t.Helper()
	imports := map[string][]string{}
	for _, e := range slices.Backward(edits) {
		if e.Line == 0 || e.Insert == "" && e.Replace == "" {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(e.File))
		lines := strings.SplitAfter(read(t, name), "\n")
		before, rest := strings.Join(lines[:e.Line-1], ""), strings.Join(lines[e.Line-1:], "")
		after, ok := strings.CutPrefix(rest, e.Replace)
		if !ok {
			t.Fatalf("%s:%d has\n%s\nand not\n%s", e.File, e.Line, rest, e.Replace)
		}
		write(t, name, before+e.Insert+after)
		imports[name] = append(imports[name], e.Imports...)
	}
	for name, specs := range imports {
		AddImports(t, name, specs)
	}
}

// emitting emits a note 20 times a second.
const emitting = `package %s

import (
	"context"
	"time"

	"%[2]s/internal/notes"
	"%[2]s/internal/notes/notesserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

func emitNotes(to *notesserver.NoteAddedEmitter) {
	for range time.Tick(50 * time.Millisecond) {
		note := notes.NoteAddedPayload{ID: "1", Author: notes.Author{Name: "ada"}, Text: "hello", AddedAt: events.NewTime(time.Now())}
		if err := to.Emit(context.Background(), note); err != nil {
			panic(err)
		}
	}
}
`

// Emit lets the emitters of applied edits emit 20 times a second.
func Emit(t *testing.T, dir string, edits []Edit) {
	t.Helper()
	const unused = "_ = noteAdded // noteAdded.Emit tells every subscriber\n"
	module := regexp.MustCompile(`(?m)^module (\S+)`).FindStringSubmatch(read(t, filepath.Join(dir, "go.mod")))[1]
	for _, e := range edits {
		if e.Line == 0 || !strings.Contains(e.Insert, unused) {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(e.File))
		text := read(t, name)
		write(t, name, strings.ReplaceAll(text, unused, "go emitNotes(noteAdded)\n"))
		pkg := regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(text)[1]
		write(t, filepath.Join(filepath.Dir(name), "emit.go"), fmt.Sprintf(emitting, pkg, module))
	}
}

// AddImports adds imports before the SDK's, or as the first declaration.
func AddImports(t *testing.T, name string, specs []string) {
	t.Helper()
	slices.SortFunc(specs, func(a, b string) int { return strings.Compare(path(a), path(b)) })
	specs = slices.Compact(specs)
	if len(specs) == 0 {
		return
	}
	text := read(t, name)
	const sdk = "\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n"
	if before, after, ok := strings.Cut(text, sdk); ok {
		write(t, name, before+"\t"+strings.Join(specs, "\n\t")+"\n"+sdk+after)
		return
	}
	at := strings.Index("\n"+text, "\npackage ")
	end := at + strings.Index(text[at:], "\n") + 1
	write(t, name, text[:end]+"\nimport (\n\t"+strings.Join(specs, "\n\t")+"\n)\n"+text[end:])
}

// path returns the path of an import spec.
func path(spec string) string { return spec[strings.Index(spec, `"`):] }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
