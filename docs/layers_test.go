package docs_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers are the packages that requests and occurrences pass in a server, from top to bottom. Each imports only packages below
// it.
var layers = []string{
	"transport", "mcpe", "mcpc", "conversation",
	"server",
	"internal/durable",
	"internal/cluster/cluster", "internal/operators/operate",
	"internal/cluster/orders",
	"internal/webhooks/subscriber",
	"internal/part",
	"internal/waittool", "internal/polling", "internal/streaming", "internal/history",
	"internal/access", "internal/lease", "internal/reading",
	"internal/eventtype",
	"internal/feed", "internal/topic",
	"internal/webhooks/delivery",
	"internal/webhooks/verify",
	"internal/port", "internal/fault", "internal/hook", "internal/frame", "internal/keylock", "internal/fairsem",
}

const runtimePath = "github.com/mcpe-gen/mcpe-gen/runtime/"

// layersImported returns the layers that a layer imports, apart from its tests.
func layersImported(t *testing.T, layer string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "runtime", filepath.FromSlash(layer), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files: %v", layer, err)
	}
	found := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := strings.CutPrefix(imported, runtimePath); ok && slices.Contains(layers, other) {
				found[other] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// TestLayers compares the diagram in packages.md with the imports of the layers, which point downwards.
func TestLayers(t *testing.T) {
	text, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, _ := strings.Cut(string(text), "```mermaid\n")
	diagram, _, _ = strings.Cut(diagram, "```")
	drawn := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\S+) --> (.+)$`).FindAllStringSubmatch(diagram, -1) {
		for to := range strings.SplitSeq(m[2], " & ") {
			drawn[layer(m[1])] = append(drawn[layer(m[1])], layer(to))
		}
	}
	if len(drawn) == 0 {
		t.Fatal("there is no diagram")
	}
	for i, r := range layers {
		real := layersImported(t, r)
		slices.Sort(drawn[r])
		if !slices.Equal(real, drawn[r]) {
			t.Errorf("%s imports %v, the diagram says %v", r, real, drawn[r])
		}
		for _, other := range real {
			if slices.Index(layers, other) <= i {
				t.Errorf("%s imports %s, which is not below it", r, other)
			}
		}
		delete(drawn, r)
	}
	for r := range drawn {
		t.Errorf("the diagram has an unknown layer %s", r)
	}
}

// layer returns the layer of a node of the diagram, which is named by the last element of its path.
func layer(node string) string {
	for _, r := range layers {
		if path.Base(r) == node {
			return r
		}
	}
	return node
}

// TestIndependent checks that package topic links neither webhooks nor the SDK, and the generator no SDK.
func TestIndependent(t *testing.T) {
	const sdk = "github.com/modelcontextprotocol/go-sdk"
	for packages, refused := range map[string][]string{
		"./runtime/internal/topic": {sdk, runtimePath + "webhook", runtimePath + "internal/webhooks/delivery",
			runtimePath + "internal/webhooks/netguard", runtimePath + "server", runtimePath + "internal/port", runtimePath + "internal/feed"},
		"./internal/gen/...": {sdk, "golang.org/x/oauth2", runtimePath + "server", runtimePath + "client", runtimePath + "readtool", runtimePath + "internal"},
	} {
		out, err := exec.Command("go", "list", "-C", "..", "-deps", packages).Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("%s: %v", packages, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			for _, r := range refused {
				if dep == r || strings.HasPrefix(dep, r+"/") {
					t.Errorf("%s links %s", packages, dep)
				}
			}
		}
	}
}

// TestPackagesAreListed finds each package of the module in packages.md, by its path or, after a package with the same
// parent, by its name.
func TestPackagesAreListed(t *testing.T) {
	text, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`([\\w/.-]+)`").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	out, err := exec.Command("go", "list", "-C", "..", "./cmd/...", "./gen/...", "./internal/...", "./runtime/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		pkg := strings.TrimPrefix(path, "github.com/mcpe-gen/mcpe-gen/")
		for rest, more := pkg, true; !listed[rest]; {
			if _, rest, more = strings.Cut(rest, "/"); !more {
				t.Errorf("packages.md does not list %s", pkg)
				break
			}
		}
	}
}
