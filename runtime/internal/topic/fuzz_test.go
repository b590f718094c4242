package topic

import (
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// fuzzOperator compares an operator with a simple oracle. The elements are the content of a JSON array, repeated. The
// cost must be within FilterCost for each byte of the payload, whatever the argument.
func fuzzOperator(f *testing.F, ops []events.MatchOp, meets func(op events.MatchOp, argument, value any) bool) {
	long, many := strings.Repeat("a", 4<<10), strings.TrimSuffix(strings.Repeat(`"ab",1,2.0,`, 256), ",")
	for _, argument := range []string{
		`"a"`, `2`, `"2026-01-01T00:00:00Z"`, `["ab",2,null]`, `{"a":[1]}`, `"` + long + `"`, "[" + many + "]", `9` + strings.Repeat("0", 500),
		`"` + strings.Repeat("?", 1000) + `"`, `"*` + strings.Repeat("a?", 500) + `*"`, `"*?*` + strings.Repeat("a?", 63) + `?b*"`, `"*` + strings.Repeat("?a*", 300) + `b"`,
		`"*` + strings.Repeat("é?€", 150) + `*é"`, `"*` + strings.Repeat("a", 1000) + `b*"`, `"` + strings.Repeat("*a", 500) + `"`,
	} {
		for _, elements := range []string{`"a"`, `2.0,2e0`, `"2026-01-01T01:00:00+01:00"`, `{"a":[1]}`, `"` + long + `"`, `"é€` + long + `"`, many,
			`1` + strings.Repeat("0", 500), strings.Repeat(`"",`, 1<<10) + `""`} {
			f.Add(argument, elements, uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, argument, elements string, times uint8) {
		want, err := validate.Decode(json.RawMessage(argument))
		if err != nil || want == nil || len(argument) > 64<<10 || len(elements)*(1+int(times)) > 256<<10 {
			return
		}
		one, err := validate.Decode(json.RawMessage("[" + elements + "]")) // for the oracle, which is slow
		if err != nil {
			return
		}
		list := "[" + strings.Repeat(elements+",", int(times)) + elements + "]"
		decoded, err := validate.Decode(json.RawMessage(list))
		if err != nil {
			return
		}
		within := true // the limits of a pattern
		if pattern, ok := want.(string); ok && ops[0] == events.MatchGlob {
			within = len(pattern) <= MaxPattern && compileGlob(pattern).longestRun() <= MaxRun
		}
		for _, op := range ops {
			met := slices.ContainsFunc(one.([]any), func(v any) bool { return v != nil && meets(op, want, v) })
			for _, not := range []bool{false, true} {
				rule, err := NewRule(events.MatchRule{Argument: "x", Op: op, Not: not})
				if err != nil {
					t.Fatal(err)
				}
				a := &Arguments{tests: []test{newTest(0, &rule, want)}}
				places := placesIn([]Rule{rule}, decoded)
				matches, cost := a.matches(places)
				if matches != (met != not) {
					t.Errorf("%s, not %v: %.100s against %.100s: %v", op, not, argument, list, matches)
				}
				if may := a.mayMatch(places); matches && !may || cost <= MaxCost && matches != may {
					t.Errorf("%s, not %v: %.100s against %.100s: matches %v, may match %v", op, not, argument, list, matches, may)
				}
				if within && cost > FilterCost*len(list) {
					t.Errorf("%s: %.100s against %d bytes costs %d ns", op, argument, len(list), cost)
				}
			}
		}
	})
}

// equalJSON is the oracle of equal. Numbers are compared by value, and objects and arrays member by member.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && rational(a).Cmp(rational(b)) == 0
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if with, ok := b[name]; !ok || !equalJSON(v, with) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

func FuzzEqual(f *testing.F) {
	fuzzOperator(f, []events.MatchOp{events.MatchEqual}, func(_ events.MatchOp, argument, value any) bool { return equalJSON(argument, value) })
}

func FuzzIn(f *testing.F) {
	fuzzOperator(f, []events.MatchOp{events.MatchIn}, func(_ events.MatchOp, argument, value any) bool {
		list, ok := argument.([]any)
		if !ok {
			list = []any{argument}
		}
		return slices.ContainsFunc(list, func(v any) bool { return equalJSON(v, value) })
	})
}

func FuzzPrefix(f *testing.F) {
	fuzzOperator(f, []events.MatchOp{events.MatchPrefix}, func(_ events.MatchOp, argument, value any) bool {
		prefix, ok1 := argument.(string)
		text, ok2 := value.(string)
		return ok1 && ok2 && len(text) >= len(prefix) && text[:len(prefix)] == prefix
	})
}

func FuzzGlob(f *testing.F) {
	fuzzOperator(f, []events.MatchOp{events.MatchGlob}, func(_ events.MatchOp, argument, value any) bool {
		pattern, ok1 := argument.(string)
		text, ok2 := value.(string)
		return ok1 && ok2 && slowGlob([]rune(pattern), []rune(text))
	})
}

// slowGlob is the oracle of glob. It compares every prefix of the pattern with every prefix of the text.
func slowGlob(pattern, text []rune) bool {
	matches := make([]bool, len(text)+1) // the prefixes of text that match the pattern so far
	matches[0] = true
	for _, c := range pattern {
		before := matches[0]
		matches[0] = before && c == '*'
		for i, x := range text {
			diagonal := before
			before = matches[i+1]
			if c == '*' {
				matches[i+1] = before || matches[i]
			} else {
				matches[i+1] = diagonal && (c == '?' || c == x)
			}
		}
	}
	return matches[len(text)]
}

func FuzzOrder(f *testing.F) {
	ops := []events.MatchOp{events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE}
	fuzzOperator(f, ops, func(op events.MatchOp, argument, value any) bool {
		c := 0
		switch with := argument.(type) {
		case json.Number:
			v, ok := value.(json.Number)
			if !ok {
				return false
			}
			c = rational(v).Cmp(rational(with))
		case string:
			v, ok := value.(string)
			if !ok {
				return false
			}
			c = strings.Compare(v, with)
			at, err1 := time.Parse(time.RFC3339Nano, v)
			limit, err2 := time.Parse(time.RFC3339Nano, with)
			if err1 == nil && err2 == nil {
				c = at.Compare(limit)
			}
		default:
			return false
		}
		return map[events.MatchOp]bool{events.MatchLT: c < 0, events.MatchLTE: c <= 0, events.MatchGT: c > 0, events.MatchGTE: c >= 0}[op]
	})
}
