package docs_test

import (
	"go/types"
	"strings"
	"testing"
)

// faces are the sizes of the packages that authors read most: exported names, and the exported methods and fields of
// their types. A number grows on purpose only, with the reason in the change that raises it; what shrinks a face
// lowers its number.
var faces = map[string]int{
	"runtime/client":            185, // with Options.WaitForServer
	"runtime/events":            140,
	"runtime/eventstest":        26,
	"runtime/operator":          269, // with records that cannot be read, ErrUnanswered of other processes, ends of replays, replays under way and their ends, who asks, the processes that share the store, the last hour, the audit log, test events, Attempt and Rejected, which operators see and which were in store; what lists and tasks are asked
	"runtime/server":            172, // with Options.Outbox, Retry.Headers, Callbacks.Loopback, Callbacks.UserAgent, Options.Checks, WebhookOptions.EndWithToken
	"runtime/store":             151, // with Records; the names of SubscriptionStore go when the runtime keeps its state as records
	"runtime/store/clientstore": 48,  // what clients keep, which authors of servers do not read
}

// TestFaces holds the size of what is promised.
func TestFaces(t *testing.T) {
	found := map[string]int{}
	for _, p := range load(t, "..") {
		if name := strings.TrimPrefix(p.PkgPath, p.Module.Path+"/"); faces[name] > 0 {
			found[name] = face(p.Types)
		}
	}
	for name, want := range faces {
		if found[name] != want {
			t.Errorf("the face of %s has %d names, methods and fields, want %d", name, found[name], want)
		}
	}
}

// face counts the exported names of a package, the exported methods of its named types, the exported fields of its
// structs and the methods that its interfaces list.
func face(p *types.Package) (n int) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		n++
		tn, ok := o.(*types.TypeName)
		if !ok || tn.IsAlias() {
			continue
		}
		if named, ok := tn.Type().(*types.Named); ok {
			for m := range named.Methods() {
				if m.Exported() {
					n++
				}
			}
		}
		switch u := tn.Type().Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if f.Exported() {
					n++
				}
			}
		case *types.Interface:
			n += u.NumExplicitMethods()
		}
	}
	return n
}
