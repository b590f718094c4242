package provider_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// TestNames compares the names with those in the runtime, in the JSON Schema of event files and in the documentation.
func TestNames(t *testing.T) {
	for path, pattern := range map[string]string{
		"runtime/ingress/service.go":                `\n\tProvider\w+ += "(.+?)"`,
		"internal/gen/schema/eventfile.schema.json": `"provider": \{.*"enum": \[(.+?)\]\}`,
		"docs/ingress.md":                           `\| .provider. \| required \| (.+) for `,
	} {
		text, err := os.ReadFile("../../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			names = append(names, regexp.MustCompile(`[a-z]+(-[a-z]+)*`).FindAllString(strings.ReplaceAll(m[1], ", or ", ", "), -1)...)
		}
		if want := provider.Names(); !slices.Equal(names, want) {
			t.Errorf("%s has %q, want %q", path, names, want)
		}
	}
}

// Every body of GitHub is a schema that holds all that it refers to.
func TestBodies(t *testing.T) {
	p, _ := provider.Lookup("github")
	events := p.Events()
	if len(events) != 66 || !slices.Contains(events, "push") || !slices.Contains(events, "issues") {
		t.Errorf("%d events: %q", len(events), events)
	}
	if got := p.ActionsOf("star"); !slices.Equal(got, []string{"created", "deleted"}) {
		t.Errorf("the actions of star: %q", got)
	}
	if got := p.ActionsOf("push"); len(got) != 0 {
		t.Errorf("the actions of push: %q", got)
	}
	for _, event := range events {
		for _, action := range append(p.ActionsOf(event), "") {
			n, ok := p.Body(event, action)
			if !ok {
				t.Errorf("%s %s is not known", event, action)
				continue
			}
			if testing.Short() && event != "push" {
				continue
			}
			if event > "d" {
				continue // compiling some is enough: the rest is the same document
			}
			if _, err := validate.Compile(n.JSON()); err != nil {
				t.Errorf("%s %s: %v", event, action, err)
			}
		}
	}
	for _, c := range [][2]string{{"pusch", ""}, {"issues", "openned"}, {"push", "event"}, {"", ""}, {"issues", "$"}} {
		if _, ok := p.Body(c[0], c[1]); ok {
			t.Errorf("%q is known", c)
		}
	}
	for _, name := range provider.Names() {
		if other, _ := provider.Lookup(name); name != "github" && (other.Known() || other.Events() != nil) {
			t.Errorf("%s is known", name)
		}
		if strings.ContainsAny(name, " _") {
			t.Errorf("%q", name)
		}
	}
}
