package starter

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

func load(t *testing.T, s *Starter) *schema.Set {
	t.Helper()
	set, found := schema.Load([]string{"events.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return s.Content, nil }})
	for _, d := range found {
		t.Errorf("%s: %s", s.Provider.Name, d)
	}
	if t.Failed() {
		t.FailNow()
	}
	return set
}

// Every service has an event file that loads without a word, with a sample of its first type.
func TestDefaults(t *testing.T) {
	want := map[string][]string{"github": {"push", "issues", "pull_request"}}
	for _, service := range Services {
		s, err := New(service, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range load(t, s).Files[0].Events {
			names = append(names, e.Name)
			if e.From == nil || e.From.Provider != service || len(e.Match) == 0 {
				t.Errorf("%s: %s comes from %+v and has %d filters", service, e.Name, e.From, len(e.Match))
			}
		}
		if want[service] != nil && !slices.Equal(names, want[service]) {
			t.Errorf("%s: %q", service, names)
		}
		byHand := strings.Contains(string(s.Content), "Written by hand")
		if byHand != (service != "github") || len(names) > 8 {
			t.Errorf("%s: %d types, marked as written by hand: %v", service, len(names), byHand)
		}
		if body, err := s.Sample(); err != nil || len(body) < 20 {
			t.Errorf("%s: a sample %s, %v", service, body, err)
		}
	}
}

// The samples of GitHub's common events are as GitHub sends them, and fit their event types. Of an action without one,
// the sample is made up.
func TestSamplesOfGitHub(t *testing.T) {
	for name, want := range map[string]string{
		"push": `"ref": "refs/heads/main"`, "issues": `"action": "opened"`, "issues.opened": `"title": "Search returns no results for two words"`,
		"pull_request": `"merged": false`, "issue_comment.created": `"action": "created"`, "release.published": `"tag_name": "v1.5.0"`,
		"workflow_run": `"conclusion": "failure"`, "issues.closed": `"action": "closed"`,
	} {
		s, err := New("github", []string{name})
		if err != nil {
			t.Fatal(err)
		}
		body, err := s.Sample()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, no %s in %s", name, err, want, body)
		}
		set := load(t, s)
		payload, err := validate.Compile(set.Published(set.Files[0].Events[0].Payload))
		if err != nil {
			t.Fatal(err)
		}
		if err := payload.Validate(body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each of GitHub's events, and each of their actions, gives an event type that its own schema agrees with and that lint
// has nothing against. Only all of them in one file repeat shapes so often that lint notes it.
func TestAllOfGitHub(t *testing.T) {
	t.Parallel()
	p, _ := provider.Lookup("github")
	names := Names("github")
	if diff := cmp.Diff(p.Events(), names); diff != "" {
		t.Errorf("the events of GitHub's schemas (-) and those in data (+):\n%s", diff)
	}
	for _, event := range p.Events() {
		for _, action := range p.ActionsOf(event) {
			names = append(names, event+"."+action)
		}
	}
	s, err := New("github", names)
	if err != nil {
		t.Fatal(err)
	}
	set := load(t, s)
	if got := len(set.Files[0].Events); got != len(names) {
		t.Errorf("%d event types, want %d", got, len(names))
	}
	for _, d := range lint.Check(set, lint.Options{}) {
		if d.Code != "SHAPE_REPEATED" {
			t.Errorf("lint: %s", d)
		}
	}
}

// What a service does not have is told with what is near.
func TestUnknown(t *testing.T) {
	for _, c := range []struct{ service, event, want string }{
		{"github", "isues", `did you mean "issues"?`}, {"github", "issues.openned", `did you mean "issues.opened"?`}, {"github", "push.created", "it has"},
		{"github", "issues.", `did you mean "issues"?`}, {"stripe", "invoice.payed", `did you mean "invoice.paid"?`}, {"slack", "x", "it has app_mention, "}, {"github", "", "it has"},
	} {
		_, err := New(c.service, []string{c.event})
		if _, ok := errors.AsType[*UnknownError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.service, c.event, err, c.want)
		}
	}
	if _, err := New("gitea", nil); err == nil {
		t.Error("gitea has nothing to start from")
	}
	if s, err := New("stripe", []string{"invoice.paid", "invoice.paid"}); err != nil || len(s.Events) != 1 {
		t.Errorf("named twice: %+v %v", s, err)
	}
}
