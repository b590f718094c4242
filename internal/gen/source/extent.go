package source

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// scalarEnd returns the offset after the scalar y, which starts at start. It scans the text according to the style of
// the scalar, because package yaml does not record the end.
func (c *converter) scalarEnd(y *yaml.Node, start int) int {
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		for i := start + 1; i < len(c.src); i++ {
			switch c.src[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	case y.Style&yaml.SingleQuotedStyle != 0:
		for i := start + 1; i < len(c.src); i++ {
			if c.src[i] != '\'' {
				continue
			}
			if i+1 == len(c.src) || c.src[i+1] != '\'' {
				return i + 1
			}
			i++
		}
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return c.blockEnd(start)
	default:
		return c.plainEnd(y.Value, start)
	}
	return len(c.src)
}

// plainEnd returns the offset after an unquoted scalar. It looks for the words of the value, because YAML folds line
// breaks between them.
func (c *converter) plainEnd(value string, start int) int {
	if strings.HasPrefix(c.src[start:], value) {
		return start + len(value)
	}
	end := start
	for _, word := range strings.Fields(value) {
		i := end
		for i < len(c.src) && strings.IndexByte(" \t\r\n", c.src[i]) >= 0 {
			i++
		}
		if !strings.HasPrefix(c.src[i:], word) {
			break
		}
		end = i + len(word)
	}
	return end
}

// blockEnd returns the offset after the last nonblank line of a | or > scalar.
func (c *converter) blockEnd(start int) int {
	end := c.lineEnd(start)
	indent := -1
	for i := end; i < len(c.src); {
		i++
		if c.src[i-1] == '\r' && i < len(c.src) && c.src[i] == '\n' {
			i++
		}
		stop := c.lineEnd(i)
		line := strings.TrimLeft(c.src[i:stop], " ")
		width := stop - i - len(line)
		if line != "" {
			if indent < 0 {
				indent = width
				if indent <= c.indentOf(start) && c.indentOf(start) > 0 || width == 0 {
					return end
				}
			}
			if width < indent {
				return end
			}
			end = stop
		}
		i = stop
	}
	return end
}

// indentOf returns the number of leading spaces in the line at offset i.
func (c *converter) indentOf(i int) int {
	start := strings.LastIndexAny(c.src[:i], "\r\n") + 1
	return len(c.src[start:]) - len(strings.TrimLeft(c.src[start:], " "))
}

// flowEnd returns the offset after the closing bracket of the flow collection at start. For a block collection, it
// returns end, the offset after the last element.
func (c *converter) flowEnd(start, end int, open byte) int {
	if start >= len(c.src) || c.src[start] != open {
		return end
	}
	for i := max(end, start+1); i < len(c.src); {
		i = c.skipBlank(i)
		if i >= len(c.src) {
			break
		}
		switch c.src[i] {
		case ',', ':', '?':
			i++
		case '&', '!':
			i = c.wordEnd(i)
		case ']', '}':
			return i + 1
		default:
			return end
		}
	}
	return end
}
