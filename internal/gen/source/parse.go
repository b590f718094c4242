package source

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Limits that hand-written files do not reach. They keep the work for a malicious file proportional to its size.
const (
	maxDepth      = 200     // nested arrays and objects
	maxAliasNodes = 10_000  // total nodes copied for aliases
	maxNumber     = 400     // characters and decimal exponent of a number
	maxFindings   = 1_000   // diagnostics of one file
	maxSize       = 1 << 26 // bytes of one file
)

// tooDeepMessage is the message for a file that exceeds maxDepth.
const tooDeepMessage = "nested more than %d levels deep"

// Parse parses a YAML or JSON document into nodes. It uses path only for positions, and skips a leading byte order
// mark. JSON strings must not contain U+0000 to U+001F (RFC 8259, section 7). YAML must contain only printable
// characters, and U+FEFF only within quotes.
//
// Scalars have the types of the JSON schema of YAML 1.2. Dates, yes and no are therefore strings. A number that is not
// valid in JSON is an error. Parse replaces aliases with copies of their targets. If the syntax is invalid, the
// returned node is nil. After other errors, Parse omits the affected value or replaces it with null.
func Parse(path string, data []byte) (*Node, []Diagnostic) { return parse(path, data, false) }

// ParseForeign is like [Parse], but for third-party documents. It accepts keys that are not strings, such as 200 in an
// OpenAPI response, and converts them to strings.
func ParseForeign(path string, data []byte) (*Node, []Diagnostic) { return parse(path, data, true) }

func parse(path string, data []byte, foreign bool) (*Node, []Diagnostic) {
	p := &parser{allowAnyKeys: foreign}
	if len(data) > maxSize {
		return nil, []Diagnostic{New("MCPE111", InFile(path), "the file has %d bytes, at most %d are allowed", len(data), maxSize)}
	}
	src := strings.TrimPrefix(string(data), "\uFEFF")
	p.text = newText(path, src)
	valid := json.Valid([]byte(src))
	refused := isForbiddenInYAML
	if valid || p.namedJSON() {
		refused = isForbiddenInJSON
	}
	if !p.isReadable(refused) {
		return nil, p.found
	}
	var root *Node
	if valid {
		root = p.parseJSON()
	} else if !p.jsonError() {
		root = p.parseYAML()
	}
	if p.isIncomplete {
		root = nil
	}
	return root, Sort(p.found)
}

// parser builds the nodes of one file.
type parser struct {
	*text
	found []Diagnostic
	// allowAnyKeys causes keys that are not strings to be converted instead of rejected.
	allowAnyKeys bool
	// copied is the number of nodes created for aliases. depthReported reports whether a diagnostic about excessive
	// depth exists.
	copied        int
	depthReported bool
	// isIncomplete reports whether a part of the document was not parsed. Further diagnostics would then be misleading.
	isIncomplete bool
}

func (p *parser) report(d Diagnostic) {
	if len(p.found) < maxFindings {
		p.found = append(p.found, d)
	}
}

// byteOrderMark is U+FEFF. YAML allows it only at the start of a document and within quoted scalars.
const byteOrderMark = '\uFEFF'

// isForbiddenInJSON reports whether JSON text must not contain the character, even within strings.
func isForbiddenInJSON(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// isForbiddenInYAML reports whether YAML text must not contain the character, even within strings.
func isForbiddenInYAML(r rune) bool {
	return isForbiddenInJSON(r) || r >= 0x7F && r < 0xA0 && r != 0x85 || r == 0xFFFE || r == 0xFFFF
}

// isReadable reports whether the text is valid UTF-8 without refused characters. It adds a diagnostic if it is not.
func (p *parser) isReadable(refused func(rune) bool) bool {
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
		case refused(r):
			p.report(p.forbiddenCharacter(i, r))
			return false
		}
		i += n
	}
	return true
}

// forbiddenCharacter returns the diagnostic for a forbidden character r at an offset.
func (p *parser) forbiddenCharacter(offset int, r rune) Diagnostic {
	return New("MCPE102", p.span(offset, offset+utf8.RuneLen(r)), "control character U+%04X is not allowed", r).
		WithHint("in a string, write it as an escape: \"\\u%04X\"", r)
}

// linkChildren sets the parent and slot of the children of n. It also creates the index of a large object.
func (p *parser) linkChildren(n *Node) *Node {
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

// memberList collects the members of an object.
type memberList struct {
	list []Member
	seen map[string]int
}

func (p *parser) add(ms *memberList, m Member) {
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

// exceedsDepth reports whether a depth exceeds maxDepth. It adds only one diagnostic for each file.
func (p *parser) exceedsDepth(depth, offset int) bool {
	if depth <= maxDepth {
		return false
	}
	if !p.depthReported {
		p.depthReported, p.isIncomplete = true, true
		p.report(New("MCPE111", p.span(offset, offset+1), tooDeepMessage, maxDepth))
	}
	return true
}
