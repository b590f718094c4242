package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// What a verb may take for a text of at most maxFuzzed bytes: memory, all that is ever allocated, and time on a busy
// machine.
const (
	maxFuzzed    = 1 << 20
	maxAllocated = 200 << 20
	maxTime      = time.Minute
)

// readers are the verbs that read files, with the exit codes that they may end with for a file of another.
var readers = []struct {
	args  []string
	codes []int
}{
	{[]string{"lint"}, []int{cli.OK, exitDiagnostics}},
	{[]string{"generate", "-o", "code", "--typescript", "types"}, []int{cli.OK, cli.Usage, exitDiagnostics}},
	{[]string{"breaking", "--against", "old.yaml"}, []int{cli.OK, exitDiagnostics, exitBreaking}},
	{[]string{"import", "-o", "imported.yaml", "--force"}, []int{cli.OK, exitDiagnostics}},
	{[]string{"export", "asyncapi", "-o", "exported.json"}, []int{cli.OK, exitDiagnostics}},
	{[]string{"docs", "-o", "pages"}, []int{cli.OK, exitDiagnostics}},
}

// readAll runs every reader on a file of dir.
func readAll(t *testing.T, dir, name string) {
	t.Helper()
	for _, r := range readers {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		out, code := runIn(t, dir, append(slices.Clone(r.args), name)...)
		spent := time.Since(start)
		runtime.ReadMemStats(&after)
		if !slices.Contains(r.codes, code) {
			t.Errorf("%q: exit %d\n%.2000s", r.args, code, out)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > maxAllocated {
			t.Errorf("%q: %d MB", r.args, used>>20)
		}
		if spent > maxTime {
			t.Errorf("%q: %v", r.args, spent)
		}
	}
}

// FuzzReaders gives arbitrary texts to every verb that reads files: none panics, each ends with a documented exit code,
// and the memory for a text has a bound.
func FuzzReaders(f *testing.F) {
	r := strings.Repeat
	texts := []string{
		"", "\ufeff", "\ufeff\ufeff{}", "a: \u0085\u009f", "a: \"\ufeff\"", "{\"a\": \"\u007f\u0080\ufffe\"}", `{"a": "\u0000\ud800"}`, "a: \"\\0\\ud800\"", "\x00", "a: \xff",
		r("[", 100_000), r("[", 100_000) + r("]", 100_000), "a: " + r("[", 50_000) + r("]", 50_000), r("{a: ", 100_000), r(`{"a":`, 100_000) + "1" + r("}", 100_000), r("- ", 100_000), r("? ", 100_000),
		"version: 1\nevents: " + r("[", 30_000), strings.ReplaceAll(oddEvents, "~", oddEscapes), strings.ReplaceAll(oddEvents, "~", "\ufeff"), strings.ReplaceAll(oddEvents, "~", `\ud83d`),
		oneWebhook("{$ref: '#/components/schemas/Pet'}", pets), oneWebhook("{$ref: '#/%'}", ""), oneWebhook("{$ref: '../a.yaml#/\u0000'}", ""),
		"asyncapi: 3.0.0\nchannels: {a: {messages: {m: {payload: {type: object, properties: {200: {const: \"\ufeff\\u0085\"}}}}}}}\n",
	}
	for _, text := range texts {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, asJSON bool) {
		if len(text) > maxFuzzed {
			t.Skip("longer than the bound")
		}
		name := "events.yaml"
		if asJSON {
			name = "events.json"
		}
		readAll(t, writeFiles(t, map[string]string{"go.mod": goMod, name: string(text), "old.yaml": strings.ReplaceAll(oddEvents, "~", "x")}), name)
	})
}

// FuzzEscapes puts any text into all places of an event file, by escapes: what is written of it is Go, and JSON.
func FuzzEscapes(f *testing.F) {
	for _, text := range []string{"", oddCharacters, "*/ `\\ \" ' ${} <!--", "\u2028\u2029\u202e\u200d", "\U0010ffff\ufffd", "~0/~1%", "\r\n\t", "é中🙂"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil || len(text) > maxFuzzed/16 {
			t.Skip()
		}
		file := strings.ReplaceAll(oddEvents, "~", string(quoted[1:len(quoted)-1]))
		dir := writeFiles(t, map[string]string{"go.mod": goMod, "events.yaml": file, "old.yaml": file})
		readAll(t, dir, "events.yaml")
		for _, below := range []string{"", "oddserver", "oddclient"} {
			if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "code", below, "events.mcpe.go"), nil, 0); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
		if exported, err := os.ReadFile(filepath.Join(dir, "exported.json")); err == nil && !json.Valid(exported) {
			t.Errorf("not JSON: %s", exported)
		}
	})
}
