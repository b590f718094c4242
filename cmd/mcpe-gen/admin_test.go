package main

import (
	"io"
	"slices"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/operate"
)

// TestAdminVerbs expects a command below admin for each verb that operate has, and flags that exist.
func TestAdminVerbs(t *testing.T) {
	var names []string
	for _, verb := range newAdmin(newCommand(io.Discard, io.Discard, cli.VersionOf(nil))).Commands() {
		if !verb.Hidden {
			names = append(names, verb.Name())
		}
	}
	want := slices.Sorted(slices.Values(operate.Verbs))
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("admin has %q, operate has %q", names, want)
	}
	others := []string{"failing", "all", "yes", "dry-run", "rate", "after", "wait"}
	for _, v := range adminVerbs {
		for _, name := range slices.Concat(v.flags...) {
			if textFlags[name].name == "" && !slices.Contains(others, name) {
				t.Errorf("%s has the flag %s, which nothing adds", v.use, name)
			}
		}
	}
}
