package docs_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are what a request and an occurrence go through on the server's side, from the top down: a room
// imports only rooms below it.
var rooms = []string{
	"transport", "mcpe", "mcpc", "conversation",
	"server",
	"internal/cluster", "internal/operate",
	"internal/orders", "internal/solo",
	"internal/subscriber",
	"internal/waittool", "internal/polling", "internal/streaming", "internal/history",
	"internal/lease",
	"internal/eventtype",
	"internal/feed", "internal/topic",
	"internal/delivery",
	"internal/verify",
	"internal/port", "internal/fault", "internal/hook", "internal/frame", "internal/keylock",
}

const runtimePath = "github.com/mcpe-gen/mcpe-gen/runtime/"

// imports returns the rooms that a room imports, tests aside.
func imports(t *testing.T, room string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "runtime", filepath.FromSlash(room), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files: %v", room, err)
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
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := strings.CutPrefix(path, runtimePath); ok && slices.Contains(rooms, other) {
				found[other] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// The picture of the rooms in packages.md shows their imports, all of them and no others, and the
// imports point downwards.
func TestRooms(t *testing.T) {
	text, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "```mermaid\n")
	picture, _, _ = strings.Cut(picture, "```")
	drawn := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\S+) --> (.+)$`).FindAllStringSubmatch(picture, -1) {
		for to := range strings.SplitSeq(m[2], " & ") {
			drawn[room(m[1])] = append(drawn[room(m[1])], room(to))
		}
	}
	if len(drawn) == 0 {
		t.Fatal("there is no picture")
	}
	for i, r := range rooms {
		real := imports(t, r)
		slices.Sort(drawn[r])
		if !slices.Equal(real, drawn[r]) {
			t.Errorf("%s imports %v, the picture says %v", r, real, drawn[r])
		}
		for _, other := range real {
			if slices.Index(rooms, other) <= i {
				t.Errorf("%s imports %s, which is not below it", r, other)
			}
		}
		delete(drawn, r)
	}
	for r := range drawn {
		t.Errorf("the picture has an unknown room %s", r)
	}
}

// room is the room of a node, whose name has no internal.
func room(node string) string {
	for _, r := range rooms {
		if r == node || r == "internal/"+node {
			return r
		}
	}
	return node
}

// The log kernel can be read alone: it links neither webhooks nor the SDK.
func TestKernelStandsAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", runtimePath+"internal/topic").Output()
	if err != nil {
		t.Fatal(err)
	}
	refused := []string{"github.com/modelcontextprotocol/go-sdk", runtimePath + "webhook", runtimePath + "internal/delivery", runtimePath + "internal/netguard",
		runtimePath + "server", runtimePath + "internal/port", runtimePath + "internal/feed"}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, r := range refused {
			if dep == r || strings.HasPrefix(dep, r+"/") {
				t.Errorf("internal/topic links %s", dep)
			}
		}
	}
}
