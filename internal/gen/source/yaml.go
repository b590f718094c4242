package source

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// parseYAML parses the text with package yaml and converts the resulting tree.
func (p *parser) parseYAML() *Node {
	doc, next, err := decodeYAML(p.src)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		p.report(New("MCPE108", p.span(0, 0), "the file is empty"))
		return nil
	case err != nil:
		if at := p.markBeforeLine(); at >= 0 {
			p.report(p.forbiddenCharacter(at, byteOrderMark))
			return nil
		}
		p.syntaxError(err)
		return nil
	}
	if next != nil {
		at := p.yamlOffset(next.Line, next.Column)
		p.report(New("MCPE107", p.span(at, min(at+3, p.lineEnd(at))), "a second document begins here; a file holds one").
			WithHint("move it to a separate file"))
	}
	c := &converter{parser: p, inProgress: make(map[*yaml.Node]bool), marks: make(map[int]bool)}
	for at := range p.byteOrderMarks(0, len(p.src)) {
		c.marks[at] = true
	}
	n, _ := c.node(doc.Content[0], 0)
	if len(c.marks) > 0 && !p.isIncomplete {
		p.report(p.forbiddenCharacter(slices.Min(slices.Collect(maps.Keys(c.marks))), byteOrderMark))
	}
	return n
}

// byteOrderMarks yields the offsets of the byte order marks from start to end.
func (p *parser) byteOrderMarks(start, end int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := start; ; i += utf8.RuneLen(byteOrderMark) {
			n := strings.IndexRune(p.src[i:end], byteOrderMark)
			if n < 0 || !yield(i+n) {
				return
			}
			i += n
		}
	}
}

// markBeforeLine returns the offset of the first byte order mark at the start of a line, or -1. Concatenating files can
// result in such a mark.
func (p *parser) markBeforeLine() int {
	for _, start := range p.lines {
		if strings.HasPrefix(p.src[start:], string(byteOrderMark)) {
			return start
		}
	}
	return -1
}

// decodeYAML returns the first document and, if present, the second document. It returns a panic of the parser as an
// error.
func decodeYAML(src string) (doc, next *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", r)
		}
	}()
	l, err := yaml.NewLoader(strings.NewReader(src), yaml.WithPlugin(parserLimits))
	if err != nil {
		return nil, nil, err
	}
	doc = new(yaml.Node)
	if err := l.Load(doc); err != nil {
		return nil, nil, err
	}
	next = new(yaml.Node)
	switch err := l.Load(next); {
	case errors.Is(err, io.EOF):
		return doc, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return doc, next, nil
}

// A converter converts nodes of package yaml, which record only their start, to nodes with a range.
type converter struct {
	*parser
	// inProgress is the set of nodes that are currently being converted. convertAlias uses it to detect aliases to an
	// ancestor.
	inProgress map[*yaml.Node]bool
	// aliasDepth is the number of enclosing aliases.
	aliasDepth int
	// nextAsString causes the next scalar to become a string.
	nextAsString bool
	// marks is the set of offsets of byte order marks that are not in a quoted scalar.
	marks map[int]bool
}

// node converts y. It returns the result and the offset after its text.
func (c *converter) node(y *yaml.Node, depth int) (*Node, int) {
	start := c.yamlOffset(y.Line, y.Column)
	if y.Kind == yaml.AliasNode {
		return c.convertAlias(y, start, depth)
	}
	if c.aliasDepth > 0 {
		c.copied++
	}
	start = c.skipProperties(start)
	if y.Kind != yaml.ScalarNode && c.exceedsDepth(depth+1, start) {
		return &Node{Range: c.span(start, start+1)}, start
	}
	c.checkTag(y, start)
	n := &Node{}
	end := start
	// Computing positions in order is cheap, so the start comes before the content.
	n.Range.Start = c.positionAt(start)
	switch y.Kind {
	case yaml.ScalarNode:
		end = c.scalar(n, y, start)
	case yaml.SequenceNode:
		n.Kind = Array
		c.inProgress[y] = true
		for _, item := range y.Content {
			var child *Node
			child, end = c.node(item, depth+1)
			n.Items = append(n.Items, child)
		}
		delete(c.inProgress, y)
		end = c.flowEnd(start, end, '[')
	case yaml.MappingNode:
		n.Kind = Object
		c.inProgress[y] = true
		end = c.mapping(n, y, start, depth)
		delete(c.inProgress, y)
		end = c.flowEnd(start, end, '{')
	}
	n.Range.End = c.positionAt(max(start, end))
	return c.linkChildren(n), end
}

func (c *converter) mapping(n *Node, y *yaml.Node, start, depth int) int {
	var ms memberList
	end := start
	for i := 0; i+1 < len(y.Content); i += 2 {
		ky := y.Content[i]
		c.nextAsString = c.allowAnyKeys && ky.Kind != yaml.SequenceNode && ky.Kind != yaml.MappingNode
		key, keyEnd := c.node(ky, depth+1)
		c.nextAsString = false
		var value *Node
		value, end = c.node(y.Content[i+1], depth+1)
		end = max(end, keyEnd)
		switch {
		case ky.Kind == yaml.ScalarNode && ky.Style&^yaml.TaggedStyle == 0 && ky.Value == "<<":
			c.report(New("MCPE106", key.Range, "the merge key << is not supported").
				WithHint("write the members out, or share the schema with $ref"))
		case key.Kind == Array || key.Kind == Object:
			c.report(New("MCPE104", key.Range, "an %s cannot be a key", key.Kind))
		case key.Kind != String:
			c.report(New("MCPE104", key.Range, "a key must be a string; this is read as %s", WithArticle(key.Kind.String())).
				WithHint("quote it"))
		default:
			c.add(&ms, Member{Key: key.Text, KeyRange: key.Range, Value: value})
		}
	}
	n.Members = ms.list
	return end
}

// convertAlias converts the target of an alias. The result has the range of the alias, but its descendants have their
// original ranges.
func (c *converter) convertAlias(y *yaml.Node, start, depth int) (*Node, int) {
	end := min(start+1+len(y.Value), len(c.src))
	at := c.span(start, end)
	switch {
	case y.Alias == nil || c.inProgress[y.Alias]:
		c.isIncomplete = true
		c.report(New("MCPE109", at, "alias *%s stands for something that contains it", y.Value).
			WithHint("describe recursion with $ref"))
		return &Node{Range: at}, end
	case c.copied > maxAliasNodes:
		if !c.isIncomplete {
			c.isIncomplete = true
			c.report(New("MCPE109", at, "the aliases of this file stand for more than %d values", maxAliasNodes).
				WithHint("share schemas with $ref instead"))
		}
		return &Node{Range: at}, end
	}
	c.aliasDepth++
	n, _ := c.node(y.Alias, depth)
	c.aliasDepth--
	n.Range = at
	return n, end
}

func (c *converter) scalar(n *Node, y *yaml.Node, start int) int {
	n.Kind, n.Text = String, y.Value
	end := c.scalarEnd(y, start)
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && c.aliasDepth == 0 {
		for at := range c.byteOrderMarks(start, end) {
			delete(c.marks, at)
		}
	}
	if y.Style&^yaml.TaggedStyle != 0 || explicitString(y) || c.nextAsString {
		return end
	}
	kind, text, fault := plainScalar(y.Value)
	if fault != "" {
		c.report(New("MCPE105", c.span(start, end), "%s", fault).WithHint("%s", numberHint(y.Value)))
		text = "0" // a number, to avoid further findings
	}
	n.Kind, n.Text = kind, text
	return end
}

func explicitString(y *yaml.Node) bool {
	return y.Tag == "!" || y.Style&yaml.TaggedStyle != 0 && y.Tag == "!!str"
}

// checkTag reports a tag that does not correspond to the JSON type of the node.
func (c *converter) checkTag(y *yaml.Node, start int) {
	if y.Style&yaml.TaggedStyle == 0 {
		return
	}
	switch {
	case y.Kind == yaml.MappingNode && y.Tag == "!!map", y.Kind == yaml.SequenceNode && y.Tag == "!!seq":
		return
	case y.Kind == yaml.ScalarNode:
		kind, _, _ := plainScalar(y.Value)
		if y.Style&^yaml.TaggedStyle != 0 {
			kind = String
		}
		switch y.Tag {
		case "!!str":
			return
		case "!!null", "!!bool", "!!int", "!!float":
			want := map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Number, "!!float": Number}[y.Tag]
			if kind == want {
				return
			}
		}
	}
	c.report(New("MCPE110", c.span(start, start), "tag %s is not supported", y.Tag).
		WithHint("leave it out; a string that looks like something else is quoted"))
}

// skipProperties returns the offset after an optional anchor and tag at start.
func (c *converter) skipProperties(start int) int {
	for start < len(c.src) && (c.src[start] == '&' || c.src[start] == '!') {
		end := c.wordEnd(start)
		if strings.HasPrefix(c.src[start:], "!<") {
			if i := strings.IndexByte(c.src[start:], '>'); i > 0 {
				end = start + i + 1
			}
		}
		start = c.skipBlank(end)
	}
	return start
}
