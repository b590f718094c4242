package golang

import (
	"bytes"
	"strings"
)

// groupImports puts the standard library's imports of a rendered file into a block of their own, as
// goimports does: the first element of a module's path has a dot.
func groupImports(content []byte) []byte {
	const open, end = "\nimport (\n", "\n)\n"
	before, rest, found := bytes.Cut(content, []byte(open))
	if !found {
		return content
	}
	block, after, found := bytes.Cut(rest, []byte(end))
	if !found {
		return content
	}
	var standard, modules []string
	for line := range strings.SplitSeq(string(block), "\n") {
		_, path, _ := strings.Cut(line, `"`)
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") {
			modules = append(modules, line)
		} else {
			standard = append(standard, line)
		}
	}
	groups := strings.Join(standard, "\n")
	if len(standard) > 0 && len(modules) > 0 {
		groups += "\n\n"
	}
	groups += strings.Join(modules, "\n")
	return bytes.Join([][]byte{before, []byte(open), []byte(groups), []byte(end), after}, nil)
}
