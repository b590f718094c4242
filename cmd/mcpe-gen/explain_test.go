package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Every code explains itself with a cause, an example that gives it, and a remedy that does not; the
// command in the archive is run on both. One that begins with a parenthesis needs more than files.
func TestExplainEveryCode(t *testing.T) {
	for _, code := range source.Codes() {
		t.Run(code.ID, func(t *testing.T) {
			var out, errs bytes.Buffer
			if exit := run([]string{"explain", code.ID}, &out, &errs, cli.VersionOf(nil)); exit != cli.OK {
				t.Fatalf("explain: exit code %d\n%s", exit, &errs)
			}
			if text := out.String(); !strings.HasPrefix(text, code.ID+": "+code.Title+" (") || !strings.Contains(text, "What gives it") || !strings.Contains(text, "What does not") {
				t.Errorf("the explanation has no example and remedy\n%s", text)
			}
			archive := txtar.Parse(source.Example(code.ID))
			line := strings.TrimSpace(string(archive.Comment))
			if strings.HasPrefix(line, "(") {
				return
			}
			args := strings.Fields(line)
			if len(args) < 2 || args[0] != "mcpe-gen" {
				t.Fatalf("examples/%s.txtar does not begin with its command", code.ID)
			}
			args = append([]string{"--format", "json"}, args[1:]...)
			for _, top := range []string{"wrong", "right"} {
				dir := unpack(t, archive, top)
				out.Reset()
				errs.Reset()
				run(append([]string{"-C", dir}, args...), &out, &errs, cli.VersionOf(nil))
				shown := out.String() + errs.String()
				if got := strings.Contains(shown, `"`+code.ID+`"`); got != (top == "wrong") {
					t.Errorf("%s/ of examples/%s.txtar: reported is %v\n%s", top, code.ID, got, shown)
				}
			}
		})
	}
}

// unpack writes the files below one directory of an archive and returns where. The run changes into
// it and is brought back.
func unpack(t *testing.T, archive *txtar.Archive, top string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chdir(here); err != nil {
			t.Fatal(err)
		}
	})
	dir := t.TempDir()
	for _, f := range archive.Files {
		name, ok := strings.CutPrefix(f.Name, top+"/")
		if !ok {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Every rule of lint and breaking explains itself too.
func TestExplainEveryRule(t *testing.T) {
	for _, book := range rulebooks {
		for _, r := range book.rules() {
			e, ok := explain(r.ID)
			if !ok || len(e.Examples) < 2 || e.Cause == "" || e.Category == "" || e.Verb != book.verb {
				t.Errorf("%s: %+v", r.ID, e)
			}
		}
	}
}
