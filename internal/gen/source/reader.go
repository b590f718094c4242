package source

import (
	"slices"
	"strings"
)

// A Reader extracts values from a strict format and reports unexpected content.
type Reader struct {
	Found []Diagnostic
}

// Report adds findings.
func (r *Reader) Report(ds ...Diagnostic) { r.Found = append(r.Found, ds...) }

// Is reports whether n has the given kind, and adds a finding if it does not. what names the node in the finding, for
// example "delivery".
func (r *Reader) Is(n *Node, k Kind, what string) bool {
	if n.Kind == k {
		return true
	}
	r.Report(mismatch(n, k, what))
	return false
}

// mismatch returns the finding for a node that does not have the expected kind.
func mismatch(n *Node, k Kind, what string) Diagnostic {
	d := New("MCPE121", n.Range, "%s must be %s, not %s", what, withArticle(k), withArticle(n.Kind))
	switch {
	case k == String && (n.Kind == Number || n.Kind == Bool):
		d = d.WithHint("quote it: %q", n.Text)
	case k == Array && n.Kind == Object:
		d = d.WithHint("write a list, whose elements begin with a dash: - name: …")
	case k == Array && n.Kind == String:
		d = d.WithHint("write [%s]", n.Text)
	case k == Bool && n.Kind == String && slices.Contains([]string{"yes", "on", "y"}, strings.ToLower(n.Text)):
		d = d.WithHint("write true")
	case k == Bool && n.Kind == String && slices.Contains([]string{"no", "off", "n"}, strings.ToLower(n.Text)):
		d = d.WithHint("write false")
	}
	return d
}

func withArticle(k Kind) string {
	switch k {
	case Array, Object:
		return "an " + k.String()
	}
	return article(k)
}

// An ObjectReader reads the members of one object.
type ObjectReader struct {
	*Reader
	Node *Node
	// What names the object in findings, for example "the event".
	What string
}

// Object starts reading n as an object with required and optional keys. It reports missing and unknown keys, and
// returns nil if n is not an object.
func (r *Reader) Object(n *Node, what string, required, optional []string) *ObjectReader {
	if n.Kind != Object {
		r.Report(mismatch(n, Object, what).WithHint("%s", form(n, required, optional)))
		return nil
	}
	for _, m := range n.Members {
		if slices.Contains(required, m.Key) || slices.Contains(optional, m.Key) {
			continue
		}
		d := New("MCPE120", m.KeyRange, "%s has no key %q", what, m.Key)
		if s := Suggest(m.Key, slices.Concat(required, optional)); s != "" {
			d = d.WithHint("did you mean %q?", s)
		} else {
			d = d.WithHint("its keys are %s", strings.Join(slices.Concat(required, optional), ", "))
		}
		r.Report(d)
	}
	for _, key := range required {
		if n.Get(key) == nil {
			at := n.Range
			if len(n.Members) > 0 {
				at = Range{Start: at.Start, End: at.Start}
			}
			d := New("MCPE122", at, "%s needs %q", what, key)
			if key == "version" {
				d = d.WithHint("write version: 1") // the version of each format
			}
			r.Report(d)
		}
	}
	return &ObjectReader{Reader: r, Node: n, What: what}
}

// maxForm limits the number of keys in a hint.
const maxForm = 5

// form suggests an object to write instead of n. If n is a string and the object has only one required member, n
// becomes that member. If the object has few keys, form lists them. Otherwise, it returns "".
func form(n *Node, required, optional []string) string {
	if n.Kind == String && len(required) == 1 {
		return "write {" + required[0] + ": " + n.Text + "}"
	}
	if keys := slices.Concat(required, optional); len(required) > 0 || len(keys) == 0 {
		if len(keys) > maxForm {
			return ""
		}
		return "its keys are " + strings.Join(keys, ", ")
	}
	return "write {" + strings.Join(optional, ": …, ") + ": …}, or {} without any of them"
}

// Text returns the value of a string member and its node. The node is nil if the member is absent or not a string.
func (o *ObjectReader) Text(key string) (string, *Node) {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, String, key) {
		return "", nil
	}
	return n.Text, n
}

// Flag returns the value of a boolean member, or absent if the object does not contain it.
func (o *ObjectReader) Flag(key string, absent bool) bool {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, Bool, key) {
		return absent
	}
	return n.True()
}

// Choice returns the value of a string member, which must be one of the words. If the member is absent, it returns the
// first word.
func (o *ObjectReader) Choice(key string, words ...string) string {
	s, n := o.Text(key)
	if n == nil || !o.Among(n, key, words) {
		return words[0]
	}
	return s
}

// Among reports whether the string n is one of the words, and adds a finding if it is not.
func (r *Reader) Among(n *Node, what string, words []string) bool {
	if slices.Contains(words, n.Text) {
		return true
	}
	d := New("MCPE123", n.Range, "%s cannot be %q", what, n.Text)
	if s := Suggest(n.Text, words); s != "" {
		d = d.WithHint("did you mean %q?", s)
	} else {
		d = d.WithHint("it is one of %s", strings.Join(words, ", "))
	}
	r.Report(d)
	return false
}

// List returns the elements of an array member.
func (o *ObjectReader) List(key string) []*Node {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, Array, key) {
		return nil
	}
	return n.Items
}

// Texts returns the strings of an array member. It reports and skips repeated strings and other values.
func (o *ObjectReader) Texts(key string) []*Node {
	var list []*Node
	for _, n := range o.List(key) {
		if !o.Is(n, String, "an element of "+key) {
			continue
		}
		if i := slices.IndexFunc(list, func(m *Node) bool { return m.Text == n.Text }); i >= 0 {
			o.Report(New("MCPE123", n.Range, "%s holds %q twice", key, n.Text).WithRelated(list[i].Range, "first here"))
			continue
		}
		list = append(list, n)
	}
	return list
}
