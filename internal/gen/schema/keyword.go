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
	case privateKey, "x-go-name", "x-go-type", "x-enum-varnames", "discriminator":
		l.checkOwnKeyword(r, n, m)
	}
}

// checkOwnKeyword checks a keyword that JSON Schema does not define.
func (l *loader) checkOwnKeyword(r *root, n *source.Node, m *source.Member) {
	for _, d := range keywordFaults(m) {
		l.fail(r, d)
	}
	switch v := m.Value; m.Key {
	case privateKey:
		l.hasPrivate = true
	case "x-enum-varnames":
		if v.Kind == source.Array && (n.Get("enum") == nil || len(n.ItemsAt("enum")) != len(v.Items)) {
			l.fail(r, source.New("MCPE124", v.Range, "x-enum-varnames needs one name for each value of the enum next to it"))
		}
	case "discriminator":
		for _, mapped := range v.Words("mapping") {
			if strings.Contains(mapped.Value.Text, "#") {
				r.mappings = append(r.mappings, mappingRef{n, mapped.Value})
				l.openReferenced(r, n, mapped.Value)
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
