package asyncapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// modules is the variable that names a directory in which npm has installed @asyncapi/parser.
// `make asyncapi` sets it; then the official parser must accept every exported document.
const modules = "MCPE_GEN_ASYNCAPI_MODULES"

// The official parser accepts what is exported, as YAML and as JSON. Where it is not installed the
// test says so and checks what it can by itself.
func TestExportIsAsyncAPI(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for file, set := range eventFiles(t) {
		doc, _ := asyncapi.Export(set, asyncapi.Options{Title: filepath.Base(file), Version: "1.0.0"})
		checkDocument(t, file, doc)
		for _, ext := range []string{".yaml", ".json"} {
			text, err := asyncapi.Text(doc, ext == ".json")
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".yaml")+ext)
			if err := os.WriteFile(name, text, 0o666); err != nil {
				t.Fatal(err)
			}
			files = append(files, name)
		}
	}
	installed := os.Getenv(modules)
	if installed == "" {
		t.Logf("NOT RUN: the official AsyncAPI parser. %d documents passed the checks of this test only; `make asyncapi` runs the parser", len(files))
		return
	}
	out, err := exec.Command("node", append([]string{"testdata/check.js", installed}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("the official parser: %v\n%s", err, out)
	}
	t.Logf("the official AsyncAPI parser accepts %d documents:\n%s", len(files), out)
}

var componentKey = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// checkDocument checks what can go wrong in a document of ours: members that must be there, references
// that resolve, schemas that compile on their own, examples that are valid.
func checkDocument(t *testing.T, file string, doc *source.Node) {
	t.Helper()
	// The nodes of an export know neither parents nor positions; those of its text do.
	doc, found := source.Parse(file, doc.JSON())
	if len(found) > 0 {
		t.Fatalf("%s: %v", file, found)
	}
	for _, pointer := range []string{"/asyncapi", "/info/title", "/info/version", "/channels", "/operations"} {
		if doc.Lookup(pointer) == nil {
			t.Errorf("%s: %s is missing", file, pointer)
		}
	}
	eachNode(doc, func(n *source.Node) {
		ref := n.Get("$ref")
		if ref == nil || ref.Kind != source.String {
			return
		}
		pointer, local := strings.CutPrefix(ref.Text, "#")
		if !local || doc.Lookup(pointer) == nil {
			t.Errorf("%s: %s refers to nothing: %s", file, n.Pointer(), ref.Text)
		}
		if len(n.Members) != 1 {
			t.Errorf("%s: %s has members beside $ref, which mean nothing", file, n.Pointer())
		}
	})
	for _, part := range []string{"messages", "schemas"} {
		for _, m := range doc.Lookup("/components").Members {
			if m.Key != part {
				continue
			}
			for _, c := range m.Value.Members {
				if !componentKey.MatchString(c.Key) {
					t.Errorf("%s: %q cannot name a component", file, c.Key)
				}
			}
		}
	}
	for _, m := range doc.Get("channels").Members { // what the document itself says of the schemas counts
		x := m.Value.Get("x-mcp-event")
		x.Members = slices.DeleteFunc(x.Members, func(m source.Member) bool { return m.Key == "exact" })
	}
	events, found := asyncapi.Read(file, doc.JSON())
	if len(found) > 0 {
		t.Errorf("%s: %v", file, found)
	}
	for _, e := range events.Events {
		s, err := validate.Compile(e.PayloadSchema)
		if err != nil {
			t.Errorf("%s: the payload of %s: %v", file, e.Name, err)
			continue
		}
		message := doc.Lookup("/components/messages/" + e.Name)
		if list := message.Get("examples"); list != nil {
			if err := s.Validate(list.Items[0].Get("payload").JSON()); err != nil {
				t.Errorf("%s: the example of %s: %v", file, e.Name, err)
			}
		}
	}
}

func eachNode(n *source.Node, f func(*source.Node)) {
	f(n)
	for _, m := range n.Members {
		eachNode(m.Value, f)
	}
	for _, item := range n.Items {
		eachNode(item, f)
	}
}
