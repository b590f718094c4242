package breaking

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// The rules about generated Go.
const (
	goPackage = "GO_PACKAGE_CHANGED"
	goName    = "GO_NAME_REMOVED"
	goType    = "GO_TYPE_CHANGED"
	goServer  = "GO_REGISTRATION_CHANGED"
)

var goRules = []rule.Rule{
	{ID: goPackage, Category: Source, Purpose: "A generated package is gone, or has another name or directory."},
	{ID: goName, Category: Source, Purpose: "A type, field, constant or function of the generated package is gone."},
	{ID: goType, Category: Source, Purpose: "A type, field or constant of the generated package is something else."},
	{ID: goServer, Category: Source, Purpose: "An event type is registered in another way: its source changed."},
}

// compareGo compares the generated packages.
func (c *comparison) compareGo() {
	if !c.isSelected(Source) {
		return
	}
	for i := range c.old {
		old := &c.old[i]
		before, at, ok := c.api(old)
		if !ok {
			continue
		}
		now := c.newPackage(old)
		if now == nil {
			c.report(goPackage, old.label(at), "", "package "+before.name, source.Diagnostic{Message: "the package is no longer generated"})
			continue
		}
		after, at, ok := c.api(now)
		if !ok {
			continue
		}
		if before.name != after.name && before.name != "" && after.name != "" {
			c.report(goPackage, now.label(at), "", "package "+before.name, source.Diagnostic{Message: "the package is called " + after.name + " now"})
		}
		c.comparePlace(now, at, old.Server, now.Server)
		c.comparePlace(now, at, old.Client, now.Client)
		c.compareNames(old, now, before, after)
	}
}

// comparePlace compares the directories of a package for servers or clients.
func (c *comparison) comparePlace(of *Package, at source.Range, was, is string) {
	switch {
	case was == "" || was == is:
	case is == "":
		c.report(goPackage, of.label(at), "", "package "+was, source.Diagnostic{Message: "the package is no longer generated"})
	default:
		c.report(goPackage, of.label(at), "", "package "+was, source.Diagnostic{Message: "the package is in " + is + " now"})
	}
}

// newPackage returns the new version of an old package, or nil.
func (c *comparison) newPackage(old *Package) *Package {
	if len(c.old) == 1 && len(c.new) == 1 {
		return &c.new[0]
	}
	for i := range c.new {
		if c.new[i].Key == old.Key {
			return &c.new[i]
		}
	}
	return nil
}

// compareNames compares the declarations of two packages.
func (c *comparison) compareNames(old, now *Package, before, after api) {
	for _, name := range slices.Sorted(maps.Keys(before.decls)) {
		was := before.decls[name]
		is, kept := after.decls[name]
		_, owner := after.decls[was.owner]
		switch {
		case !kept && was.owner != "" && !owner: // reported once, for the type
		case !kept:
			at, d := old.label(was.at), source.Diagnostic{Message: was.what + " is gone"}
			if was.owner != "" {
				at, d = now.label(after.decls[was.owner].at), d.WithRelated(at, "it was here")
			}
			c.report(goName, at, was.event, name, d)
		case was.what == "registration" && was.form != is.form:
			c.report(goServer, now.label(is.at), was.event, name, source.Diagnostic{Message: fmt.Sprintf("the source was %s and is %s", was.form, is.form)})
		case was.member != is.member:
			c.report(goType, now.label(is.at), was.event, name, source.Diagnostic{Message: fmt.Sprintf("%s was the member %q and is %q", was.what, was.member, is.member)})
		case was.form != is.form:
			c.report(goType, now.label(is.at), was.event, name, source.Diagnostic{Message: fmt.Sprintf("%s was %s and is %s", was.what, was.form, is.form)})
		}
	}
}

// An api contains the declarations of a generated package by name. The name of a field or variant follows its type and
// a dot.
type api struct {
	name  string
	decls map[string]declared
}

// declared is one exported name.
type declared struct {
	what, form string
	owner      string // the type of a field or constant
	member     string // type of a field
	event      string
	at         source.Range
}

// reportUntyped reports the errors that prevent a package from having Go code to compare.
func (c *comparison) reportUntyped(p *Package, diags []source.Diagnostic) {
	for _, d := range diags {
		if d.Severity != source.Error {
			continue
		}
		if slices.ContainsFunc(c.old, func(o Package) bool { return o.Set == p.Set }) {
			d = source.New("MCPE560", p.label(d.Range), "the old version has no Go types to compare with: %s", d.Message)
		}
		c.found = append(c.found, finding{Diagnostic: d})
	}
}

// api returns the declarations of a package. It returns false if the package has no valid typed model.
func (c *comparison) api(p *Package) (a api, at source.Range, ok bool) {
	if len(p.Set.Files) == 0 {
		return api{}, at, false
	}
	at = source.InFile(p.Set.Files[0].Path)
	pkg, diags := ir.Build(p.Set, p.Go)
	if source.HasErrors(diags) {
		c.reportUntyped(p, diags)
		return api{}, at, false
	}
	a = api{name: pkg.Name, decls: map[string]declared{}}
	for _, f := range pkg.Files {
		for _, d := range f.Decls {
			a.add(d, "")
		}
		for _, e := range f.Events {
			s := e.Schema
			if s.Stability == "experimental" {
				continue
			}
			for _, d := range e.Decls {
				a.add(d, s.Name)
			}
			form := s.Source
			a.decls["Register"+e.Prefix] = declared{what: "registration", form: form, event: s.Name, at: s.NameRange}
		}
	}
	return a, at, true
}

// add adds the declaration of a type and its members.
func (a *api) add(d *ir.Decl, event string) {
	form := d.Form.String()
	switch d.Form {
	case ir.Alias, ir.Defined, ir.Holder:
		form = d.Type.String()
	case ir.Enum:
		form = (&ir.Type{Kind: d.Base}).String()
	}
	a.decls[d.Name] = declared{what: "the type", form: form, event: event, at: d.At}
	for _, f := range d.Fields {
		a.decls[d.Name+"."+f.Name] = declared{what: "the field", form: f.Type.String(), owner: d.Name, member: f.JSON, event: event, at: f.At}
	}
	if d.Extra != nil {
		a.decls[d.Name+".Extra"] = declared{what: "the field", form: "map[string]" + d.Extra.String(), owner: d.Name, event: event, at: d.At}
	}
	for _, v := range d.Values {
		a.decls[v.Name] = declared{what: "the constant", form: v.Literal, owner: d.Name, event: event, at: d.At}
	}
	if d.Form == ir.Union {
		a.decls[d.VariantType] = declared{what: "the type", form: "the interface of " + d.Name, owner: d.Name, event: event, at: d.At}
		a.decls[d.UnknownType] = declared{what: "the type", form: "the unknown variant of " + d.Name, owner: d.Name, event: event, at: d.At}
	}
	for _, v := range d.Variants {
		form := v.JSON
		switch {
		case len(v.Tags) > 0:
			form = "tag " + strings.Trim(fmt.Sprintf("%q", slices.Sorted(slices.Values(v.Tags))), "[]")
		case v.Has != "":
			form = fmt.Sprintf("with the member %q", v.Has)
		}
		a.decls[d.Name+"."+v.Decl.Name] = declared{what: "the variant", form: form, owner: d.Name, event: event, at: d.At}
	}
}
