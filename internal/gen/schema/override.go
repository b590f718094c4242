package schema

import (
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// An Override changes a value when a file is read, so third-party schema files can remain unmodified. The change
// affects all later steps, including checks, Go types, publication, validation, fingerprints, and both versions in a
// comparison.
type Override struct {
	// File is a glob pattern relative to Dir. The element ** matches any number of directories.
	Dir, File string
	// At is a JSON Pointer from the root of the file.
	At string
	// Replace is the new value, or nil to keep the old value.
	Replace *source.Node
	// Remove removes the value.
	Remove bool
	// GoName and GoType, if not nil, are added as x-go-name and x-go-type.
	GoName, GoType *source.Node
	// Range is the location of the override in the configuration.
	Range source.Range
}

// Does returns a short description of the changes, such as "remove".
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

// Overrides contains the overrides of a configuration. It records which of them changed a value in any set. It is not
// safe for concurrent use.
type Overrides struct {
	list []*countedOverride
	// matchPath translates the path of a file to the path that must match the pattern. Nil means no translation.
	matchPath func(path string) string
}

// A countedOverride is an override with the number of matching files and changed places.
type countedOverride struct {
	Override
	files, places int
	// fault is the reason why a value could not be changed.
	fault string
}

// NewOverrides returns overrides that are applied in the given order. Each override is applied to the result of the
// previous ones.
func NewOverrides(list ...Override) *Overrides {
	o := &Overrides{}
	for _, v := range list {
		o.list = append(o.list, &countedOverride{Override: v})
	}
	return o
}

// Elsewhere returns the overrides for another version of the files. known translates a path in that version to the path
// that must match the pattern.
func (o *Overrides) Elsewhere(known func(path string) string) *Overrides {
	if o == nil {
		return nil
	}
	moved := &Overrides{matchPath: known}
	for _, u := range o.list {
		moved.list = append(moved.list, &countedOverride{Override: u.Override})
	}
	return moved
}

// Below returns the same overrides for files with paths relative to dir.
func (o *Overrides) Below(dir string) *Overrides {
	if o == nil || dir == "" {
		return o
	}
	return &Overrides{list: o.list, matchPath: func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}}
}

// Unused returns a diagnostic for each override that had no effect, usually because the value has moved. If some is
// true, not all files were read, and Unused ignores overrides that do not match a read file.
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

// An Applied is an override that changed a value in a file.
type Applied struct {
	*Override
	// File is the path of the changed file.
	File string
}

// Apply applies the overrides to the newly read file at path. It returns the overrides that changed a value. A nil o
// changes nothing.
func (o *Overrides) Apply(path string, root *source.Node) []Applied {
	if o == nil {
		return nil
	}
	name := path
	if o.matchPath != nil {
		name = o.matchPath(path)
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
		if fault := u.applyTo(n); fault != "" {
			u.fault = fault
			continue
		}
		u.places++
		all = append(all, Applied{Override: &u.Override, File: path})
	}
	return all
}

// applyTo applies the override to n. It returns the reason if it fails, or "".
func (o *Override) applyTo(n *source.Node) string {
	if o.Remove {
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
