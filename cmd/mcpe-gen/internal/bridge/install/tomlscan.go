package install

import (
	"strings"
)

// An item is a table header or a key-value pair.
type item struct {
	header, list bool     // list marks a header in double brackets
	table        []string // the table of a pair
	path         []string
	at           int // its offset
	// start and end delimit the value of a pair. end is also the end of a header.
	start, end int
}

// tomlItems returns the table headers and key-value pairs of the file. It scans values only to find where they end.
func (f *file) tomlItems() (items []item, err error) {
	s := &scanner{f: f, text: string(f.text)}
	var table []string
	for {
		s.skipSpace()
		if s.i == len(s.text) {
			return items, nil
		}
		k := item{at: s.i, table: table}
		if s.peek("[") {
			if k.path, k.list, err = s.tableHeader(); err != nil {
				return nil, err
			}
			k.header, k.end, table = true, s.i, k.path
		} else {
			if k.path, err = s.key(); err != nil {
				return nil, err
			}
			s.skipBlank()
			if !s.take("=") {
				return nil, s.bad("= is missing after a key")
			}
			s.skipBlank()
			k.start = s.i
			if err := s.value(0); err != nil {
				return nil, err
			}
			k.end = s.i
		}
		items = append(items, k)
		s.skipBlank()
		s.comment()
		if s.i < len(s.text) && !s.take("\n") && !s.take("\r\n") {
			return nil, s.bad("the line does not end here")
		}
	}
}

type scanner struct {
	f    *file
	text string
	i    int
}

func (s *scanner) bad(what string) error {
	return s.f.errorAt(s.i, "this is not TOML: %s; nothing was written", what)
}

func (s *scanner) peek(p string) bool { return strings.HasPrefix(s.text[s.i:], p) }

func (s *scanner) take(p string) bool {
	if !s.peek(p) {
		return false
	}
	s.i += len(p)
	return true
}

// skipBlank skips white space within the line.
func (s *scanner) skipBlank() {
	for s.i < len(s.text) && (s.text[s.i] == ' ' || s.text[s.i] == '\t') {
		s.i++
	}
}

func (s *scanner) comment() {
	if !s.peek("#") {
		return
	}
	end := strings.IndexByte(s.text[s.i:], '\n')
	if end < 0 {
		s.i = len(s.text)
		return
	}
	s.i += end
	if s.text[s.i-1] == '\r' {
		s.i--
	}
}

// skipSpace skips white space, line endings and comments.
func (s *scanner) skipSpace() {
	for {
		before := s.i
		s.skipBlank()
		s.comment()
		_ = s.take("\r\n") || s.take("\n")
		if s.i == before {
			return
		}
	}
}

func (s *scanner) tableHeader() (path []string, list bool, err error) {
	s.take("[")
	list = s.take("[")
	s.skipBlank()
	if path, err = s.key(); err != nil {
		return nil, false, err
	}
	s.skipBlank()
	if !s.take("]") || list && !s.take("]") {
		return nil, false, s.bad("] is missing after the name of a table")
	}
	return path, list, nil
}

const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// key reads a dotted key.
func (s *scanner) key() (path []string, err error) {
	for {
		begin := s.i
		switch {
		case s.peek(`"`), s.peek("'"):
			if err := s.quoted(); err != nil {
				return nil, err
			}
			path = append(path, s.text[begin+1:s.i-1])
		default:
			for s.i < len(s.text) && strings.IndexByte(bare, s.text[s.i]) >= 0 {
				s.i++
			}
			if s.i == begin {
				return nil, s.bad("a key is missing")
			}
			path = append(path, s.text[begin:s.i])
		}
		after := s.i
		s.skipBlank()
		if !s.take(".") {
			s.i = after
			return path, nil
		}
		s.skipBlank()
	}
}

// quoted skips a single-line string.
func (s *scanner) quoted() error {
	quote := s.text[s.i]
	for i := s.i + 1; i < len(s.text) && s.text[i] != '\n'; i++ {
		switch {
		case s.text[i] == quote:
			s.i = i + 1
			return nil
		case s.text[i] == '\\' && quote == '"':
			i++
		}
	}
	return s.bad("a string does not end in its line")
}

// maxDepth is the maximum nesting depth of arrays.
const maxDepth = 100

// value skips a value.
func (s *scanner) value(depth int) error {
	for _, long := range []string{`"""`, "'''"} {
		if s.peek(long) {
			return s.long(long)
		}
	}
	switch {
	case depth > maxDepth:
		return s.bad("there are too many arrays in arrays")
	case s.peek(`"`), s.peek("'"):
		return s.quoted()
	case s.peek("["):
		return s.list("[", "]", func() error { return s.value(depth + 1) })
	case s.peek("{"):
		return s.list("{", "}", func() error {
			if _, err := s.key(); err != nil {
				return err
			}
			s.skipBlank()
			if !s.take("=") {
				return s.bad("= is missing after a key")
			}
			s.skipBlank()
			return s.value(depth + 1)
		})
	}
	begin := s.i
	for s.i < len(s.text) && strings.IndexByte(bare+"+.:", s.text[s.i]) >= 0 {
		s.i++
	}
	if s.i == begin {
		return s.bad("a value is missing")
	}
	return nil
}

// long skips a multi-line string.
func (s *scanner) long(quote string) error {
	for i := s.i + len(quote); i < len(s.text); i++ {
		switch {
		case strings.HasPrefix(s.text[i:], quote):
			for s.i = i + len(quote); s.i < len(s.text) && s.text[s.i] == quote[0] && s.i < i+2*len(quote)-1; s.i++ {
			}
			return nil
		case s.text[i] == '\\' && quote[0] == '"':
			i++
		}
	}
	return s.bad("a string does not end")
}

// list skips a bracketed list.
func (s *scanner) list(open, end string, element func() error) error {
	s.take(open)
	for {
		if s.skipSpace(); s.take(end) {
			return nil
		}
		if err := element(); err != nil {
			return err
		}
		if s.skipSpace(); !s.take(",") && !s.peek(end) {
			return s.bad(end + " is missing")
		}
	}
}
