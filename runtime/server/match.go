package server

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A rule is a compiled events.MatchRule.
type rule struct {
	events.MatchRule
	steps []string // of the JSON Pointer, unescaped
}

func newRule(m events.MatchRule) (rule, error) {
	switch m.Op {
	case "":
		m.Op = events.MatchEqual
	case events.MatchEqual, events.MatchIn, events.MatchGlob, events.MatchPrefix, events.MatchMin, events.MatchMax:
	default:
		return rule{}, fmt.Errorf("x-match of argument %q has the unknown op %q", m.Argument, m.Op)
	}
	r := rule{MatchRule: m}
	if m.Path != "" {
		if m.Path[0] != '/' {
			return rule{}, fmt.Errorf("x-match of argument %q: %q is not a JSON Pointer", m.Argument, m.Path)
		}
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for _, step := range strings.Split(m.Path[1:], "/") {
			r.steps = append(r.steps, unescape.Replace(step))
		}
	}
	return r, nil
}

// A place is what a payload has where a rule points: the elements when it is an array, one value
// otherwise, nothing when it is missing or null. keys are the values in comparable form.
type place struct {
	values []any
	keys   []string
}

// places evaluates every rule's pointer on a payload as validate.Decode returns it.
func places(rules []rule, payload any) []place {
	if len(rules) == 0 {
		return nil
	}
	ps := make([]place, len(rules))
	for i := range rules {
		v, ok := resolve(payload, rules[i].steps)
		if !ok || v == nil {
			continue
		}
		p := &ps[i]
		if list, ok := v.([]any); ok {
			for _, e := range list {
				if e != nil {
					p.values = append(p.values, e)
				}
			}
		} else {
			p.values = []any{v}
		}
		if op := rules[i].Op; op == events.MatchEqual || op == events.MatchIn {
			p.keys = make([]string, len(p.values))
			for j, e := range p.values {
				p.keys[j] = matchKey(e)
			}
		}
	}
	return ps
}

func resolve(v any, steps []string) (any, bool) {
	for _, step := range steps {
		switch t := v.(type) {
		case map[string]any:
			next, ok := t[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(t) {
				return nil, false
			}
			v = t[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// matchKey gives equal JSON values equal strings and unequal ones different strings: 1, 1.0 and
// 1e0 are one number.
func matchKey(v any) string {
	switch t := v.(type) {
	case string:
		return "s" + t
	case bool:
		return "b" + strconv.FormatBool(t)
	case json.Number:
		return "n" + numberKey(string(t))
	default:
		b, err := json.Marshal(t)
		if err != nil {
			return "?"
		}
		if c, err := wire.Canonical(b); err == nil {
			b = c
		}
		return "j" + string(b)
	}
}

func numberKey(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if r, ok := rational(text); ok {
		return r.RatString()
	}
	return text
}

// rational reads a JSON number exactly, unless its exponent would make that expensive.
func rational(text string) (*big.Rat, bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e > 400 || e < -400 {
			return nil, false
		}
	}
	if len(text) > 400 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// A test is one rule with the argument's value: what a subscription asks of a place.
type test struct {
	rule  int // index in the definition's rules
	op    events.MatchOp
	key   string              // equal
	keys  map[string]struct{} // in
	value any                 // glob, prefix, min, max
}

// newTest compiles the value that an argument has.
func newTest(i int, r *rule, value any) test {
	t := test{rule: i, op: r.Op, value: value}
	switch r.Op {
	case events.MatchEqual:
		t.key = matchKey(value)
	case events.MatchIn:
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		t.keys = make(map[string]struct{}, len(list))
		for _, e := range list {
			t.keys[matchKey(e)] = struct{}{}
		}
	}
	return t
}

func (t *test) matches(p *place) bool {
	switch t.op {
	case events.MatchEqual:
		for _, k := range p.keys {
			if k == t.key {
				return true
			}
		}
	case events.MatchIn:
		for _, k := range p.keys {
			if _, ok := t.keys[k]; ok {
				return true
			}
		}
	case events.MatchGlob:
		pattern, ok := t.value.(string)
		return ok && anyString(p, func(s string) bool { return glob(pattern, s) })
	case events.MatchPrefix:
		prefix, ok := t.value.(string)
		return ok && anyString(p, func(s string) bool { return strings.HasPrefix(s, prefix) })
	case events.MatchMin, events.MatchMax:
		for _, v := range p.values {
			c, ok := compare(v, t.value)
			if ok && (c == 0 || (c > 0) == (t.op == events.MatchMin)) {
				return true
			}
		}
	}
	return false
}

func anyString(p *place, f func(string) bool) bool {
	for _, v := range p.values {
		if s, ok := v.(string); ok && f(s) {
			return true
		}
	}
	return false
}

// glob matches s against a pattern in which * is any run, ? one character and all else literal.
// It backtracks to the last star only, so it is linear in practice and quadratic at worst.
func glob(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		if p < len(pattern) {
			switch pattern[p] {
			case '*':
				star, mark = p, i
				p++
				continue
			case '?':
				_, n := utf8.DecodeRuneInString(s[i:])
				p++
				i += n
				continue
			}
			if pattern[p] == s[i] {
				p++
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, n := utf8.DecodeRuneInString(s[mark:])
		mark += n
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// compare orders two numbers, two RFC 3339 instants or two other strings.
func compare(a, b any) (int, bool) {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return 0, false
		}
		if i, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			if j, err := strconv.ParseInt(string(y), 10, 64); err == nil {
				return big.NewInt(i).Cmp(big.NewInt(j)), true
			}
		}
		r, ok1 := rational(string(x))
		q, ok2 := rational(string(y))
		if ok1 && ok2 {
			return r.Cmp(q), true
		}
		f, _ := x.Float64()
		g, _ := y.Float64()
		switch {
		case f < g:
			return -1, true
		case f > g:
			return 1, true
		}
		return 0, true
	case string:
		y, ok := b.(string)
		if !ok {
			return 0, false
		}
		if s, err := time.Parse(time.RFC3339Nano, x); err == nil {
			if t, err := time.Parse(time.RFC3339Nano, y); err == nil {
				return s.Compare(t), true
			}
		}
		return strings.Compare(x, y), true
	}
	return 0, false
}
