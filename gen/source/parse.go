package source

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bounds that no event file written by a person comes near to. They keep work on a hostile file
// proportional to its size.
const (
	maxDepth      = 200     // nested arrays and objects
	maxAliasNodes = 10_000  // nodes that aliases stand for, together
	maxNumber     = 400     // characters and decimal exponent of a number
	maxFindings   = 1_000   // diagnostics of one file
	maxSize       = 1 << 26 // bytes of one file
)

// Parse reads a YAML document (every JSON text is one) into nodes. Path only labels positions.
//
// Scalars have the types of the JSON schema of YAML 1.2: dates, yes and no are strings, and a number
// that JSON cannot write is an error. Aliases are replaced by copies of what they stand for. Where
// the document as a whole cannot be read the node is nil; other findings leave out or replace by
// null only what they are about.
func Parse(path string, data []byte) (*Node, []Diagnostic) {
	p := &parser{}
	if len(data) > maxSize {
		return nil, []Diagnostic{New("MCPE111", InFile(path), "the file has %d bytes, at most %d are allowed", len(data), maxSize)}
	}
	src := strings.TrimPrefix(string(data), "\uFEFF")
	p.text = newText(path, src)
	if !p.readable() {
		return nil, p.found
	}
	var root *Node
	if json.Valid([]byte(src)) {
		root = p.json()
	} else if !p.jsonError() {
		root = p.yaml()
	}
	if p.lost {
		root = nil
	}
	return root, Sort(p.found)
}

// parser builds the nodes of one file.
type parser struct {
	*text
	found []Diagnostic
	// copied counts the nodes made for aliases; deep is set once the nesting was found too deep.
	copied int
	deep   bool
	// lost tells that part of the document is missing, so that checking the rest would mislead.
	lost bool
}

func (p *parser) report(d Diagnostic) {
	if len(p.found) < maxFindings {
		p.found = append(p.found, d)
	}
}

// readable reports whether the text is UTF-8 without control characters.
func (p *parser) readable() bool {
	for i := 0; i < len(p.src); {
		r, n := rune(p.src[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(p.src[i:])
		}
		switch {
		case r == utf8.RuneError && n == 1:
			p.report(New("MCPE102", p.span(i, i), "byte 0x%02X is not UTF-8", p.src[i]).
				WithHint("save the file as UTF-8"))
			return false
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7F, r >= 0x80 && r < 0xA0 && r != 0x85, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
			p.report(New("MCPE102", p.span(i, i+n), "control character U+%04X is not allowed", r).
				WithHint("in a string, write it as an escape: \"\\u%04X\"", r))
			return false
		}
		i += n
	}
	return true
}

// finish gives children their parent and large objects their index.
func (p *parser) finish(n *Node) *Node {
	for i, item := range n.Items {
		item.Parent, item.slot = n, i
	}
	for i, m := range n.Members {
		m.Value.Parent, m.Value.slot = n, i
	}
	if len(n.Members) >= manyMembers {
		n.index, n.indexed = make(map[string]int, len(n.Members)), &n.Members[0]
		for i, m := range n.Members {
			n.index[m.Key] = i
		}
	}
	return n
}

// members collects the members of one object.
type members struct {
	list []Member
	seen map[string]int
}

func (p *parser) add(ms *members, m Member) {
	if len(ms.list) >= 8 && ms.seen == nil {
		ms.seen = make(map[string]int)
		for i, old := range ms.list {
			ms.seen[old.Key] = i
		}
	}
	first := -1
	if ms.seen != nil {
		if i, ok := ms.seen[m.Key]; ok {
			first = i
		}
	} else {
		for i, old := range ms.list {
			if old.Key == m.Key {
				first = i
			}
		}
	}
	if first >= 0 {
		p.report(New("MCPE103", m.KeyRange, "key %q is given twice", m.Key).
			WithRelated(ms.list[first].KeyRange, "first given here"))
		return
	}
	if ms.seen != nil {
		ms.seen[m.Key] = len(ms.list)
	}
	ms.list = append(ms.list, m)
}

// tooDeep reports, once, that nesting passes the bound.
func (p *parser) tooDeep(depth, offset int) bool {
	if depth <= maxDepth {
		return false
	}
	if !p.deep {
		p.deep, p.lost = true, true
		p.report(New("MCPE111", p.span(offset, offset+1), "nested more than %d levels deep", maxDepth))
	}
	return true
}
