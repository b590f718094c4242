package schema

import (
	"bytes"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// checkSamples validates the defaults and examples of a schema. They do not affect validity, so a mismatch is only a
// warning.
//
// A schema without references is compiled separately. Other schemas are compiled with their whole root. This is slower,
// because the compiler's run time is quadratic.
func (l *loader) checkSamples(r *root) {
	if len(r.samples) == 0 || r.isBroken {
		return
	}
	var whole *jsonschema.Compiler
	for _, n := range r.samples {
		var s *jsonschema.Schema
		var err error
		if isSelfContained(r, n) {
			c := newCompiler(r.dialect)
			if err = addSchema(c, n.JSON()); err == nil {
				s, err = c.Compile(sampleURL)
			}
		} else {
			if whole == nil {
				whole = newCompiler(r.dialect)
				err = addSchema(whole, l.set.Published(r.node))
			}
			if err == nil {
				s, err = whole.Compile(sampleURL + "#" + escapeFragment(n.PointerFrom(r.node)))
			}
		}
		if err != nil {
			l.fail(r, source.New("MCPE130", n.Range, "the schema cannot be used: %v", err))
			return
		}
		if d := n.Get("default"); d != nil {
			l.checkSample(r, s, d, "the default")
		}
		if list := n.Get("examples"); list != nil {
			for _, e := range list.Items {
				l.checkSample(r, s, e, "the example")
			}
		}
	}
}

// isSelfContained reports whether the meaning of a schema within r does not depend on the rest of r.
func isSelfContained(r *root, n *source.Node) bool {
	if n.Kind != source.Object {
		return true
	}
	if n.Get("$ref") != nil || n.Get("$id") != nil || n.Get("$schema") != nil || n.Get("$anchor") != nil {
		return false
	}
	ok := true
	schematree.Each(r.dialect, n, func(_, _ string, s *source.Node) { ok = ok && isSelfContained(r, s) })
	return ok
}

// markBrokenUsers marks all schemas that refer to a broken schema as broken. Checks then skip them.
func (l *loader) markBrokenUsers() {
	users := make(map[*root][]*root)
	var queue []*root
	for _, r := range l.roots {
		for _, at := range r.refs {
			if t, d := l.set.Resolve(at); d == nil {
				to := l.set.places[t.Node].root
				users[to] = append(users[to], r)
			}
		}
		if r.isBroken {
			queue = append(queue, r)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, user := range users[queue[0]] {
			if !user.isBroken {
				user.isBroken = true
				queue = append(queue, user)
			}
		}
	}
}

func (l *loader) checkSample(r *root, s *jsonschema.Schema, v *source.Node, what string) {
	var invalid *jsonschema.ValidationError
	if err := s.Validate(v.Value()); !errors.As(err, &invalid) {
		return
	}
	for _, leaf := range form.Causes(invalid) {
		place, inside := form.At(v, leaf.InstanceLocation), ""
		if place != v {
			inside = " in " + nameOf(place, v, "the value")
		}
		l.fail(r, source.New("MCPE134", place.Range, "%s is not valid%s: %s", what, inside, leaf.ErrorKind.LocalizedString(english())))
	}
}

// sampleURL is the URL under which the compiler knows the schema of a sample.
const sampleURL = "mem:///schema"

func addSchema(c *jsonschema.Compiler, schema []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	return c.AddResource(sampleURL, doc)
}

// newCompiler returns a schema compiler with the settings of the runtime.
func newCompiler(d *schematree.Dialect) *jsonschema.Compiler {
	c := validate.NewCompiler()
	if d == schematree.Draft07 {
		c.DefaultDraft(jsonschema.Draft7)
	}
	return c
}
