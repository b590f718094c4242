package topic

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Rule is a compiled events.MatchRule.
type Rule struct {
	events.MatchRule
	steps []string // of the JSON Pointer, unescaped
}

// NewRule compiles a rule. It returns an error if the operator or path is invalid.
func NewRule(m events.MatchRule) (Rule, error) {
	switch m.Op {
	case "":
		m.Op = events.MatchEqual
	case events.MatchMin:
		m.Op = events.MatchGTE
	case events.MatchMax:
		m.Op = events.MatchLTE
	case events.MatchEqual, events.MatchIn, events.MatchGlob, events.MatchPrefix,
		events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
	default:
		return Rule{}, fmt.Errorf("x-match of argument %q has the unknown op %q", m.Argument, m.Op)
	}
	r := Rule{MatchRule: m}
	if m.Path != "" {
		var ok bool
		if r.steps, ok = wire.SplitPointer(m.Path); !ok {
			return Rule{}, fmt.Errorf("x-match of argument %q: %q is not a JSON Pointer", m.Argument, m.Path)
		}
	}
	return r, nil
}

// A place holds the values found in a payload at a rule's path, in the form that the rule's operator compares. There
// can be several values if the path contains or ends at an array. The place is empty if the path does not exist or
// leads to null. Places are built before the append lock is acquired, because evaluating a large payload takes a long
// time.
type place struct {
	keys    []string            // equal, in: distinct keys of the values
	set     map[string]struct{} // the same keys, if there are more than manyKeys
	texts   []string            // glob, prefix: the strings
	length  int                 // of texts or ordered, in bytes
	longest int                 // the length of the longest text, in bytes
	ordered []orderedValue      // lt, lte, gt, gte
}

// If a place has more than manyKeys keys, it also stores them in a set.
const manyKeys = 8

// placesIn evaluates the path of every rule against a payload decoded by validate.Decode.
func placesIn(rules []Rule, payload any) []place {
	if len(rules) == 0 {
		return nil
	}
	ps := make([]place, len(rules))
	for i := range rules {
		p := &ps[i]
		p.collectValues(rules[i].Op, payload, rules[i].steps)
		p.indexKeys()
	}
	return ps
}

func (p *place) add(op events.MatchOp, v any) {
	if v == nil {
		return
	}
	switch op {
	case events.MatchEqual, events.MatchIn:
		p.keys = append(p.keys, matchKey(v))
	case events.MatchGlob, events.MatchPrefix:
		if s, ok := v.(string); ok {
			p.texts = append(p.texts, s)
			p.length += len(s)
			p.longest = max(p.longest, len(s))
		}
	case events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
		if o, ok := newOrdered(v); ok {
			p.ordered = append(p.ordered, o)
			p.length += o.size()
		}
	}
}

// indexKeys removes duplicate keys and builds the set.
func (p *place) indexKeys() {
	if len(p.keys) < 2 {
		return
	}
	slices.Sort(p.keys)
	p.keys = slices.Compact(p.keys)
	if len(p.keys) <= manyKeys {
		return
	}
	p.set = make(map[string]struct{}, len(p.keys))
	for _, k := range p.keys {
		p.set[k] = struct{}{}
	}
}

// hasKey reports whether the place contains a value with the given key.
func (p *place) hasKey(key string) bool {
	if p.set != nil {
		_, ok := p.set[key]
		return ok
	}
	return slices.Contains(p.keys, key)
}

// everyElement is the path step that selects every element of an array. In an object, it is an ordinary member name.
const everyElement = "*"

// collectValues adds the values of v that the steps select. If a selected value is an array, collect adds its elements.
// It visits each value in v at most once.
func (p *place) collectValues(op events.MatchOp, v any, steps []string) {
	for i, step := range steps {
		switch t := v.(type) {
		case map[string]any:
			v = t[step]
		case []any:
			if step == everyElement {
				for _, e := range t {
					p.collectValues(op, e, steps[i+1:])
				}
				return
			}
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(t) {
				return
			}
			v = t[n]
		default:
			return
		}
	}
	list, ok := v.([]any)
	if !ok {
		p.add(op, v)
	}
	for _, e := range list {
		p.add(op, e)
	}
}

// maxKey is the maximum length of a key, in bytes. Longer keys are replaced by their hash.
const maxKey = 64

// matchKey returns the key of a JSON value, a string of at most about maxKey bytes. Equal values have equal keys.
// Numbers are compared by value (1, 1.0 and 1e0 are equal) and strings byte by byte. The first byte of the key
// identifies the kind of the value or a hash.
func matchKey(v any) string {
	key := ""
	switch t := v.(type) {
	case string:
		key = "s" + t
	case bool:
		key = "b" + strconv.FormatBool(t)
	case json.Number:
		key = "n" + numberKey(string(t))
	default:
		b, err := json.Marshal(t)
		if err != nil {
			return "?"
		}
		if c, err := wire.Canonical(b); err == nil {
			b = c
		}
		key = "j" + string(b)
	}
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		return "#" + string(sum[:])
	}
	return key
}

func numberKey(text string) string {
	if d, ok := parseDecimal(text); ok {
		return d.key()
	}
	return text
}

// A test is a rule with the value that a subscription supplied for its argument.
type test struct {
	rule    int // index in the definition's rules
	op      events.MatchOp
	text    string        // equal: the key; glob: the pattern; prefix
	glob    *glob         // glob
	in      *keyList      // in
	ordered *orderedValue // lt, lte, gt, gte
	never   bool          // the op does not support the kind of the value
	not     bool          // the test passes if the op fails
}

// newTest returns the test for a rule and the value of its argument.
func newTest(i int, r *Rule, value any) test {
	t := test{rule: i, op: r.Op, not: r.Not}
	switch r.Op {
	case events.MatchEqual:
		t.text = matchKey(value)
	case events.MatchIn:
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		t.in = newKeyList(list)
	case events.MatchGlob, events.MatchPrefix:
		text, ok := value.(string)
		t.text, t.never = text, !ok
		if r.Op == events.MatchGlob {
			t.glob = compileGlob(text)
		}
	case events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
		o, ok := newOrdered(value)
		t.ordered, t.never = &o, !ok
	}
	return t
}

// size returns the memory that the test references, in bytes. It does not include the struct.
func (t *test) size() int {
	n := len(t.text)
	if t.glob != nil {
		n += t.glob.size()
	}
	if t.in != nil {
		n += len(t.in.text) + 4*len(t.in.ends)
	}
	if t.ordered != nil {
		n += t.ordered.size()
	}
	return n
}

// isIndexed reports whether the index uses the test to find matching readers.
func (t *test) isIndexed() bool { return t.op == events.MatchEqual && !t.not }

func (t *test) matches(p *place) bool { return t.isSatisfied(p) != t.not }

// isSatisfied reports whether at least one value satisfies the operator.
func (t *test) isSatisfied(p *place) bool {
	if t.never {
		return false
	}
	switch t.op {
	case events.MatchEqual:
		return p.hasKey(t.text)
	case events.MatchIn:
		return t.in.hasAny(p)
	case events.MatchGlob:
		return p.longest >= int(t.glob.shortest) && slices.ContainsFunc(p.texts, t.glob.matches)
	case events.MatchPrefix:
		return slices.ContainsFunc(p.texts, func(s string) bool { return strings.HasPrefix(s, t.text) })
	default:
		return slices.ContainsFunc(p.ordered, func(v orderedValue) bool {
			c, ok := v.compare(t.ordered)
			return ok && acceptsOrder(t.op, c)
		})
	}
}

// acceptsOrder reports whether the operator accepts c, which is the result of comparing a value with the argument.
func acceptsOrder(op events.MatchOp, c int) bool {
	switch op {
	case events.MatchLT:
		return c < 0
	case events.MatchLTE:
		return c <= 0
	case events.MatchGT:
		return c > 0
	case events.MatchGTE:
		return c >= 0
	}
	return false
}

// cost estimates the time that matches takes, in nanoseconds.
func (t *test) cost(p *place) int {
	switch {
	case t.in != nil:
		return t.in.cost(p)
	case t.glob != nil:
		return t.glob.cost(len(p.texts), p.length, p.longest)
	case t.ordered != nil:
		return compareCost(len(p.ordered), p.length, t.size())
	case t.op == events.MatchPrefix:
		return compareCost(len(p.texts), p.length, len(t.text))
	}
	return 0 // equal: one look-up
}

// compareCost estimates the cost of comparing n values with a value of size bytes. The parameter length is the total
// length of the n values in bytes.
func compareCost(n, length, size int) int { return 16*n + min(length, n*size)/16 }

// MaxCost is the maximum estimated cost of a test under the append lock, in nanoseconds. Waking a reader costs about
// the same.
const MaxCost = 512

// FilterCost is the maximum estimated cost of a test for each byte of a payload, in nanoseconds. It does not depend on
// the argument.
const FilterCost = 32

// An orderedValue is an operand of lt, lte, gt or gte. It is a number, an RFC 3339 timestamp, or other text.
type orderedValue struct {
	number  decimal
	text    string
	instant time.Time
	numeric bool
	timed   bool // text is an RFC 3339 timestamp
}

func newOrdered(v any) (o orderedValue, ok bool) {
	switch t := v.(type) {
	case json.Number:
		o.numeric = true
		o.number, ok = parseDecimal(string(t))
		return o, ok
	case string:
		o.text = t
		if len(t) <= maxInstant {
			var err error
			o.instant, err = time.Parse(time.RFC3339Nano, t)
			o.timed = err == nil
		}
		return o, true
	}
	return o, false
}

func (o *orderedValue) size() int { return len(o.text) + len(o.number.digits) }

// maxInstant is the maximum length of a string that is parsed as a timestamp, in bytes.
const maxInstant = 64

// compare compares two numbers, two timestamps or two strings. It returns false for a number and a string.
func (o *orderedValue) compare(with *orderedValue) (int, bool) {
	switch {
	case o.numeric != with.numeric:
		return 0, false
	case o.numeric:
		return o.number.compare(with.number), true
	case o.timed && with.timed:
		return o.instant.Compare(with.instant), true
	}
	return strings.Compare(o.text, with.text), true
}

// A keyList is a compact sorted list of the keys in a test with the operator in.
type keyList struct {
	text string // the keys one after another
	ends []uint32
}

func newKeyList(values []any) *keyList {
	keys := make([]string, len(values))
	for i, v := range values {
		keys[i] = matchKey(v)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	l := &keyList{ends: make([]uint32, len(keys))}
	n := 0
	for i, k := range keys {
		n += len(k)
		l.ends[i] = uint32(n)
	}
	l.text = strings.Join(keys, "")
	return l
}

func (l *keyList) at(i int) string {
	if i == 0 {
		return l.text[:l.ends[0]]
	}
	return l.text[l.ends[i-1]:l.ends[i]]
}

func (l *keyList) hasKey(key string) bool {
	_, ok := sort.Find(len(l.ends), func(i int) int { return strings.Compare(key, l.at(i)) })
	return ok
}

// hasAny reports whether the list contains at least one of the place's keys. It iterates over the shorter of the two
// lists.
func (l *keyList) hasAny(p *place) bool {
	if p.set == nil || len(p.keys) <= len(l.ends) {
		return slices.ContainsFunc(p.keys, l.hasKey)
	}
	for i := range l.ends {
		if p.hasKey(l.at(i)) {
			return true
		}
	}
	return false
}

func (l *keyList) cost(p *place) int {
	const lookup = 40
	if n := len(p.keys); p.set == nil || n <= len(l.ends) {
		return n * lookup
	}
	return len(l.ends) * lookup
}
