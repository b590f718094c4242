package ir

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// kinds is a set of JSON types; integers are told apart from other numbers.
type kinds uint8

const (
	kNull kinds = 1 << iota
	kBool
	kInteger
	kFraction
	kString
	kArray
	kObject

	kNumber = kInteger | kFraction
	anyKind = kNull | kBool | kNumber | kString | kArray | kObject
	scalars = kBool | kNumber | kString
)

var kindWords = []struct {
	word string
	bits kinds
}{
	{"null", kNull}, {"boolean", kBool}, {"number", kNumber}, {"integer", kInteger},
	{"string", kString}, {"array", kArray}, {"object", kObject},
}

func kindNamed(name string) kinds {
	for _, k := range kindWords {
		if k.word == name {
			return k.bits
		}
	}
	return 0
}

// kindOf is the JSON type of one value.
func kindOf(v *source.Node) kinds {
	if v.Kind == source.Number && isInteger(v.Text) {
		return kInteger
	}
	return kindNamed(v.Kind.String())
}

// written is what the keyword type of one schema object allows, and nullable as OpenAPI has it.
func written(n *source.Node) kinds {
	t := n.Get("type")
	if t == nil {
		return anyKind
	}
	k := kindNamed(t.Text)
	for _, item := range t.Items {
		k |= kindNamed(item.Text)
	}
	if n.Get("nullable").True() {
		k |= kNull
	}
	return k
}

// String lists the types for messages.
func (k kinds) String() string {
	var words []string
	for _, w := range kindWords {
		if k&w.bits == w.bits && (w.bits != kInteger || k&kNumber == kInteger) {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " or ")
}

// allowed returns the JSON types that n lets through, as far as its keywords tell by themselves.
func (b *builder) allowed(n *source.Node) kinds {
	if n.Kind != source.Object {
		if n.True() {
			return anyKind
		}
		return 0
	}
	if k, ok := b.kinds[n]; ok {
		return k
	}
	b.kinds[n] = anyKind // a cycle learns nothing here
	f := b.gather(n)
	k := f.kinds
	for _, u := range f.unions {
		var any kinds
		for _, v := range u.variants {
			any |= b.allowed(v)
		}
		k &= any
	}
	if f.never != nil {
		k = 0
	}
	b.kinds[n] = k
	return k
}
