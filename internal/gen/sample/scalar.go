package sample

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// numberValue returns a number that satisfies the bounds of all views. It prefers small numbers.
func numberValue(views []*source.Node, at place, integer bool) (json.RawMessage, bool) {
	low, _ := schematree.TightestBound(views, "minimum", "exclusiveMinimum", 1)
	high, _ := schematree.TightestBound(views, "maximum", "exclusiveMaximum", -1)
	grid, isStep := gridOf(views, integer, low.At, high.At)
	x := big.NewRat(int64(1+at.nth), 1)
	if isStep {
		x.Mul(x, grid)
	}
	further := new(big.Rat).Mul(grid, big.NewRat(int64(at.nth), 1))
	switch value := (schematree.Bound{At: x}); {
	case low.IsTighterThan(value, 1):
		x = nearestMultiple(low, grid, 1)
		x.Add(x, further)
	case high.IsTighterThan(value, -1):
		x = nearestMultiple(high, grid, -1)
		x.Sub(x, further)
	}
	switch {
	case x.IsInt():
		return json.RawMessage(x.Num().String()), true
	case integer:
		return nil, false
	}
	return json.RawMessage(strings.TrimRight(x.FloatString(12), "0")), true
}

// gridOf returns the distance between the candidates. isStep reports whether multipleOf determines it.
func gridOf(views []*source.Node, integer bool, low, high *big.Rat) (grid *big.Rat, isStep bool) {
	grid = big.NewRat(1, 1)
	for _, n := range keywordValues(views, "multipleOf") {
		if step, ok := new(big.Rat).SetString(n.Text); ok && step.Sign() > 0 {
			grid, isStep = grid.Mul(grid, step), true // a multiple of all steps if they are coprime
		}
	}
	switch {
	case isStep && integer:
		return grid.SetInt(grid.Num()), true
	case isStep || integer || low == nil || high == nil:
		return grid, isStep
	}
	if width := new(big.Rat).Sub(high, low); width.Sign() > 0 && width.Cmp(big.NewRat(2, 1)) <= 0 {
		grid.Quo(width, big.NewRat(4, 1))
	}
	return grid, false
}

// nearestMultiple returns the multiple of grid within the bound that is nearest to it. sign is +1 for a lower bound and
// -1 for an upper one.
func nearestMultiple(b schematree.Bound, grid *big.Rat, sign int) *big.Rat {
	q := new(big.Rat).Quo(b.At, grid)
	n := new(big.Int).Div(q.Num(), q.Denom()) // rounded down
	x := new(big.Rat).Mul(new(big.Rat).SetInt(n), grid)
	for b.IsTighterThan(schematree.Bound{At: x}, sign) {
		n.Add(n, big.NewInt(int64(sign)))
		x.Mul(new(big.Rat).SetInt(n), grid)
	}
	return x
}

// formatExamples maps the formats of JSON Schema to examples. The character % is replaced with a digit to generate
// different examples.
var formatExamples = map[string]string{
	"date-time": "2026-11-2%T08:00:00Z", "date": "2026-11-2%", "time": "08:00:0%Z", "duration": "PT%5M",
	"email": "ada%@example.com", "idn-email": "ada%@example.com", "hostname": "www%.example.com", "idn-hostname": "www%.example.com",
	"ipv4": "192.0.2.%", "ipv6": "2001:db8::%", "uri": "https://example.com/%", "uri-reference": "/path/%", "iri": "https://example.com/%",
	"iri-reference": "/path/%", "uri-template": "https://example.com/{id}%", "uuid": "3f2504e0-4f89-41d3-9a0c-0305e82c330%",
	"json-pointer": "/member/%", "relative-json-pointer": "1/%", "regex": "^[a-z]%$",
}

// wordExamples maps the last word of a member name to an example string.
var wordExamples = map[string]string{
	"email": "ada@example.com", "url": "https://example.com/", "uri": "https://example.com/", "link": "https://example.com/", "href": "https://example.com/",
	"permalink": "https://example.com/", "sha": "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "currency": "EUR", "country": "NL", "language": "en", "timezone": "Europe/Amsterdam", "version": "1.2.0",
}

// stringValue returns a string for the format, pattern and length limits of the views.
func (m *maker) stringValue(views []*source.Node, at place) (string, bool) {
	least, most := sizeBound(views, "minLength", 1, 0), sizeBound(views, "maxLength", -1, 1<<20)
	if least > 10_000 {
		return "", false
	}
	for _, f := range keywordValues(views, "format") {
		if s, ok := formatExamples[f.Text]; ok {
			return strings.Replace(s, "%", strconv.Itoa(at.nth%10), 1), true
		}
	}
	if slices.ContainsFunc(keywordValues(views, "contentEncoding"), func(e *source.Node) bool { return e.Text == "base64" }) {
		return "ZXhhbXBsZQ==", true
	}
	if patterns := keywordValues(views, "pattern"); len(patterns) > 0 {
		for extra := range 8 {
			s, ok := matchingString(patterns[0].Text, m.branch+at.nth+extra*3)
			if n := utf8.RuneCountInString(s); ok && n >= least && n <= most {
				return s, true
			}
		}
		return "", false
	}
	s := examplePhrase(at.name)
	if at.nth > 0 {
		s += "-" + strconv.Itoa(at.nth+1)
	}
	for len([]rune(s)) < least {
		s += " " + examplePhrase(at.name)
	}
	if r := []rune(s); len(r) > most {
		s = string(r[:max(most, 0)])
	} else if len(r) > least && least == most {
		s = string(r[:least])
	}
	return s, true
}

// examplePhrase returns an example string for a member with the given name.
func examplePhrase(name string) string {
	parts := splitName(name)
	if len(parts) == 0 {
		return "text"
	}
	last := parts[len(parts)-1]
	if w, ok := wordExamples[last]; ok {
		return w
	}
	if last == "id" || last == "key" {
		if len(parts) > 1 {
			parts = parts[:len(parts)-1]
		}
		return strings.Join(parts, "-") + "-1"
	}
	return strings.Join(parts, " ")
}

// splitName returns the lower-case words of a name in camel, snake or kebab case.
func splitName(name string) []string {
	var parts []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			parts = append(parts, strings.ToLower(string(word)))
		}
		word = nil
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return parts
}
