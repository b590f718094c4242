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

// NewRule compiles a rule, or says what is wrong with it.
func NewRule(m events.MatchRule) (Rule, error) {
	switch m.Op {
	case "":
		m.Op = events.MatchEqual
	case events.MatchEqual, events.MatchIn, events.MatchGlob, events.MatchPrefix, events.MatchMin, events.MatchMax:
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

// A place is what a payload has where a rule points, in the form that the rule's op looks at: the
// elements when it is an array, one value otherwise, nothing when it is missing or null. It is made
// before the append lock is taken, whatever the payload holds.
type place struct {
	keys    []string            // equal, in: distinct keys of the values
	set     map[string]struct{} // of keys, when they are many
	texts   []string            // glob, prefix: the strings
	length  int                 // of texts or ordered, in bytes
	ordered []ordered           // min, max
}

// manyKeys is from how many keys on a place has a set of them.
const manyKeys = 8

// places evaluates every rule's pointer on a payload as validate.Decode returns it.
func places(rules []Rule, payload any) []place {
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
				p.add(rules[i].Op, e)
			}
		} else {
			p.add(rules[i].Op, v)
		}
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
	case events.MatchMin, events.MatchMax:
		if o, ok := newOrdered(v); ok {
			p.ordered = append(p.ordered, o)
			p.length += o.size()
		}
	}
}

// finish drops repeated keys and makes the set.
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

// maxKey is how long a key may be; longer ones are replaced by their hash.
const maxKey = 64

// matchKey is a JSON value in a comparable form of at most maxKey bytes: equal values have equal
// keys, numbers by their value (1, 1.0 and 1e0 are equal), strings byte for byte. Its first byte
// tells kinds apart, and hashes from all else.
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

// A test is one rule with the argument's value: what a subscription asks of a place.
type test struct {
	rule    int // index in the definition's rules
	op      events.MatchOp
	text    string   // equal: the key; glob: the pattern; prefix
	in      *keyList // in
	ordered *ordered // min, max
	never   bool     // the value is of a kind that the op does not know
}

// newTest compiles the value that an argument has.
func newTest(i int, r *Rule, value any) test {
	t := test{rule: i, op: r.Op}
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
	case events.MatchMin, events.MatchMax:
		o, ok := newOrdered(value)
		t.ordered, t.never = &o, !ok
	}
	return t
}

// size is what the test keeps beside its struct, in bytes.
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

func (t *test) matches(p *place) bool {
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
	case events.MatchMin, events.MatchMax:
		return slices.ContainsFunc(p.ordered, func(v ordered) bool {
			c, ok := v.compare(t.ordered)
			return ok && (c == 0 || (c > 0) == (t.op == events.MatchMin))
		})
	}
	return false
}

// cost estimates the nanoseconds that matches takes.
func (t *test) cost(p *place) int {
	switch t.op {
	case events.MatchIn:
		return t.in.cost(p)
	case events.MatchGlob:
		return len(p.texts)*globCost(t.text, 0) + globCost(t.text, p.length) - globCost(t.text, 0)
	case events.MatchPrefix:
		return compareCost(len(p.texts), p.length, len(t.text))
	case events.MatchMin, events.MatchMax:
		return compareCost(len(p.ordered), p.length, t.size())
	}
	return 0 // equal: one look-up
}

// compareCost is the cost of comparing n values of length bytes together with one of size bytes each.
func compareCost(n, length, size int) int { return 16*n + min(length, n*size)/16 }

// MaxCost bounds what is evaluated for one test of one reader while the append lock is held, in
// nanoseconds; waking the reader costs about as much.
const MaxCost = 512

// An ordered value is one that min and max compare: a number, an RFC 3339 instant or other text.
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

// maxInstant is the longest text that is read as an instant.
const maxInstant = 64

// compare orders two numbers, two instants or two other strings; false for what has no order.
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

// A keyList holds the keys of an in test, ascending, in little more than their own bytes.
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

// meets reports whether a value of the place is in the list, by going through the shorter of both.
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
