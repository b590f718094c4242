package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// reported matches the code of a diagnostic in JSON.
var reported = regexp.MustCompile(`"code":"([A-Z0-9_]+)"`)

// Every code explains itself with a cause, an example that gives this code and no other except besides, and a remedy that gives none.
// The command in the archive is run on both, in a module that requires this one.
func TestExplainEveryCode(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	module := map[string]string{"go.sum": readText(t, "../../go.sum"),
		"go.mod": fmt.Sprintf("module example.com/demo\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", "github.com/mcpe-gen/mcpe-gen", checkout)}
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
			args := strings.Fields(line)
			if len(args) < 2 || args[0] != "mcpe-gen" {
				t.Fatalf("examples/%s.txtar does not begin with its command", code.ID)
			}
			args = append([]string{"--format", "json"}, args[1:]...)
			for _, top := range []string{"wrong", "right"} {
				dir := unpack(t, archive, top)
				write(t, dir, module)
				out.Reset()
				errs.Reset()
				exit := run(append([]string{"-C", dir}, args...), &out, &errs, cli.VersionOf(nil))
				var got, want []string
				for _, m := range reported.FindAllStringSubmatch(out.String()+errs.String(), -1) {
					got = append(got, m[1])
				}
				if top == "wrong" {
					want = append(besides[code.ID], code.ID)
					slices.Sort(want)
				}
				slices.Sort(got)
				if !slices.Equal(slices.Compact(got), want) || top == "right" && exit != cli.OK {
					t.Errorf("%s/ of examples/%s.txtar: got %v and exit code %d, want %v\n%s%s", top, code.ID, got, exit, want, &out, &errs)
				}
			}
		})
	}
}

// besides lists the codes that the cause of another code makes inevitable.
var besides = map[string][]string{"MCPE550": {"PAYLOAD_FREE_TEXT"}, "MCPE560": {"MCPE130"}}

// longText stands for a long text in an example.
const longText = "A long text."

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
		write(t, dir, map[string]string{name: strings.ReplaceAll(string(f.Data), longText, strings.Repeat(longText+" ", 40_000))})
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
