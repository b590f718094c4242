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

// NewRule compiles a rule. It returns an error if the op or path is invalid.
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
		if m.Path[0] != '/' {
			return Rule{}, fmt.Errorf("x-match of argument %q: %q is not a JSON Pointer", m.Argument, m.Path)
		}
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for _, step := range strings.Split(m.Path[1:], "/") {
			r.steps = append(r.steps, unescape.Replace(step))
		}
	}
	return r, nil
}

// A place holds the values of a payload at a rule's path, in the form that the rule's op compares: one value,
// several if the path leads through an array or ends at one, none if it is missing or null. It is built before the
// append lock is taken, because the payload decides how long that takes.
type place struct {
	keys    []string            // equal, in: distinct keys of the values
	set     map[string]struct{} // of keys, when they are many
	texts   []string            // glob, prefix: the strings
	length  int                 // of texts or ordered, in bytes
	ordered []ordered           // lt, lte, gt, gte
}

// manyKeys is the number of keys above which a place has a set of them.
const manyKeys = 8

// places evaluates the path of every rule on a payload decoded by validate.Decode.
func places(rules []Rule, payload any) []place {
	if len(rules) == 0 {
		return nil
	}
	ps := make([]place, len(rules))
	for i := range rules {
		p := &ps[i]
		p.collect(rules[i].Op, payload, rules[i].steps)
		p.finish()
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
		}
	case events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
		if o, ok := newOrdered(v); ok {
			p.ordered = append(p.ordered, o)
			p.length += o.size()
		}
	}
}

// finish removes duplicate keys and builds the set.
func (p *place) finish() {
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

// has reports whether one of the values has the key.
func (p *place) has(key string) bool {
	if p.set != nil {
		_, ok := p.set[key]
		return ok
	}
	return slices.Contains(p.keys, key)
}

// everyElement is the path step that selects every element of an array. In an object it is an ordinary member name.
const everyElement = "*"

// collect adds the values that the steps select in v. An array adds its elements. It visits no part of v twice.
func (p *place) collect(op events.MatchOp, v any, steps []string) {
	for i, step := range steps {
		switch t := v.(type) {
		case map[string]any:
			v = t[step]
		case []any:
			if step == everyElement {
				for _, e := range t {
					p.collect(op, e, steps[i+1:])
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

// maxKey is the largest length of a key; longer keys are replaced by their hash.
const maxKey = 64

// matchKey returns a comparable form of a JSON value, of about maxKey bytes at most. Equal values have equal keys:
// numbers compare by value (1, 1.0 and 1e0 are equal), strings byte for byte. The first byte is the kind of the
// value, or marks a hash.
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

// A test is one rule with the value of its argument, which a subscription applies to a place.
type test struct {
	rule    int // index in the definition's rules
	op      events.MatchOp
	text    string   // equal: the key; glob: the pattern; prefix
	in      *keyList // in
	ordered *ordered // lt, lte, gt, gte
	never   bool     // the op does not support the kind of the value
	not     bool     // the test passes if the op fails
}

// newTest compiles a rule with the value of its argument.
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
	case events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
		o, ok := newOrdered(value)
		t.ordered, t.never = &o, !ok
	}
	return t
}

// size returns the memory of the test in addition to its struct, in bytes.
func (t *test) size() int {
	n := len(t.text)
	if t.in != nil {
		n += len(t.in.text) + 4*len(t.in.ends)
	}
	if t.ordered != nil {
		n += t.ordered.size()
	}
	return n
}

// indexed reports whether the index can use the test to find matching readers.
func (t *test) indexed() bool { return t.op == events.MatchEqual && !t.not }

func (t *test) matches(p *place) bool { return t.finds(p) != t.not }

// finds reports whether one of the values satisfies the op.
func (t *test) finds(p *place) bool {
	if t.never {
		return false
	}
	switch t.op {
	case events.MatchEqual:
		return p.has(t.text)
	case events.MatchIn:
		return t.in.meets(p)
	case events.MatchGlob:
		return slices.ContainsFunc(p.texts, func(s string) bool { return glob(t.text, s) })
	case events.MatchPrefix:
		return slices.ContainsFunc(p.texts, func(s string) bool { return strings.HasPrefix(s, t.text) })
	default:
		return slices.ContainsFunc(p.ordered, func(v ordered) bool {
			c, ok := v.compare(t.ordered)
			return ok && inOrder(t.op, c)
		})
	}
}

// inOrder reports whether c, the result of comparing a value with the argument, satisfies op.
func inOrder(op events.MatchOp, c int) bool {
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

// cost estimates the time of matches, in nanoseconds.
func (t *test) cost(p *place) int {
	switch t.op {
	case events.MatchIn:
		return t.in.cost(p)
	case events.MatchGlob:
		return len(p.texts)*globCost(t.text, 0) + globCost(t.text, p.length) - globCost(t.text, 0)
	case events.MatchPrefix:
		return compareCost(len(p.texts), p.length, len(t.text))
	case events.MatchLT, events.MatchLTE, events.MatchGT, events.MatchGTE:
		return compareCost(len(p.ordered), p.length, t.size())
	}
	return 0 // equal: one look-up
}

// compareCost estimates the cost of comparing n values, of length bytes in total, with a value of size bytes.
func compareCost(n, length, size int) int { return 16*n + min(length, n*size)/16 }

// MaxCost bounds the estimated cost of one reader's test under the append lock, in nanoseconds. Waking the reader
// costs about as much.
const MaxCost = 512

// An ordered is a value that lt, lte, gt and gte compare: a number, an RFC 3339 instant or other text.
type ordered struct {
	number  decimal
	text    string
	instant time.Time
	numeric bool
	timed   bool // text is an instant
}

func newOrdered(v any) (o ordered, ok bool) {
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

func (o *ordered) size() int { return len(o.text) + len(o.number.digits) }

// maxInstant is the length of the longest text that is parsed as an instant.
const maxInstant = 64

// compare compares two numbers, two instants or two strings. It returns false for a number and a string.
func (o *ordered) compare(with *ordered) (int, bool) {
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

// A keyList holds the keys of an in test in ascending order, in compact form.
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

func (l *keyList) has(key string) bool {
	_, ok := sort.Find(len(l.ends), func(i int) int { return strings.Compare(key, l.at(i)) })
	return ok
}

// meets reports whether a value of the place is in the list. It iterates over the shorter of the two.
func (l *keyList) meets(p *place) bool {
	if p.set == nil || len(p.keys) <= len(l.ends) {
		return slices.ContainsFunc(p.keys, l.has)
	}
	for i := range l.ends {
		if p.has(l.at(i)) {
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
