package server

import (
	"container/list"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// arguments are one subscription's arguments, validated, decoded and compiled to a filter. They
// are shared by all subscriptions with the same bytes and never change.
type arguments struct {
	def       *definition
	raw       json.RawMessage
	canonical json.RawMessage
	key       string // canonical as a string
	typed     any    // *A
	tests     []test
	shape     []int  // rules that are tested for equality, ascending
	composite string // key of the tests of shape
}

// argumentsCache keeps the arguments seen last by their raw bytes, so that a poller's arguments
// are validated once and not with every poll.
type argumentsCache struct {
	mu     sync.Mutex
	byRaw  map[string]*list.Element
	recent list.List // of *arguments, most recent first
	bytes  int
}

// Bounds of one type's cache.
const (
	cachedArguments     = 1024
	cachedArgumentBytes = 1 << 20
)

// parse validates raw arguments. Its errors are InvalidParams with paths into the arguments.
func (d *definition) parse(raw json.RawMessage) (*arguments, error) {
	c := &d.arguments
	c.mu.Lock()
	if e := c.byRaw[string(raw)]; e != nil {
		c.recent.MoveToFront(e)
		a := e.Value.(*arguments)
		c.mu.Unlock()
		return a, nil
	}
	c.mu.Unlock()
	a, err := d.compile(raw)
	if err != nil || len(raw) > cachedArgumentBytes/16 {
		return a, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byRaw[string(raw)]; e != nil {
		return e.Value.(*arguments), nil
	}
	if c.byRaw == nil {
		c.byRaw = map[string]*list.Element{}
	}
	c.byRaw[string(a.raw)] = c.recent.PushFront(a)
	c.bytes += len(a.raw)
	for c.recent.Len() > cachedArguments || c.bytes > cachedArgumentBytes {
		last := c.recent.Remove(c.recent.Back()).(*arguments)
		delete(c.byRaw, string(last.raw))
		c.bytes -= len(last.raw)
	}
	return a, nil
}

func (d *definition) compile(raw json.RawMessage) (*arguments, error) {
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return nil, invalidArguments(err)
	}
	a := &arguments{def: d, raw: json.RawMessage(strings.Clone(string(raw))), canonical: canonical, key: string(canonical)}
	source := a.raw
	if len(source) == 0 || string(source) == "null" {
		source = canonical // absent, null and {} are equal
	}
	value, err := validate.Decode(source)
	if err != nil {
		return nil, invalidArguments(err)
	}
	if err := d.input.ValidateValue(value); err != nil {
		return nil, invalidArguments(err)
	}
	if a.typed, err = d.decodeArguments(source); err != nil {
		return nil, invalidArguments(err)
	}
	members, _ := value.(map[string]any)
	var composite []byte
	for i := range d.rules {
		v, ok := members[d.rules[i].Argument]
		if !ok || v == nil {
			continue
		}
		t := newTest(i, &d.rules[i], v)
		a.tests = append(a.tests, t)
		if t.op == events.MatchEqual {
			a.shape = append(a.shape, i)
			composite = appendKey(composite, t.key)
		}
	}
	a.composite = string(composite)
	return a, nil
}

// matches evaluates the x-match rules on a payload's places.
func (a *arguments) matches(ps []place) bool {
	for i := range a.tests {
		if t := &a.tests[i]; !t.matches(&ps[t.rule]) {
			return false
		}
	}
	return true
}

// invalidArguments makes the InvalidParams error of a refused argument; paths lead into the
// arguments.
func invalidArguments(err error) error {
	var ve *validate.Error
	if errors.As(err, &ve) {
		return events.Invalid(ve.Fields...)
	}
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	var de *events.DecodeError
	if errors.As(err, &de) {
		return events.Invalid(events.FieldError{Path: de.Pointer, Message: "does not fit its type"})
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}

// invalidParams makes the InvalidParams error of params of the wrong shape.
func invalidParams(err error) error {
	var fe *wire.FieldErrors
	if errors.As(err, &fe) {
		return events.Invalid(fe.Errors...)
	}
	return events.Invalid(events.FieldError{Message: "is not valid"})
}
