package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A subject is an event type under test.
type subject struct {
	wire.Descriptor
	// args are valid arguments. invalid holds arguments that are each invalid for a different reason, and is empty if
	// all arguments are valid.
	args    json.RawMessage
	invalid []json.RawMessage
	// variants holds valid arguments that differ from args in one member.
	variants []json.RawMessage
	// otherArgs holds valid arguments with as many more members as possible, or is nil if none were found.
	otherArgs map[string]json.RawMessage
	// payload returns nil if payloadSchema cannot be used. It compiles the schema for the first occurrence because most
	// event types never occur.
	payload func() *validate.Schema
	// replay reports whether the cursor in the first result was not null.
	replay bool

	// stream is the watched stream. began is the exchange that opened it.
	stream *flow
	opened []byte
	began  time.Time

	mu    sync.Mutex
	first *string      // the cursor of the first poll, before every occurrence in seen
	seen  []occurrence // occurrences that the watcher received, in order
}

// An occurrence is an occurrence in its received form.
type occurrence struct {
	raw  json.RawMessage
	from *exchange
}

func (s *subject) has(mode string) bool { return s != nil && slices.Contains(s.Delivery, mode) }

// maxPages is the maximum number of pages to read from events/list.
const maxPages = 100

// maxTypes is the maximum number of event types to use.
const maxTypes = 1000

// readCatalog reads the valid event types from events/list. Checks report invalid ones.
func (r *run) readCatalog(ctx context.Context) error {
	r.entries, r.listFault = r.readList(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	standard, _ := wire.EventsCapabilities(r.capabilities)
	if isKind(r.listed, wire.MethodNotFound) && len(standard) == 0 {
		return &Unreachable{fmt.Errorf("%s is an MCP server without events", r.o.Target)}
	}
	for _, e := range r.entries {
		if d, err := wire.DecodeDescriptor(e.raw); err == nil && d.Name != "" && len(r.types) < maxTypes {
			r.names[d.Name] = true
			r.types = append(r.types, newSubject(d))
		}
	}
	return nil
}

func newSubject(d wire.Descriptor) *subject {
	s := &subject{Descriptor: d, args: json.RawMessage(`{}`)}
	if in, err := validate.Compile(d.InputSchema); err == nil {
		if in.Validate(s.args) != nil {
			if v, ok := sample.Value(d.InputSchema); ok {
				s.args = v
			}
		}
		s.vary(in)
	}
	s.payload = sync.OnceValue(func() *validate.Schema {
		payload, _ := validate.Compile(d.PayloadSchema)
		return payload
	})
	return s
}

// maxVaried is the maximum number of valid and of invalid arguments to try with each method.
const maxVaried = 24

// vary sets arguments that differ from args in one member, by whether the schema accepts them. Members have another type,
// a number as text, a value in or out of range, a word in or outside the enum, or are missing or unknown.
func (s *subject) vary(in *validate.Schema) {
	if in.Validate(s.args) != nil {
		return
	}
	others := objectOf(s.args)
	var root struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(s.InputSchema, &root)
	try := func(name string, value json.RawMessage) {
		args := objectOf(s.args)
		if args == nil {
			return
		}
		if value == nil {
			if args[name] == nil {
				return
			}
			delete(args, name)
		} else {
			args[name] = value
		}
		list, varied := &s.variants, json.RawMessage(verdict.Encode(args))
		if in.Validate(varied) != nil {
			list = &s.invalid
		} else if others[name] == nil && value != nil {
			if others[name] = value; in.Validate(verdict.Encode(others)) != nil {
				delete(others, name)
			} else {
				s.otherArgs = others
			}
		}
		if len(*list) < maxVaried {
			*list = append(*list, varied)
		}
	}
	names := slices.Sorted(maps.Keys(root.Properties))
	for _, name := range names {
		for _, value := range edgeValues(root.Properties[name]) {
			try(name, verdict.Encode(value))
		}
	}
	try("mcpeGenConformNoSuchArgument", json.RawMessage(`1`))
	for _, value := range []string{`"mcpe-gen-conform"`, `"1"`, `-1000000007`, `1000000007`, `{"no":"such value"}`, `12345.5`, `[]`, `true`} {
		for _, name := range names {
			try(name, json.RawMessage(value))
		}
	}
	for _, name := range names {
		try(name, nil)
	}
}

// edgeValues returns values at and just outside the bounds of a schema, and the words of its enum and similar ones.
func edgeValues(schema json.RawMessage) (values []any) {
	var s struct {
		Minimum, Maximum     *float64
		MinLength, MaxLength *int
		Enum                 []json.RawMessage
	}
	_ = json.Unmarshal(schema, &s)
	if s.Minimum != nil {
		values = append(values, *s.Minimum, *s.Minimum-1)
	}
	if s.Maximum != nil {
		values = append(values, *s.Maximum, *s.Maximum+1)
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		values = append(values, strings.Repeat("x", *s.MinLength-1))
	}
	if s.MaxLength != nil && *s.MaxLength < 1<<12 {
		values = append(values, strings.Repeat("x", *s.MaxLength+1))
	}
	for _, value := range s.Enum {
		values = append(values, value)
	}
	var word string
	if len(s.Enum) > 0 && json.Unmarshal(s.Enum[0], &word) == nil {
		values = append(values, strings.ToUpper(word), strings.ToLower(word), word+" ", "")
	}
	return values
}

// chooseSubject selects the event type that the options name, before any occurrences are known.
func (r *run) chooseSubject() error {
	if r.o.Event == "" {
		return nil
	}
	i := slices.IndexFunc(r.types, func(s *subject) bool { return s.Name == r.o.Event })
	if i < 0 {
		var names []string
		for _, s := range r.types {
			names = append(names, wire.Shown(s.Name))
		}
		return cli.Refusef("%s has no event type %q%s", r.o.Target, r.o.Event, suggest.EventTypes(r.o.Event, names))
	}
	chosen := r.types[i]
	if len(r.o.Args) > 0 {
		args, err := peer.Arguments(r.o.Args, chosen.InputSchema)
		if err != nil {
			return cli.Refusef("%v", err)
		}
		chosen.args = args
	}
	r.types = []*subject{chosen}
	return nil
}

// typesWith returns the event types that offer the mode.
func (r *run) typesWith(mode string) []*subject {
	return slices.DeleteFunc(slices.Clone(r.types), func(s *subject) bool { return !s.has(mode) })
}

// typeWithout returns an event type that does not offer the mode, or nil.
func (r *run) typeWithout(mode string) *subject {
	for _, s := range r.types {
		if !s.has(mode) {
			return s
		}
	}
	return nil
}

// params returns the parameters of a subscription to the type.
func (s *subject) params(more map[string]any) map[string]any {
	p := map[string]any{"name": s.Name, "arguments": s.args}
	maps.Copy(p, more)
	return p
}
