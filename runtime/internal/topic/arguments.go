package topic

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// Arguments holds one subscription's arguments, validated and compiled to a filter. It is immutable. Subscriptions with
// the same raw arguments share one Arguments. Its size is a small multiple of the size of the JSON. The author's struct
// can be much larger, so it is held only by a weak pointer.
type Arguments struct {
	Of    *Type
	JSON  json.RawMessage // canonical, or as received if that is shorter
	plain bool            // JSON is canonical
	Key   string          // hash of the canonical form
	value atomic.Pointer[weak.Pointer[decodedArguments]]
	tests []test // ascending by rule
}

// A decodedArguments wraps a pointer to the author's struct, so a weak pointer can refer to it.
type decodedArguments struct{ a any }

// Typed returns the author's struct. If the garbage collector has freed the struct, Typed decodes the JSON to recreate
// it.
func (a *Arguments) Typed() any {
	if w := a.value.Load(); w != nil {
		if t := w.Value(); t != nil {
			return t.a
		}
	}
	v, err := a.Of.DecodeArguments(a.JSON)
	if err != nil {
		panic(fmt.Sprintf("mcp events: accepted arguments of %s do not decode: %v", a.Of.Name, err))
	}
	a.keep(v)
	return v
}

func (a *Arguments) keep(v any) {
	w := weak.Make(&decodedArguments{v})
	a.value.Store(&w)
}

// Canonical returns the arguments in RFC 8785 form. Equal arguments have the same canonical form (SUB-4).
func (a *Arguments) Canonical() json.RawMessage {
	if a.plain {
		return a.JSON
	}
	c, err := wire.Canonical(a.JSON)
	if err != nil {
		panic(fmt.Sprintf("mcp events: accepted arguments of %s have no canonical form: %v", a.Of.Name, err))
	}
	return c
}

// Bare returns a copy of the arguments without the compiled filter. Such a copy is stored for a poller between its
// polls.
func (a *Arguments) Bare() *Arguments {
	return &Arguments{Of: a.Of, JSON: a.JSON, plain: a.plain, Key: a.Key}
}

// size returns the memory used by the arguments, in bytes.
func (a *Arguments) size() int {
	n := int(unsafe.Sizeof(*a)) + len(a.Key) + a.Variable()
	return n + len(a.tests)*int(unsafe.Sizeof(test{})+unsafe.Sizeof(orderedValue{}))
}

// Variable returns the part of the arguments' memory usage that depends on their content, in bytes.
func (a *Arguments) Variable() int {
	n := len(a.JSON)
	for i := range a.tests {
		n += a.tests[i].size()
	}
	return n
}

// An argumentsCache is an LRU cache of arguments, keyed by their raw bytes. Because of the cache, a poller's arguments
// need not be validated on every poll.
type argumentsCache struct {
	mu     sync.Mutex
	byRaw  map[string]*list.Element
	recent list.List // of cachedArguments, most recent first
	bytes  int
}

type cachedArguments struct {
	raw string
	*Arguments
}

// Bounds of one type's cache.
const (
	maxCachedArguments = 1024
	maxCachedBytes     = 1 << 20
)

// cachedOverhead is the estimated overhead of a cache entry, in bytes.
const cachedOverhead = 512

// Parse validates the raw arguments of a request. Its errors are InvalidParams errors with paths that refer to the
// arguments. If the arguments are too large, the path is /arguments (CAP-5).
func (t *Type) Parse(raw json.RawMessage) (*Arguments, error) {
	c := &t.arguments
	c.mu.Lock()
	if e := c.byRaw[string(raw)]; e != nil {
		c.recent.MoveToFront(e)
		a := e.Value.(*cachedArguments).Arguments
		c.mu.Unlock()
		return a, nil
	}
	c.mu.Unlock()
	if err := t.bounded(len(raw), ""); err != nil {
		return nil, err
	}
	a, err := t.compile(raw)
	if err != nil {
		return nil, err
	}
	if err := t.bounded(len(a.Canonical()), " when its numbers are written out"); err != nil {
		return nil, err
	}
	if err := a.boundedPatterns(); err != nil {
		return nil, err
	}
	c.add(raw, a)
	return a, nil
}

// Reparse validates arguments that an earlier definition or process has accepted. Limits that were added later do not
// apply to them (CAP-5).
func (t *Type) Reparse(raw json.RawMessage) (*Arguments, error) { return t.compile(raw) }

func (t *Type) bounded(n int, how string) error {
	if n <= t.MaxArguments {
		return nil
	}
	return events.Invalid(events.FieldError{Path: "/arguments",
		Message: fmt.Sprintf("is %d bytes of JSON%s, at most %d", n, how, t.MaxArguments)})
}

// Limits of a glob pattern, in bytes. MaxPattern limits the whole pattern, and MaxRun the text between two stars if it
// contains a ?.
const (
	MaxPattern = 1024
	MaxRun     = 128
)

func (a *Arguments) boundedPatterns() error {
	var faults []events.FieldError
	refuse := func(t *test, message string) {
		faults = append(faults, events.FieldError{Path: wire.Pointer(a.Of.Rules[t.rule].Argument), Message: message})
	}
	for i := range a.tests {
		t := &a.tests[i]
		if t.glob == nil {
			continue
		}
		if len(t.text) > MaxPattern {
			refuse(t, fmt.Sprintf("is a pattern of %d bytes, at most %d", len(t.text), MaxPattern))
		} else if n := t.glob.longestRun(); n > MaxRun {
			refuse(t, fmt.Sprintf("has %d bytes with a ? between two stars, at most %d", n, MaxRun))
		}
	}
	if len(faults) > 0 {
		return events.Invalid(faults...)
	}
	return nil
}

// Forget clears the arguments cache, so later calls to Parse must revalidate all arguments.
func (t *Type) Forget() {
	c := &t.arguments
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byRaw, c.bytes = nil, 0
	c.recent.Init()
}

func (c *argumentsCache) add(raw json.RawMessage, a *Arguments) {
	entry := &cachedArguments{string(raw), a}
	if entry.size() > maxCachedBytes/16 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRaw[entry.raw] != nil {
		return
	}
	if c.byRaw == nil {
		c.byRaw = map[string]*list.Element{}
	}
	c.byRaw[entry.raw] = c.recent.PushFront(entry)
	c.bytes += entry.size()
	for c.recent.Len() > maxCachedArguments || c.bytes > maxCachedBytes {
		last := c.recent.Remove(c.recent.Back()).(*cachedArguments)
		delete(c.byRaw, last.raw)
		c.bytes -= last.size()
	}
}

func (e *cachedArguments) size() int { return cachedOverhead + len(e.raw) + e.Arguments.size() }

func (t *Type) compile(raw json.RawMessage) (*Arguments, error) {
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	hash := sha256.Sum256(canonical)
	a := &Arguments{Of: t, JSON: slices.Clip(canonical), plain: true, Key: string(hash[:])}
	source := raw
	if len(source) == 0 || string(source) == "null" {
		source = canonical // absent, null and {} are equal
	}
	if len(source) < len(canonical) {
		a.JSON, a.plain = slices.Clone(source), false
	}
	value, err := validate.Decode(source)
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	if err := t.Input.ValidateValue(value); err != nil {
		return nil, fault.InvalidArguments(err)
	}
	v, err := t.DecodeArguments(a.JSON) // the same bytes that Typed decodes, so all hooks see one value
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	a.keep(v)
	members, _ := value.(map[string]any)
	for i := range t.Rules {
		if v := members[t.Rules[i].Argument]; v != nil {
			a.tests = append(a.tests, newTest(i, &t.Rules[i], v))
		}
	}
	a.tests = slices.Clip(a.tests)
	return a, nil
}

// shape returns the indexes of the rules that test for equality.
func (a *Arguments) shape() (rules []int) {
	for i := range a.tests {
		if a.tests[i].isIndexed() {
			rules = append(rules, a.tests[i].rule)
		}
	}
	return rules
}

// composite returns the key of the tests of the rules, which must begin the shape.
func (a *Arguments) composite(rules []int) (key []byte) {
	for i := range a.tests {
		if t := &a.tests[i]; len(rules) > 0 && t.rule == rules[0] {
			key, rules = appendKey(key, t.text), rules[1:]
		}
	}
	return key
}

// mayMatch is like matches, but assumes that expensive tests succeed, so it can be called under the append lock.
func (a *Arguments) mayMatch(ps []place) bool {
	for i := range a.tests {
		t := &a.tests[i]
		if p := &ps[t.rule]; t.cost(p) <= MaxCost && !t.matches(p) {
			return false
		}
	}
	return true
}

// matches reports whether a payload with the given places satisfies the x-match rules. It also returns the estimated
// cost of the tests, in nanoseconds.
func (a *Arguments) matches(ps []place) (ok bool, cost int) {
	for i := range a.tests {
		t := &a.tests[i]
		p := &ps[t.rule]
		cost += t.cost(p)
		if !t.matches(p) {
			return false, cost
		}
	}
	return true, cost
}
