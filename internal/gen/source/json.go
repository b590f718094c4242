package source

import (
	"encoding/json"
	"unicode/utf16"
)

// parseJSON parses text that is valid JSON. The YAML parser is not suitable, because it rejects escaped surrogate pairs
// and long keys, and counts lines in strings differently.
func (p *parser) parseJSON() *Node {
	s := &jsonScanner{parser: p}
	s.skip()
	return s.value(0)
}

type jsonScanner struct {
	*parser
	i int
}

func (s *jsonScanner) skip() {
	for s.i < len(s.src) {
		switch s.src[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

func (s *jsonScanner) value(depth int) *Node {
	start := s.i
	n := &Node{}
	if (s.src[start] == '{' || s.src[start] == '[') && s.exceedsDepth(depth+1, start) {
		s.i = jsonEnd(s.src, start)
		n.Range = s.span(start, s.i)
		return n
	}
	switch s.src[start] {
	case '{':
		n.Kind = Object
		var ms memberList
		for s.i++; ; {
			s.skip()
			if s.src[s.i] == '}' {
				break
			}
			if s.src[s.i] == ',' {
				s.i++
				s.skip()
			}
			at := s.i
			key := s.string()
			m := Member{Key: key, KeyRange: s.span(at, s.i)}
			s.skip()
			s.i++ // skip the colon
			s.skip()
			m.Value = s.value(depth + 1)
			s.add(&ms, m)
		}
		s.i++
		n.Members = ms.list
	case '[':
		n.Kind = Array
		for s.i++; ; {
			s.skip()
			if s.src[s.i] == ']' {
				break
			}
			if s.src[s.i] == ',' {
				s.i++
				s.skip()
			}
			n.Items = append(n.Items, s.value(depth+1))
		}
		s.i++
	case '"':
		n.Kind, n.Text = String, s.string()
	case 't', 'f':
		n.Kind, n.Text = Bool, s.word()
	case 'n':
		s.word()
	default:
		n.Kind, n.Text = Number, s.word()
	}
	n.Range = s.span(start, s.i)
	if n.Kind == Number {
		if why := numberFault(n.Text); why != "" {
			s.report(New("MCPE105", n.Range, "%s", why).WithHint("quote it if it is a string, or leave it out"))
			n.Text = "0"
		}
	}
	return s.linkChildren(n)
}

func (s *jsonScanner) word() string {
	start := s.i
	for s.i < len(s.src) {
		switch s.src[s.i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return s.src[start:s.i]
		}
		s.i++
	}
	return s.src[start:]
}

func (s *jsonScanner) string() string {
	start, escaped := s.i, false
	for s.i++; s.src[s.i] != '"'; s.i++ {
		if s.src[s.i] == '\\' {
			escaped = true
			s.i++
		}
	}
	s.i++
	quoted := s.src[start:s.i]
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	s.checkSurrogates(start)
	var v string
	// The whole text was validated, so decoding cannot fail.
	_ = json.Unmarshal([]byte(quoted), &v)
	return v
}

// checkSurrogates reports escaped surrogates that are not in a pair. They do not encode a character, and encoding/json
// would silently replace them with U+FFFD.
func (s *jsonScanner) checkSurrogates(start int) {
	unit := func(i int) (rune, bool) {
		if i+6 > s.i || s.src[i] != '\\' || s.src[i+1] != 'u' {
			return 0, false
		}
		var r rune
		for _, c := range []byte(s.src[i+2 : i+6]) {
			switch {
			case c <= '9':
				c -= '0'
			default:
				c = c&^0x20 - 'A' + 10
			}
			r = r<<4 | rune(c)
		}
		return r, true
	}
	for i := start; i < s.i; i++ {
		if s.src[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		switch {
		case !ok:
			i++
		case utf16.IsSurrogate(r):
			if low, ok := unit(i + 6); ok && utf16.DecodeRune(r, low) != 0xFFFD {
				i += 11
				continue
			}
			s.report(New("MCPE102", s.span(i, i+6), "%s is half of a surrogate pair", s.src[i:i+6]))
			i += 5
		default:
			i += 5
		}
	}
}

// jsonEnd returns the offset after the array or object that starts at i.
func jsonEnd(src string, i int) int {
	depth := 0
	for ; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			for i++; src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
		}
	}
	return i
}
