package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// block is a code block of a page: its language and its text.
var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// commandLine matches how pages and scaffolds start the command, at the beginning of a line or behind what comes before it there.
var commandLine = regexp.MustCompile(`(?m)^(?: *\$ | +|)(?:[A-Z_]+=\S* )*(?:until |SUB=\$\()?(?:\./bin/|go tool |go run \./cmd/)?mcpe-gen ((?:.*\\\n)*.*)$`)

// TestCommandsOfPages holds every line of a code block that starts mcpe-gen to the command: the verb and its flags exist, and take so many
// arguments. TestTutorials runs those of the tutorials.
func TestCommandsOfPages(t *testing.T) {
	seen := 0
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "skills/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			if b[1] != "" && b[1] != "sh" && b[1] != "console" && b[1] != "text" {
				continue
			}
			for _, m := range commandLine.FindAllStringSubmatch(b[2], -1) {
				if m[1] == "…" || strings.HasSuffix(m[1], "[flags]") { // what version prints; a synopsis
					continue
				}
				seen++
				if err := parses(words(strings.ReplaceAll(m[1], "\\\n", " "))); err != nil {
					t.Errorf("%s: mcpe-gen %s: %v", page, m[1], err)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d commands were found", seen)
	}
	for line, wrong := range map[string]bool{"generate --chekc": true, "genrate": true, "explain": true, "explain MCPE141": false, "-q lint --strict": false} {
		if err := parses(words(line)); (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// parses reports what the command line would be refused for, before anything runs.
func parses(args []string) error {
	root := newRoot(&command{stdout: io.Discard, stderr: io.Discard, version: versionOf(nil)})
	verb, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	verb.InitDefaultHelpFlag()
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	asked := false
	verb.Flags().Visit(func(f *pflag.Flag) { asked = asked || f.Name == "help" || f.Name == "version" })
	if asked {
		return nil
	}
	if verb == root {
		return unknownVerb(root, verb.Flags().Args())
	}
	return verb.ValidateArgs(verb.Flags().Args())
}

// words splits a command line as a shell does, up to what is no argument of the command any more.
func words(line string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	started := false
	end := func() {
		if started {
			all = append(all, word.String())
		}
		word.Reset()
		started = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune("|>&;)", r), r == '#' && !started:
			if r == '>' && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset() // 2>
				started = false
			}
			end()
			return all
		default:
			word.WriteRune(r)
			started = true
		}
	}
	end()
	return all
}

// TestSkill generates the event file of skills/mcpe-gen/SKILL.md and compiles its Go, each block in a function of its own.
func TestSkill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it compiles")
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const module = "github.com/mcpe-gen/mcpe-gen"
	code := "package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\n\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n\n\t\"example.com/skill/internal/deploys\"\n"
	for _, name := range []string{"client", "server", "store/memory", "transport"} {
		code += "\t\"" + module + "/runtime/" + name + "\"\n"
	}
	code += ")\n\nfunc main() {}\n"
	files := map[string]string{"go.sum": readText(t, "../../go.sum"),
		"go.mod": "module example.com/skill\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + checkout + "\n"}
	functions := []string{"serve(ctx context.Context, srv *mcp.Server)",
		"consume(ctx context.Context, url string, cursors *memory.Cursors, handle func(context.Context, *deploys.DeployFinishedEvent) error)"}
	for _, b := range block.FindAllStringSubmatch(readText(t, "../../skills/mcpe-gen/SKILL.md"), -1) {
		switch b[1] {
		case "yaml":
			files["events.yaml"] = b[2]
		case "go":
			if len(functions) == 0 {
				t.Fatalf("one block of Go more than this test knows: %s", b[2])
			}
			code += "\nfunc " + functions[0] + " error {\n" + b[2] + "\treturn err\n}\n"
			functions = functions[1:]
		}
	}
	if len(functions) > 0 || files["events.yaml"] == "" {
		t.Fatalf("the skill has no event file, or lacks Go for %q", functions)
	}
	files["main.go"] = code
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, dir, "mcpe-gen", "generate", "events.yaml", "-o", "internal/deploys", "--package", "deploys", "--emit", "server,client")
	succeed(t, dir, "go", "vet", "./...")
}
