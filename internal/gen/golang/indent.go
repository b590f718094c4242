package golang

// maxInline is the maximum length in bytes of an array that is written on one line.
const maxInline = 100

// indentJSON formats compact JSON with one member per line, so a diff shows the changed members. It writes short arrays
// of scalars on one line. It does not change the text of strings and numbers.
func indentJSON(compact []byte) []byte {
	p := &indenter{in: compact, out: make([]byte, 0, 2*len(compact))}
	p.value(0)
	return append(p.out, '\n')
}

type indenter struct {
	in, out []byte
	at      int
}

func (p *indenter) line(depth int) {
	p.out = append(p.out, '\n')
	for range depth {
		p.out = append(p.out, ' ')
	}
}

func (p *indenter) value(depth int) {
	switch open := p.in[p.at]; open {
	case '{', '[':
		inline := open == '[' && p.isShortArray()
		p.out = append(p.out, open)
		p.at++
		for i := 0; p.in[p.at] != open+2; i++ { // '{'+2 is '}', '['+2 is ']'
			if i > 0 {
				p.at++
				p.out = append(p.out, ',')
			}
			switch {
			case !inline:
				p.line(depth + 1)
			case i > 0:
				p.out = append(p.out, ' ')
			}
			if open == '{' {
				p.copyScalar()
				p.at++
				p.out = append(p.out, ':', ' ')
			}
			p.value(depth + 1)
		}
		if !inline && p.out[len(p.out)-1] != open {
			p.line(depth)
		}
		p.out = append(p.out, open+2)
		p.at++
	default:
		p.copyScalar()
	}
}

// copyScalar copies a string, number or literal.
func (p *indenter) copyScalar() {
	start := p.at
	p.at = p.scalarEnd(start)
	p.out = append(p.out, p.in[start:p.at]...)
}

// scalarEnd returns the offset after the scalar at i.
func (p *indenter) scalarEnd(i int) int {
	if p.in[i] == '"' {
		for i++; p.in[i] != '"'; i++ {
			if p.in[i] == '\\' {
				i++
			}
		}
		return i + 1
	}
	for i < len(p.in) && p.in[i] != ',' && p.in[i] != ']' && p.in[i] != '}' {
		i++
	}
	return i
}

// isShortArray reports whether the array at the current offset is at most maxInline bytes long and contains only
// scalars.
func (p *indenter) isShortArray() bool {
	for i := p.at + 1; i-p.at <= maxInline; {
		switch p.in[i] {
		case ']':
			return true
		case ',':
			i++
		case '{', '[':
			return false
		default:
			i = p.scalarEnd(i)
		}
	}
	return false
}
