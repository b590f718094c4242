package schema

import (
	"errors"
	"math/big"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// checkKeyword checks a keyword that does not contain schemas. It checks only rules that the metaschema does not cover.
func (l *loader) checkKeyword(r *root, n *source.Node, m *source.Member) {
	if _, ok := keywordReplacements[m.Key]; ok {
		l.checkUnknownKeyword(r, m)
		return
	}
	v := m.Value
	switch m.Key {
	case "$ref":
		if v.Kind == source.String {
			r.refs = append(r.refs, n)
			l.openReferenced(r, n, v)
		}
	case "$schema":
		if v.Kind == source.String && n != r.node && schematree.DialectOf(v.Text) != r.dialect {
			l.fail(r, source.New("MCPE132", v.Range, "$schema changes the dialect within a schema").
				WithHint("the dialect of the whole schema is set at its top"))
		}
	case "pattern":
		if v.Kind == source.String {
			l.checkPattern(r, v.Text, v.Range)
		}
	case "format":
		if v.Kind == source.String {
			l.checkFormat(r, n, v)
		}
	case "enum":
		if v.Kind == source.Array && len(v.Items) == 0 {
			r.mark(v)
			l.fail(r, source.New("MCPE130", v.Range, "enum is empty, so that no value is valid").WithHint("list the values, or leave enum out"))
		}
		l.checkRepeated(r, v)
	case "default", "examples":
		if len(r.samples) == 0 || r.samples[len(r.samples)-1] != n {
			r.samples = append(r.samples, n)
		}
	case "x-match":
		r.matches = append(r.matches, v)
	case privateKey:
		l.hasPrivate = true
		if !v.True() {
			l.fail(r, source.New("MCPE165", v.Range, "x-private must be true").WithHint("leave it out for a member that all callers may see"))
		}
	case "x-go-name":
		if !l.Is(v, source.String, m.Key) || !l.checkGoName(v) {
			r.isBroken = true
		}
	case "x-enum-varnames":
		l.checkConstantNames(r, n, v)
	case "x-go-type":
		if l.Is(v, source.String, m.Key) && !goTypeForm.MatchString(v.Text) {
			l.fail(r, source.New("MCPE124", v.Range, "%q is not an import path and a type", v.Text).
				WithHint("as in github.com/google/uuid.UUID or math/big.Int"))
		}
	case "discriminator":
		l.checkDiscriminator(r, n, v)
	}
}

// constantName matches a valid suffix for the name of an enum constant.
var constantName = regexp.MustCompile(`^[\pL\pN_]+$`)

// checkConstantNames reports invalid names in x-enum-varnames.
func (l *loader) checkConstantNames(r *root, n, v *source.Node) {
	if !l.Is(v, source.Array, "x-enum-varnames") {
		return
	}
	if e := n.Get("enum"); e == nil || len(e.Items) != len(v.Items) {
		l.fail(r, source.New("MCPE124", v.Range, "x-enum-varnames needs one name for each value of the enum next to it"))
	}
	for _, name := range v.Items {
		if l.Is(name, source.String, "a name in x-enum-varnames") && !constantName.MatchString(name.Text) {
			l.fail(r, source.New("MCPE124", name.Range, "%q cannot be part of a Go identifier", name.Text).WithHint("use letters, digits and '_'"))
		}
	}
}

// checkDiscriminator checks the form of OpenAPI's discriminator keyword.
func (l *loader) checkDiscriminator(r *root, n, v *source.Node) {
	o := l.Object(v, "discriminator", []string{"propertyName"}, []string{"mapping"})
	if o == nil {
		r.isBroken = true
		return
	}
	o.Text("propertyName")
	if mapping := v.Get("mapping"); mapping != nil && l.Is(mapping, source.Object, "mapping") {
		for _, m := range mapping.Members {
			if l.Is(m.Value, source.String, "a value of mapping") && strings.Contains(m.Value.Text, "#") {
				r.mappings = append(r.mappings, mappingRef{n, m.Value})
				l.openReferenced(r, n, m.Value)
			}
		}
	}
}

// checkRepeated warns about values that an enum lists twice. The numbers 1 and 1.0 are equal.
func (l *loader) checkRepeated(r *root, enum *source.Node) {
	first := map[string]*source.Node{}
	for _, v := range enum.Items {
		key := v.Kind.String() + " " + string(v.JSON())
		if v.Kind == source.Number {
			if n, ok := new(big.Rat).SetString(v.Text); ok {
				key = n.RatString()
			}
		}
		if before := first[key]; before != nil {
			l.fail(r, source.New("MCPE131", v.Range, "the enum already lists %s", v.JSON()).
				WithHint("remove it").WithRelated(before.Range, "first listed here"))
			continue
		}
		first[key] = v
	}
}

// slashes matches a regular expression between the slashes of JavaScript that matches nothing with them: it begins with ^
// or ends with $, and has no alternatives.
var slashes = regexp.MustCompile(`^/(\^[^|]*|[^|]*[^|\\]\$)/[a-z]*$`)

// checkPattern checks that text is an ECMA-262 regular expression. It uses the compiler of the runtime.
func (l *loader) checkPattern(r *root, text string, at source.Range) {
	_, err := pattern.Compile(text)
	var fault *pattern.SyntaxError
	if !errors.As(err, &fault) {
		if m := slashes.FindStringSubmatch(text); m != nil {
			l.fail(r, source.New("MCPE131", at, "pattern %s matches nothing: its slashes are characters of the text", quotedFor(at.Start.File, text)).
				WithHint("leave them out: %s", quotedFor(at.Start.File, m[1])))
		}
		return
	}
	d := source.New("MCPE133", at, "pattern %s is not a regular expression of ECMA-262: at character %d: %s",
		quotedFor(at.Start.File, text), fault.Offset+1, fault.Reason)
	if fault.Remedy != "" {
		d = d.WithHint("write %s", quotedFor(at.Start.File, fault.Remedy))
	}
	l.fail(r, d)
}

// quotedFor quotes a string as JSON or YAML, depending on the file. In YAML, it uses single quotes, which do not
// require escaping of backslashes.
func quotedFor(file, text string) string {
	if strings.EqualFold(filepath.Ext(file), ".json") || strings.ContainsFunc(text, unicode.IsControl) {
		return string(schematree.AppendString(nil, text))
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
