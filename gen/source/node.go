package source

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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

// A Node is one JSON value together with the text it was written as.
type Node struct {
	Kind  Kind
	Range Range
	// Text is the value of a string, the exact text of a number, "true" or "false" of a boolean.
	Text string
	// Items are the elements of an array.
	Items []*Node
	// Members are the members of an object in the order they were written; keys are unique.
	Members []Member
	// Parent is the array or object that holds the node, nil at the root.
	Parent *Node

	// slot is the node's index among its parent's items or members.
	slot int
	// index finds the members of a large object; nil for others, and for objects that no file holds.
	// It is of the slice that began at indexed: callers may replace, shorten and extend Members.
	index   map[string]int
	indexed *Member
}

// manyMembers is from how many members on an object of a file has an index.
const manyMembers = 16

// A Member is one key of an object and its value.
type Member struct {
	Key      string
	KeyRange Range
	Value    *Node
}

// Get returns the value of the member named key, nil when n is no object or has no such member.
func (n *Node) Get(key string) *Node {
	if m := n.Member(key); m != nil {
		return m.Value
	}
	return nil
}

// Member returns the member named key, nil when n is no object or has no such member.
func (n *Node) Member(key string) *Member {
	if n == nil {
		return nil
	}
	if n.current() {
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

// current reports whether the index is of the members as they are.
func (n *Node) current() bool {
	if n.index == nil || len(n.index) != len(n.Members) || n.indexed != &n.Members[0] {
		return false
	}
	last, ok := n.index[n.Members[len(n.Members)-1].Key]
	return ok && last == len(n.Members)-1
}

// Index returns the place of n among the elements of its parent array; -1 if none holds it.
func (n *Node) Index() int {
	if p := n.Parent; p != nil && n.slot < len(p.Items) && p.Items[n.slot] == n {
		return n.slot
	}
	return -1
}

// Key returns the name under which n stands in its parent object, and the place of that name. It is
// empty, with n's own range, for elements of arrays and for the root.
func (n *Node) Key() (string, Range) {
	if n.Parent == nil || n.Parent.Kind != Object {
		return "", n.Range
	}
	m := &n.Parent.Members[n.slot]
	return m.Key, m.KeyRange
}

// Add appends a member that no file holds; at is where the reader is sent for it.
func (n *Node) Add(key string, at Range, value *Node) {
	value.Parent, value.slot = n, len(n.Members)
	n.Members = append(n.Members, Member{Key: key, KeyRange: at, Value: value})
}

// Move makes n and all within it stand at one place, for nodes that no file holds.
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

// Root returns the top of the tree that n belongs to.
func (n *Node) Root() *Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// JSON returns the node as compact JSON: members in the order they were written, numbers with the
// digits they were written with.
func (n *Node) JSON() json.RawMessage { return n.appendJSON(nil) }

func (n *Node) appendJSON(b []byte) []byte {
	switch n.Kind {
	case Null:
		return append(b, "null"...)
	case Bool, Number:
		return append(b, n.Text...)
	case String:
		return AppendString(b, n.Text)
	case Array:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, m := range n.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, m.Key)
		b = append(b, ':')
		b = m.Value.appendJSON(b)
	}
	return append(b, '}')
}

// AppendString appends s to b as a JSON string with no more escapes than JSON asks for.
func AppendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Only invalid UTF-8 is refused, and Parse lets none through.
		out, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

// Value returns the node as encoding/json would decode it with UseNumber.
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

// Pointer returns the JSON Pointer (RFC 6901) of n from the root of its file.
func (n *Node) Pointer() string { return n.PointerFrom(nil) }

// PointerFrom returns the JSON Pointer of n from its ancestor root; nil stands for the file's root.
func (n *Node) PointerFrom(root *Node) string {
	var tokens []string
	for at := n; at != root && at.Parent != nil; at = at.Parent {
		if at.Parent.Kind == Object {
			tokens = append(tokens, EscapeToken(at.Parent.Members[at.slot].Key))
		} else {
			tokens = append(tokens, strconv.Itoa(at.slot))
		}
	}
	var b strings.Builder
	for i := len(tokens) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(tokens[i])
	}
	return b.String()
}

// Lookup returns the node that the JSON Pointer names below n, nil when there is none.
func (n *Node) Lookup(pointer string) *Node {
	tokens, ok := SplitPointer(pointer)
	if !ok {
		return nil
	}
	at := n
	for _, t := range tokens {
		switch at.Kind {
		case Object:
			at = at.Get(t)
		case Array:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(at.Items) || strconv.Itoa(i) != t {
				return nil
			}
			at = at.Items[i]
		default:
			return nil
		}
		if at == nil {
			return nil
		}
	}
	return at
}

// EscapeToken escapes one reference token of a JSON Pointer.
func EscapeToken(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// SplitPointer returns the unescaped reference tokens of a JSON Pointer; false when it is none.
func SplitPointer(pointer string) ([]string, bool) {
	if pointer == "" {
		return nil, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		for j := 0; j < len(t); j++ {
			if t[j] == '~' && (j+1 == len(t) || t[j+1] != '0' && t[j+1] != '1') {
				return nil, false
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, true
}
