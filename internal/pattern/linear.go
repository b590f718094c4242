package pattern

import (
	"fmt"
	"regexp"
	"strings"
)

// linearForm returns a pattern in Go's syntax. It omits constructs that a linear engine does not support, and reports
// whether the result is exact. It writes classes as ranges, because \s, the dot and the properties have different
// meanings in Go.
func linearForm(n *node) (string, bool) {
	w := &goWriter{exact: true}
	w.write(n)
	return w.String(), w.exact
}

type goWriter struct {
	strings.Builder
	exact bool
}

func (w *goWriter) write(n *node) {
	switch n.op {
	case opEmpty:
		w.WriteString("(?:)")
	case opSet:
		w.class(n.set)
	case opConcat:
		for _, p := range n.parts {
			w.write(p)
		}
	case opAlternate:
		w.WriteString("(?:")
		for i, p := range n.parts {
			if i > 0 {
				w.WriteByte('|')
			}
			w.write(p)
		}
		w.WriteByte(')')
	case opRepeat:
		w.WriteString("(?:")
		w.write(n.parts[0])
		w.WriteByte(')')
		w.times(n)
	case opCapture: // captures do not affect whether there is a match
		w.WriteString("(?:")
		w.write(n.parts[0])
		w.WriteByte(')')
	case opBegin:
		w.WriteString(`\A`)
	case opEnd:
		w.WriteString(`\z`)
	case opBoundary:
		if n.negated {
			w.WriteString(`\B`)
		} else {
			w.WriteString(`\b`)
		}
	default:
		w.exact = false
	}
}

func (w *goWriter) times(n *node) {
	switch {
	case n.least == 0 && n.most == unbounded:
		w.WriteByte('*')
	case n.least == 1 && n.most == unbounded:
		w.WriteByte('+')
	case n.least == 0 && n.most == 1:
		w.WriteByte('?')
	case n.most == unbounded:
		fmt.Fprintf(w, "{%d,}", n.least)
	default:
		fmt.Fprintf(w, "{%d,%d}", n.least, n.most)
	}
}

func (w *goWriter) class(s set) {
	if len(s) == 1 && s[0].low == s[0].high && s[0].low < 0xD800 {
		w.WriteString(regexp.QuoteMeta(string(s[0].low)))
		return
	}
	if len(s) == 0 {
		w.WriteString(`[^\x00-\x{10FFFF}]`)
		return
	}
	w.WriteByte('[')
	for _, p := range s {
		fmt.Fprintf(w, `\x{%X}`, p.low)
		if p.high > p.low {
			fmt.Fprintf(w, `-\x{%X}`, p.high)
		}
	}
	w.WriteByte(']')
}
