package schema

import (
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// An Override changes one place of the files that it names as they are read, so that schemas of others
// can be used as they are published. All that follows sees the changed schema: checks, Go types, what
// is published and validated, the fingerprint, and both sides of a comparison.
type Override struct {
	// Dir is the directory that File is relative to, File a glob pattern; ** stands for any directories.
	Dir, File string
	// At is a JSON Pointer from the top of the file.
	At string
	// Replace takes the place of what is there; nil leaves it.
	Replace *source.Node
	// Remove takes it away.
	Remove bool
	// GoName and GoType are set as x-go-name and x-go-type; nil for none.
	GoName, GoType *source.Node
	// Range is where the override is written.
	Range source.Range
}

// Does says in a few words what the override does.
func (o *Override) Does() string {
	var words []string
	switch {
	case o.Remove:
		words = append(words, "remove")
	case o.Replace != nil:
		words = append(words, "replace")
	}
	if o.GoName != nil {
		words = append(words, "x-go-name "+o.GoName.Text)
	}
	if o.GoType != nil {
		words = append(words, "x-go-type "+o.GoType.Text)
	}
	return strings.Join(words, ", ")
}

// Overrides are the overrides of one configuration. They remember where they had an effect, over all
// sets that are loaded with them; they are not for use by several goroutines at a time.
type Overrides struct {
	list []*use
	// known translates the path of a file to the one that the patterns are about; nil leaves it.
	known func(path string) string
}

// use is an override and what it met.
type use struct {
	Override
	files, places int
	// fault is what was wrong with the first place that was found.
	fault string
}

// NewOverrides returns the overrides in the order in which they act: each sees what those before it
// have made.
func NewOverrides(list ...Override) *Overrides {
	o := &Overrides{}
	for _, v := range list {
		o.list = append(o.list, &use{Override: v})
	}
	return o
}

// Elsewhere returns the overrides for another version of the files; known translates a path of that
// version to the one that the patterns are about.
func (o *Overrides) Elsewhere(known func(path string) string) *Overrides {
	if o == nil {
		return nil
	}
	moved := &Overrides{known: known}
	for _, u := range o.list {
		moved.list = append(moved.list, &use{Override: u.Override})
	}
	return moved
}

// Below returns the same overrides for files whose relative paths begin at dir.
func (o *Overrides) Below(dir string) *Overrides {
	if o == nil || dir == "" {
		return o
	}
	return &Overrides{list: o.list, known: func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}}
}

// Unused reports the overrides that had no effect: they name a place that is not there, most often
// because it has moved. Where only some of the files were read, those about other files are left out.
func (o *Overrides) Unused(some bool) []source.Diagnostic {
	if o == nil {
		return nil
	}
	var found []source.Diagnostic
	for _, u := range o.list {
		switch {
		case u.places > 0, some && u.files == 0:
		case u.files == 0:
			found = append(found, source.New("MCPE406", u.Range, "no file that is read matches the override: %q", u.File).
				WithHint("the pattern is relative to the directory of the configuration, and for a file that refs maps it is about the path"))
		case u.fault != "":
			found = append(found, source.New("MCPE406", u.Range, "%q cannot be overridden: %s", u.At, u.fault))
		default:
			found = append(found, source.New("MCPE406", u.Range, "there is nothing at %q in %s", u.At, u.File).
				WithHint("it is a JSON Pointer from the top of the file, as in /definitions/user/properties/id"))
		}
	}
	return found
}

// An Applied is an override that had an effect on a set.
type Applied struct {
	*Override
	// File is the path of the changed file.
	File string
}

// Apply changes the freshly read file at path; a nil o changes nothing.
func (o *Overrides) Apply(path string, root *source.Node) []Applied {
	if o == nil {
		return nil
	}
	name := path
	if o.known != nil {
		name = o.known(path)
	}
	var all []Applied
	for _, u := range o.list {
		if !rule.Covers(u.Dir, u.File, name) {
			continue
		}
		u.files++
		n := root.Lookup(u.At)
		if n == nil {
			continue
		}
		if fault := u.change(n); fault != "" {
			u.fault = fault
			continue
		}
		u.places++
		all = append(all, Applied{Override: &u.Override, File: path})
	}
	return all
}

// change makes the override at n; it returns why that is not possible.
func (o *Override) change(n *source.Node) string {
	if o.Remove {
		if n.Parent == nil {
			return "the whole file cannot be removed"
		}
		n.Detach()
		return ""
	}
	if o.Replace != nil {
		n.Become(o.Replace.Clone())
	}
	for _, m := range []struct {
		key   string
		value *source.Node
	}{{"x-go-name", o.GoName}, {"x-go-type", o.GoType}} {
		switch {
		case m.value == nil:
		case n.Kind != source.Object:
			return m.key + " needs an object, and there is " + n.Kind.String() + " there"
		default:
			n.Set(m.key, m.value.Range, m.value.Clone())
		}
	}
	return ""
}
