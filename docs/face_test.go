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
	"runtime/client":            189, // with Options.WaitForServer, NotBy and NoActorError
	"runtime/events":            151, // with PerPrincipal, Yield and MatchLT, MatchLTE, MatchGT, MatchGTE and MatchRule.Not
	"runtime/eventstest":        26,
	"runtime/operator":          297, // with windows of time, latencies, and why a subscription is late; EventType.Damaged, records that cannot be read, actions that are pending, ends of replays, replays under way and their ends, who asks, the processes that share the store, the last hour, the audit log, test events, Attempt and Rejected, which operators see and which were in store; what lists are asked, and what was given up; without tasks
	"runtime/server":            175, // with Options.Outbox, Retry.Headers, Callbacks.Loopback, Callbacks.UserAgent, Options.Checks, WebhookOptions.EndWithToken
	"runtime/store":             135, // with the actions that a record holds; with DamagedError, by which stores of others say so as well; without Concern and Update.Idle, which Progress.Open replaces
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
			t.Errorf("the public API of %s has %d names, methods and fields, the table faces in face_test.go has %d", name, found[name], want)
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
