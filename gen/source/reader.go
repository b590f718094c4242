package source

import (
	"slices"
	"strings"
)

// A Reader takes the values out of a strict format: what it does not expect it reports.
type Reader struct {
	Found []Diagnostic
}

// Report adds findings.
func (r *Reader) Report(ds ...Diagnostic) { r.Found = append(r.Found, ds...) }

// Is reports whether n has the kind; if not, it adds a finding about what, for example "delivery".
func (r *Reader) Is(n *Node, k Kind, what string) bool {
	if n.Kind == k {
		return true
	}
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
	r.Report(d)
	return false
}

func withArticle(k Kind) string {
	switch k {
	case Array, Object:
		return "an " + k.String()
	}
	return article(k)
}

// An ObjectReader takes the members out of one object.
type ObjectReader struct {
	*Reader
	Node *Node
	// What names the object in findings, for example "the event".
	What string
}

// Object begins reading n as an object with the required and the optional keys, and reports what is
// missing and what is unknown. It returns nil when n is no object.
func (r *Reader) Object(n *Node, what string, required, optional []string) *ObjectReader {
	if !r.Is(n, Object, what) {
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
				d = d.WithHint("write version: 1") // the one that each format has
			}
			r.Report(d)
		}
	}
	return &ObjectReader{Reader: r, Node: n, What: what}
}

// Text returns the string of a member, and its node; nil when it is absent or no string.
func (o *ObjectReader) Text(key string) (string, *Node) {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, String, key) {
		return "", nil
	}
	return n.Text, n
}

// Flag returns the boolean of a member, absent when it is not there.
func (o *ObjectReader) Flag(key string, absent bool) bool {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, Bool, key) {
		return absent
	}
	return n.True()
}

// Choice returns the string of a member, which must be one of the words; the first stands for
// absence.
func (o *ObjectReader) Choice(key string, words ...string) string {
	s, n := o.Text(key)
	if n == nil || !o.Among(n, key, words) {
		return words[0]
	}
	return s
}

// Among reports whether the string n is one of the words; if not, it adds a finding.
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

// Texts returns the strings of an array member without those that are no strings or are repeated,
// both of which it reports.
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
