package ir

import (
	"fmt"
	"go/token"
	"strings"
	"unicode"
)

// predeclared lists the types that are valid in x-go-type without an import path.
var predeclared = map[string]bool{
	"string": true, "bool": true, "int": true, "int8": true, "int16": true, "int32": true, "int64": true,
	"uint": true, "uint8": true, "uint16": true, "uint32": true, "uint64": true, "float32": true, "float64": true,
}

// ParseGoType parses an x-go-type, or a type in the configuration: an import path, a dot and an exported name, or a
// predeclared type.
func ParseGoType(s string) (GoType, error) {
	if predeclared[s] {
		return GoType{Name: s}, nil
	}
	dot := strings.LastIndexByte(s, '.')
	if dot <= 0 || dot < strings.LastIndexByte(s, '/') {
		return GoType{}, fmt.Errorf("%q is not an import path, a dot and a type name", s)
	}
	g := GoType{Path: s[:dot], Name: s[dot+1:]}
	if !token.IsIdentifier(g.Name) || !token.IsExported(g.Name) {
		return GoType{}, fmt.Errorf("%q does not end in an exported type name", s)
	}
	if !validImportPath(g.Path) {
		return GoType{}, fmt.Errorf("%q is not an import path", g.Path)
	}
	return g, nil
}

func validImportPath(path string) bool {
	if strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return false
	}
	for _, elem := range strings.Split(path, "/") {
		if elem == "." || elem == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune("!\"#$%&'()*,:;<=>?[\\]^`{|}\uFFFD", r)
	})
}
