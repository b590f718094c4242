package schema

import (
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// An Override changes one value in files as they are read, so that third-party schemas can be used unmodified. The
// change affects all later steps, including checks, Go types, publication, validation, fingerprints, and both sides of
// a comparison.
type Override struct {
	// File is a glob pattern relative to Dir. The element ** matches any number of directories.
	Dir, File string
	// At is a JSON Pointer from the root of the file.
	At string
	// Replace is the new value. If it is nil, the old value is kept.
	Replace *source.Node
	// Remove removes the value.
	Remove bool
	// GoName and GoType are added as x-go-name and x-go-type unless nil.
	GoName, GoType *source.Node
	// Range is the range of the override in the configuration.
	Range source.Range
}

// Does returns a short description of the override.
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

// Overrides contains the overrides of one configuration. It records which overrides had an effect in any set. It is not
// safe for concurrent use.
type Overrides struct {
	list []*use
	// known translates the path of a file to the path for matching patterns. Nil means no translation.
	known func(path string) string
}

// use is an override with the number of its effects.
type use struct {
	Override
	files, places int
	// fault describes why a value could not be changed.
	fault string
}

// NewOverrides returns overrides that are applied in the given order. Each override is applied to the result of the
// previous ones.
func NewOverrides(list ...Override) *Overrides {
	o := &Overrides{}
	for _, v := range list {
		o.list = append(o.list, &use{Override: v})
	}
	return o
}

// Elsewhere returns the overrides for another version of the files. known translates a path in that version to the path
// for matching patterns.
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

// Below returns the same overrides for files with paths relative to dir.
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

// Unused returns findings about overrides that had no effect, usually because the value has moved. If some is true,
// only some of the files were read, and Unused ignores overrides for other files.
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

// An Applied is an override that changed a file.
type Applied struct {
	*Override
	// File is the path of the changed file.
	File string
}

// Apply changes the newly read file at path. A nil o changes nothing.
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

// change applies the override to n. If the override cannot be applied, it returns the reason.
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
