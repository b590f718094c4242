package access_test

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const runtime = "github.com/mcpe-gen/mcpe-gen/runtime/"

// watched are the functions through which a payload goes to a client, and the hooks and states that decide about it.
var watched = []string{
	"(internal/topic.Outcome).Data", "(internal/topic.Outcome).Frame", "(internal/topic.Outcome).Item", "(internal/topic.Outcome).Body",
	"internal/polling.Read", "internal/polling.Any", "(internal/webhooks/delivery.Sender).Send",
	"(internal/port.Follower).Next", "(store/engine.Schedules).Queue",
	"(server.Options).Authorize", "(server.untypedHooks).Authorize", "(internal/cluster/orders.Log).Heard", "(internal/cluster/cluster.Processes).Heard", "(internal/part.Service).Heard",
}

// places lists each function that uses one of them, with a test that fails if payloads get out there without a question
// to the gate.
var places = map[string]string{
	"internal/streaming.frame":                  "internal/streaming TestREP11NothingUnread",
	"internal/streaming.pull":                   "internal/streaming TestREP11NothingUnread", // followers
	"internal/polling.Encode":                   "internal/polling TestREP11NothingUnread",
	"server.pollAnswer":                         "server TestAUTH2NothingAfterRevocation", // polls and read tools
	"internal/waittool.waitForAny":              "server TestAUTH2NothingAfterRevocation",
	"internal/waittool.waitForOne":              "server TestAUTH2NothingAfterRevocation",
	"internal/webhooks/subscriber.deliveryItem": "server TestAUTH2NothingAfterRevocation",
	"internal/webhooks/delivery.send":           "internal/webhooks/subscriber TestREP11Deaf",
	"mcpe.runFollower":                          "mcpe TestHandlerAfterRevocation",
	"mcpe.deliverQueue":                         "mcpe TestRunAsksHooks",
	"mcpc.follow":                               "mcpc TestForwardAfterRefusal",
}

// others use them and send nothing: they configure the gate, or count.
var others = []string{"server.build", "server.authorizeHook", "mcpe.countPending"}

// TestWriters finds the functions in the source and compares them with the lists (AUTH-2, REP-11).
func TestWriters(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedTypesInfo}, runtime+"...")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Error(e)
		}
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && isUser(p, fn) && !isSupport(p.PkgPath) {
					found = append(found, short(p.PkgPath)+"."+fn.Name.Name)
				}
			}
		}
	}
	slices.Sort(found)
	want := slices.Sorted(maps.Keys(places))
	want = append(want, others...)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("payloads and decisions are used by\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	for place, test := range places {
		dir, name, _ := strings.Cut(test, " ")
		if !isDeclared(t, dir, name) {
			t.Errorf("%s: there is no %s", place, test)
		}
	}
}

// isSupport reports whether a package serves tests only.
func isSupport(path string) bool { return strings.HasSuffix(path, "test") }

// isUser reports whether a function uses something watched.
func isUser(p *packages.Package, fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := ""
		if f, ok := p.TypesInfo.Uses[sel.Sel].(*types.Func); ok {
			name = f.FullName()
		} else if s := p.TypesInfo.Selections[sel]; s != nil {
			name = "(" + s.Recv().String() + ")." + sel.Sel.Name
		}
		found = found || slices.Contains(watched, strings.ReplaceAll(short(name), "*", ""))
		return true
	})
	return found
}

func short(name string) string { return strings.ReplaceAll(name, runtime, "") }

// isDeclared reports whether the tests of a package have the function.
func isDeclared(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool {
		text, err := os.ReadFile(f)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
	})
}
