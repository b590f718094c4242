package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

// TestCommandsOfPages holds the commands of pages to the command. TestTutorials runs those of the tutorials.
func TestCommandsOfPages(t *testing.T) {
	tree := func() *cobra.Command { return newRoot(newCommand(io.Discard, io.Discard, cli.VersionOf(nil))) }
	clitest.CommandsOfPages(t, 100, tree)
	for line, wrong := range map[string]bool{"generate --chekc": true, "genrate": true, "explain": true, "explain MCPE141": false, "-q lint --strict": false} {
		if err := clitest.Parses(tree(), line); (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestSkill generates the event file of skills/mcpe-gen/SKILL.md and compiles its Go, each block in a function of its
// own.
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
	code := "package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\n\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n\n\t\"example.com/skill/internal/deploys\"\n" +
		"\t\"example.com/skill/internal/deploys/deploysclient\"\n\t\"example.com/skill/internal/deploys/deploysserver\"\n"
	for _, name := range []string{"client", "server", "store/clientmemory", "transport"} {
		code += "\t\"" + module + "/runtime/" + name + "\"\n"
	}
	code += ")\n\nfunc main() {}\n"
	files := map[string]string{"go.sum": readText(t, "../../go.sum"),
		"go.mod": "module example.com/skill\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + checkout + "\n"}
	functions := []string{"serve(ctx context.Context, srv *mcp.Server)",
		"consume(ctx context.Context, url string, cursors *clientmemory.Cursors, handle func(context.Context, *deploys.DeployFinishedEvent) error)"}
	for _, b := range clitest.Block.FindAllStringSubmatch(readText(t, "../../skills/mcpe-gen/SKILL.md"), -1) {
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
