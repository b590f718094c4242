package source

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Kind is the JSON type of a [Node].
type Kind int

// The kinds of JSON.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// String returns the name that JSON Schema uses for the kind.
func (k Kind) String() string { return kindNames[k] }

// WithArticle returns the name of a type with its article, such as "an object".
func WithArticle(t string) string {
	switch t {
	case "null":
		return t
	case "array", "object", "integer":
		return "an " + t
	}
	return "a " + t
}

// A Node is a JSON value with its position in the source.
type Node struct {
	Kind  Kind
	Range Range
	// Text is the value of a string, the exact text of a number, or "true" or "false" for a boolean.
	Text string
	// Items lists the elements of an array.
	Items []*Node
	// Members lists the members of an object in source order. Keys are unique.
	Members []Member
	// Parent is the array or object that contains the node, or nil for a root.
	Parent *Node

	// slot is the index of the node in the Items or Members of its parent.
	slot int
	// index maps the keys of a large object to indexes of Members. It is nil for small objects and for objects that
	// were not parsed. indexed points to the first member at the time of indexing. isIndexValid uses it to detect
	// changes to Members.
	index   map[string]int
	indexed *Member
}

// manyMembers is the minimum number of members for which an object has an index.
const manyMembers = 16

// A Member is a key of an object with its value.
type Member struct {
	Key      string
	KeyRange Range
	Value    *Node
}

// Get returns the value of the member with the given key. It returns nil if n is not an object or does not contain the
// member.
func (n *Node) Get(key string) *Node {
	if m := n.Member(key); m != nil {
		return m.Value
	}
	return nil
}

// Word returns the value of a string member, or "" if it is absent or not a string.
func (n *Node) Word(key string) string {
	if v := n.Get(key); v != nil && v.Kind == String {
		return v.Text
	}
	return ""
}

// Flag returns the value of a boolean member. For any other node, it returns the parameter absent.
func (n *Node) Flag(key string, absent bool) bool {
	if v := n.Get(key); v != nil && v.Kind == Bool {
		return v.True()
	}
	return absent
}

// Integer returns the value of a number member, an integer. For any other node, it returns the parameter absent.
func (n *Node) Integer(key string, absent int) int {
	if v := n.Get(key); v != nil && v.Kind == Number {
		f, _ := strconv.ParseFloat(v.Text, 64)
		return int(f)
	}
	return absent
}

// ItemsOf returns the elements of an array member that have the given kind.
func (n *Node) ItemsOf(key string, k Kind) []*Node {
	return slices.DeleteFunc(slices.Clone(n.ItemsAt(key)), func(item *Node) bool { return item.Kind != k })
}

// Strings returns a string member, or the strings in an array member.
func (n *Node) Strings(key string) []*Node {
	if v := n.Get(key); v != nil && v.Kind == String {
		return []*Node{v}
	}
	return n.ItemsOf(key, String)
}

// Texts returns the text of a string member, or the strings in an array member.
func (n *Node) Texts(key string) []string {
	var texts []string
	for _, item := range n.Strings(key) {
		texts = append(texts, item.Text)
	}
	return texts
}

// Words returns the members of an object member whose values are strings.
func (n *Node) Words(key string) []Member {
	return slices.DeleteFunc(slices.Clone(n.MembersAt(key)), func(m Member) bool { return m.Value.Kind != String })
}

// MembersAt returns the members of the object at the given key. It returns nil if n has no such member.
func (n *Node) MembersAt(key string) []Member {
	if v := n.Get(key); v != nil {
		return v.Members
	}
	return nil
}

// ItemsAt returns the elements of the array at the given key. It returns nil if n has no such member.
func (n *Node) ItemsAt(key string) []*Node {
	if v := n.Get(key); v != nil {
		return v.Items
	}
	return nil
}

// Member returns the member with the given key. It returns nil if n is not an object or does not contain the member.
func (n *Node) Member(key string) *Member {
	if n == nil {
		return nil
	}
	if n.isIndexValid() {
		if i, ok := n.index[key]; !ok {
			return nil
		} else if n.Members[i].Key == key {
			return &n.Members[i]
		}
	}
	for i := range n.Members {
		if n.Members[i].Key == key {
			return &n.Members[i]
		}
	}
	return nil
}

// isIndexValid reports whether the index is consistent with Members.
func (n *Node) isIndexValid() bool {
	if n.index == nil || len(n.index) != len(n.Members) || n.indexed != &n.Members[0] {
		return false
	}
	last, ok := n.index[n.Members[len(n.Members)-1].Key]
	return ok && last == len(n.Members)-1
}

// Index returns the index of n in its parent array, or -1 if its parent is not an array.
func (n *Node) Index() int {
	if p := n.Parent; p != nil && n.slot < len(p.Items) && p.Items[n.slot] == n {
		return n.slot
	}
	return -1
}

// Key returns the name of n in its parent object and the range of that name. If the parent is not an object, it returns
// an empty name and the range of n.
func (n *Node) Key() (string, Range) {
	if n.Parent == nil || n.Parent.Kind != Object {
		return "", n.Range
	}
	m := &n.Parent.Members[n.slot]
	return m.Key, m.KeyRange
}

// Add appends a member to the object n. at is the range of the key for diagnostics.
func (n *Node) Add(key string, at Range, value *Node) {
	value.Parent, value.slot = n, len(n.Members)
	n.Members = append(n.Members, Member{Key: key, KeyRange: at, Value: value})
}

// Move sets the range of n and all its descendants. It is intended for nodes that were not parsed from a file.
func (n *Node) Move(at Range) {
	n.Range = at
	for _, item := range n.Items {
		item.Move(at)
	}
	for i := range n.Members {
		n.Members[i].KeyRange = at
		n.Members[i].Value.Move(at)
	}
}

// True reports whether n is the boolean true.
func (n *Node) True() bool { return n != nil && n.Kind == Bool && n.Text == "true" }

// Root returns the root of the tree that contains n.
func (n *Node) Root() *Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// JSON returns the node as compact JSON. It keeps the order of members and the digits of numbers.
func (n *Node) JSON() json.RawMessage { return n.appendJSON(nil) }

func (n *Node) appendJSON(b []byte) []byte {
	switch n.Kind {
	case Null:
		return append(b, "null"...)
	case Bool, Number:
		return append(b, n.Text...)
	case String:
		return schematree.AppendString(b, n.Text)
	}
	return n.AppendParts(b, func(b []byte, part *Node) []byte { return part.appendJSON(b) })
}

// AppendParts appends an array or object as compact JSON. It calls appendPart for each item or value of a member.
func (n *Node) AppendParts(b []byte, appendPart func(b []byte, part *Node) []byte) []byte {
	if n.Kind == Array {
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPart(b, item)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, m := range n.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = schematree.AppendString(b, m.Key)
		b = append(b, ':')
		b = appendPart(b, m.Value)
	}
	return append(b, '}')
}

// Value returns the value as encoding/json with UseNumber would decode it.
func (n *Node) Value() any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Number:
		return json.Number(n.Text)
	case String:
		return n.Text
	case Array:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = item.Value()
		}
		return items
	case Object:
		members := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			members[m.Key] = m.Value.Value()
		}
		return members
	}
	return nil
}

// Pointer returns the JSON Pointer (RFC 6901) from the root of the tree to n.
func (n *Node) Pointer() string { return n.PointerFrom(nil) }

// PointerFrom returns the JSON Pointer of n relative to its ancestor root. A nil root means the root of the file.
func (n *Node) PointerFrom(root *Node) string {
	var tokens []string
	for at := n; at != root && at.Parent != nil; at = at.Parent {
		if at.Parent.Kind == Object {
			tokens = append(tokens, at.Parent.Members[at.slot].Key)
		} else {
			tokens = append(tokens, strconv.Itoa(at.slot))
		}
	}
	slices.Reverse(tokens)
	return wire.Pointer(tokens...)
}

// Lookup returns the node at a JSON Pointer relative to n, or nil.
func (n *Node) Lookup(pointer string) *Node {
	if at, ok := schematree.At(n, pointer); ok {
		return at
	}
	return nil
}

// Find is like [Node.Get]. It and the following methods implement an interface of package schematree.
func (n *Node) Find(key string) (*Node, bool) {
	v := n.Get(key)
	return v, v != nil
}

// Elements returns the elements of an array. It returns false if n is not an array.
func (n *Node) Elements() ([]*Node, bool) { return n.Items, n.Kind == Array }

// All yields the members in source order.
func (n *Node) All() iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) {
		for i := range n.Members {
			if !yield(n.Members[i].Key, n.Members[i].Value) {
				return
			}
		}
	}
}

// Identity returns n.
func (n *Node) Identity() any { return n }
