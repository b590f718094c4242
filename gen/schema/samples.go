package schema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/pattern"
)

// checkSamples checks the defaults and examples of a schema against it. They have no effect on what
// is valid, so a mismatch is a warning.
func (l *loader) checkSamples(r *root) {
	if len(r.samples) == 0 || r.broken {
		return
	}
	const url = "mem:///schema"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(l.set.Published(r.node)))
	if err != nil {
		return // a published schema is JSON: its test says so
	}
	c := newCompiler(r.dialect)
	if err := c.AddResource(url, doc); err != nil {
		l.fail(r, source.New("MCPE130", r.node.Range, "the schema cannot be used: %v", err))
		return
	}
	for _, n := range r.samples {
		s, err := c.Compile(url + "#" + escapeFragment(n.PointerFrom(r.node)))
		if err != nil {
			l.fail(r, source.New("MCPE130", n.Range, "the schema cannot be used: %v", err))
			return
		}
		if d := n.Get("default"); d != nil {
			l.sample(r, s, d, "the default")
		}
		if list := n.Get("examples"); list != nil {
			for _, e := range list.Items {
				l.sample(r, s, e, "the example")
			}
		}
	}
}

// spread marks as broken whatever refers to something broken, so that nothing is concluded from it.
func (l *loader) spread() {
	users := make(map[*root][]*root)
	var queue []*root
	for _, r := range l.roots {
		for _, at := range r.refs {
			if t, d := l.set.Resolve(at); d == nil {
				to := l.set.places[t.Node].root
				users[to] = append(users[to], r)
			}
		}
		if r.broken {
			queue = append(queue, r)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, user := range users[queue[0]] {
			if !user.broken {
				user.broken = true
				queue = append(queue, user)
			}
		}
	}
}

func (l *loader) sample(r *root, s *jsonschema.Schema, v *source.Node, what string) {
	var invalid *jsonschema.ValidationError
	if err := s.Validate(v.Value()); !errors.As(err, &invalid) {
		return
	}
	for _, leaf := range leaves(invalid) {
		at, inside := find(v, leaf.InstanceLocation)
		if inside != "" {
			inside = " in " + inside
		}
		l.fail(r, source.New("MCPE134", at, "%s is not valid%s: %s", what, inside, leaf.ErrorKind.LocalizedString(english())))
	}
}

// newCompiler returns a compiler that reads schemas as the runtime does.
func newCompiler(d *dialect) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if d == draft07 {
		c.DefaultDraft(jsonschema.Draft7)
	}
	c.AssertFormat()
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return pattern.Compile(text) })
	c.UseLoader(nothing{})
	return c
}

// nothing loads no schema: all references were moved into the document.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not loaded", url)
}
