package sample

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// numberValue returns a number that satisfies the bounds of all views. It prefers small numbers.
func numberValue(views []*source.Node, at place, integer bool) (json.RawMessage, bool) {
	var low, high, step *big.Rat
	lowOpen, highOpen := false, false
	for _, v := range views {
		for _, k := range []struct {
			keyword string
			open    bool
		}{{"minimum", false}, {"exclusiveMinimum", true}} {
			if r := rat(v.Get(k.keyword)); r != nil && (low == nil || r.Cmp(low) > 0 || r.Cmp(low) == 0 && k.open) {
				low, lowOpen = r, k.open
			}
		}
		for _, k := range []struct {
			keyword string
			open    bool
		}{{"maximum", false}, {"exclusiveMaximum", true}} {
			if r := rat(v.Get(k.keyword)); r != nil && (high == nil || r.Cmp(high) < 0 || r.Cmp(high) == 0 && k.open) {
				high, highOpen = r, k.open
			}
		}
		if r := rat(v.Get("multipleOf")); r != nil && r.Sign() > 0 {
			if step == nil {
				step = r
			} else {
				step = new(big.Rat).Mul(step, r) // a multiple of both if they are coprime
			}
		}
	}
	grid := step
	if grid == nil {
		grid = big.NewRat(1, 1)
		if !integer && low != nil && high != nil {
			if width := new(big.Rat).Sub(high, low); width.Sign() > 0 && width.Cmp(big.NewRat(2, 1)) <= 0 {
				grid = width.Quo(width, big.NewRat(4, 1))
			}
		}
	} else if integer && !grid.IsInt() {
		grid = new(big.Rat).SetInt(grid.Num())
	}
	x := big.NewRat(int64(1+at.nth), 1)
	if step != nil || !x.IsInt() {
		x.Mul(x, grid)
	}
	switch {
	case low != nil && (x.Cmp(low) < 0 || lowOpen && x.Cmp(low) == 0):
		x = nearestMultiple(low, grid, 1, lowOpen)
		x.Add(x, new(big.Rat).Mul(grid, big.NewRat(int64(at.nth), 1)))
	case high != nil && (x.Cmp(high) > 0 || highOpen && x.Cmp(high) == 0):
		x = nearestMultiple(high, grid, -1, highOpen)
		x.Sub(x, new(big.Rat).Mul(grid, big.NewRat(int64(at.nth), 1)))
	}
	if integer && !x.IsInt() {
		return nil, false
	}
	if x.IsInt() {
		return json.RawMessage(x.Num().String()), true
	}
	text := strings.TrimRight(x.FloatString(12), "0")
	return json.RawMessage(text), true
}

// nearestMultiple returns the multiple of grid that is nearest to b in the given direction. If open is set, the result
// is not b itself.
func nearestMultiple(b, grid *big.Rat, direction int, open bool) *big.Rat {
	q := new(big.Rat).Quo(b, grid)
	n := new(big.Int).Div(q.Num(), q.Denom()) // rounded down
	x := new(big.Rat).Mul(new(big.Rat).SetInt(n), grid)
	for x.Cmp(b)*direction < 0 || open && x.Cmp(b) == 0 {
		n.Add(n, big.NewInt(int64(direction)))
		x.Mul(new(big.Rat).SetInt(n), grid)
	}
	return x
}

func rat(n *source.Node) *big.Rat {
	if n == nil || n.Kind != source.Number {
		return nil
	}
	r, ok := new(big.Rat).SetString(n.Text)
	if !ok {
		return nil
	}
	return r
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
	least := int(tightestBound(views, "minLength", true, 0))
	most := int(tightestBound(views, "maxLength", false, 1<<20))
	if least > 10_000 {
		return "", false
	}
	for _, v := range views {
		if f := v.Get("format"); f != nil {
			if s, ok := formatExamples[f.Text]; ok {
				return strings.Replace(s, "%", strconv.Itoa(at.nth%10), 1), true
			}
		}
	}
	for _, v := range views {
		if e := v.Get("contentEncoding"); e != nil && e.Text == "base64" {
			return "ZXhhbXBsZQ==", true
		}
	}
	for _, v := range views {
		if p := v.Get("pattern"); p != nil {
			for extra := range 8 {
				s, ok := matchingString(p.Text, m.branch+at.nth+extra*3)
				if n := len([]rune(s)); ok && n >= least && n <= most {
					return s, true
				}
			}
			return "", false
		}
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
