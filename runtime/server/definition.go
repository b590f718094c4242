package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A definition is one registration of an event type with its Go types erased. It is immutable. Registering the name
// again creates a new definition.
type definition struct {
	topic.Type // the log kernel's part
	info       events.Info
	options    typeOptions
	emits      bool
	meta       map[string]any // the descriptor's _meta
	private    published.Private
	hooked     bool // webhook delivery is offered to callers with a principal

	// inputSchema and payloadSchema replace the schemas of info, because many types may share most of their schemas.
	inputSchema, payloadSchema *published.Schema

	// lineage differs from that of the previous definition if the change was incompatible. In that case, changed is the
	// name of the changed feature (EVOL-2). Both are set before the definition becomes current.
	lineage uint64
	changed string

	hooks *untypedHooks
	check *feed.Check // nil for a type without a check
}

func (s *Server) newDefinition(info *events.Info, h *untypedHooks, check feed.Ask, emits bool, opts []TypeOption) (*definition, error) {
	d := &definition{info: *info, options: s.options.forType(opts), emits: emits, hooks: h, private: published.Of(info).Private}
	d.inputSchema, d.payloadSchema = published.Of(info).Schemas(info.InputSchema, info.PayloadSchema)
	d.info.InputSchema, d.info.PayloadSchema = nil, nil
	if check != nil {
		d.check = &feed.Check{Emits: emits, Shared: d.options.sharedCheck, Interval: d.options.nextPoll,
			Ask: func(ctx context.Context, a any, cursor string) (p feed.Page, err error) {
				err = d.guard("Check", func() error {
					var err error
					p, err = check(ctx, a, cursor)
					return err
				})
				return p, err
			}}
	}
	if err := d.prepare(s.options, &s.schemas); err != nil {
		return nil, fmt.Errorf("registering event %q: %w", info.Name, err)
	}
	return d, nil
}

// prepare validates the definition and compiles its schemas and match rules. It returns an error if the definition
// cannot be served.
func (d *definition) prepare(o Options, schemas *validate.Library) error {
	if err := published.Of(&d.info).Err; err != nil {
		return err
	}
	withdrawn := map[string]bool{wire.ModePoll: d.options.noPoll, wire.ModePush: d.options.noPush, wire.ModeWebhook: d.options.noWebhook}
	err := wire.EventType{Name: d.info.Name, Checked: d.check != nil, NoReplay: d.info.NoReplay, PollsHeld: d.options.pollNoReplay,
		Delivery: slices.DeleteFunc(slices.Clone(d.info.Delivery), func(mode string) bool { return withdrawn[mode] })}.Check()
	if err != nil {
		return err
	}
	if d.Input, err = schemas.Compile(d.inputSchema); err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	payload, err := schemas.Compile(d.payloadSchema)
	if err != nil {
		return fmt.Errorf("payloadSchema: %w", err)
	}
	if !o.SkipPayloadValidation {
		d.Payload = payload
	}
	for _, m := range d.info.Match {
		r, err := topic.NewRule(m)
		if err != nil {
			return err
		}
		d.Rules = append(d.Rules, r)
	}
	d.hooked = (o.Webhooks != nil || o.emitOnly) && !d.options.noWebhook && d.allows(wire.ModeWebhook)
	if d.hooked {
		d.options.maxPayload = min(d.options.maxPayload, wire.MaxPayload) // HOOK-1
	}
	if err := d.checkModes(o); err != nil {
		return err
	}
	d.initType()
	d.NameHash = wire.NameHash(d.info.Name)
	d.NameJSON, _ = json.Marshal(d.info.Name)
	fingerprint := d.info.Fingerprint
	if fingerprint == "" {
		if fingerprint, err = wire.Fingerprint(d.inputSchema.JSON(), d.payloadSchema.JSON()); err != nil {
			return err
		}
	}
	meta := make(map[string]any, len(d.info.Meta)+1)
	maps.Copy(meta, d.info.Meta)
	meta[wire.MetaFingerprint] = fingerprint
	if _, err := json.Marshal(meta); err != nil {
		return fmt.Errorf("_meta: %w", err)
	}
	if o.EchoFingerprint {
		d.Echo = fmt.Appendf(nil, "%q:%q", wire.MetaFingerprint, fingerprint)
	}
	d.meta = meta
	return nil
}

// descriptor returns the type's entry in events/list, without the delivery modes. It encodes the schemas on each call.
func (d *definition) descriptor() wire.Descriptor {
	return wire.Descriptor{Name: d.info.Name, Description: d.info.Description,
		InputSchema: d.inputSchema.JSON(), PayloadSchema: d.payloadSchema.JSON(), Meta: d.meta}
}

// initType initializes d.Type for the log kernel, with hooks that convert panics to errors.
func (d *definition) initType() {
	d.Name, d.NoReplay = d.info.Name, d.info.NoReplay
	d.ReplayCeiling, d.MaxArguments = d.options.replayCeiling, d.options.maxArguments
	d.DecodeArguments, d.DecodePayload = d.hooks.DecodeArguments, d.hooks.DecodePayload
	d.Copyable = codec.Copyable(d.hooks.Payload)
	d.Encodable = func(data json.RawMessage, known *validate.Members) error {
		if len(data) <= d.options.maxPayload && known.Accept(data) {
			return nil
		}
		return d.checkData(data)
	}
	if d.hooks.Match != nil {
		d.Match = func(ctx context.Context, p, a any) (ok bool, err error) {
			err = d.guard("Match", func() error { ok = d.hooks.Match(ctx, p, a); return nil })
			return ok, err
		}
	}
	switch {
	case d.hooks.PerPrincipal == nil && d.private != nil:
		d.PerPrincipal = func(_ context.Context, p, _ any) (any, error) { return d.withoutPrivate(p) }
	case d.hooks.PerPrincipal != nil:
		d.PerPrincipal = func(ctx context.Context, p, a any) (seen any, err error) {
			err = d.guard("PerPrincipal", func() error {
				var err error
				seen, err = d.hooks.PerPrincipal(ctx, hook.Principal(ctx), p, a)
				return err
			})
			return seen, err
		}
	}
	if d.hooks.Transform != nil {
		d.Transform = func(ctx context.Context, p, a any) error {
			// Its result goes to every subscription with equal arguments, so it runs for no principal.
			return d.guard("Transform", func() error { return d.hooks.Transform(hook.Impersonal{Context: ctx}, p, a) })
		}
	}
}

// definitionOf returns the definition against which the arguments were validated.
func definitionOf(a eventtype.Arguments) *definition { return a.Def.(*definition) }

// authorizeHook returns the Authorize hook of the arguments' event type, or nil.
func authorizeHook(a eventtype.Arguments) func(ctx context.Context, principal string, arguments any) error {
	return definitionOf(a).hooks.Authorize
}

// checkModes returns an error if webhooks are the only delivery modes of the description and the server does not have
// them (LIST-3). Modes that the author disabled with options are not an error.
func (d *definition) checkModes(o Options) error {
	if o.Webhooks != nil || d.options.noWebhook || !slices.Contains(d.info.Delivery, wire.ModeWebhook) || len(d.deliveryModes(true, "anybody")) > 0 {
		return nil
	}
	return fmt.Errorf("its delivery is [%s], but webhooks are off: set Options.Webhooks to webhooks.New(webhooks.Options{}), or add another mode",
		strings.Join(d.info.Delivery, ", "))
}

// offersPoll reports whether the type offers the poll mode (LIST-3).
func (d *definition) offersPoll() bool {
	return !d.options.noPoll && d.allows(wire.ModePoll) && (!d.info.NoReplay || d.options.pollNoReplay)
}

func (d *definition) pushes() bool { return !d.options.noPush && d.allows(wire.ModePush) }

func (d *definition) allows(mode string) bool {
	return len(d.info.Delivery) == 0 || slices.Contains(d.info.Delivery, mode)
}

// deliveryModes returns the delivery modes that the type offers, in the order used by events/list.
func (d *definition) deliveryModes(canStream bool, principal string) []string {
	var modes []string
	if d.offersPoll() {
		modes = append(modes, wire.ModePoll)
	}
	if canStream && d.pushes() {
		modes = append(modes, wire.ModePush)
	}
	if principal != "" && d.Webhooks() {
		modes = append(modes, wire.ModeWebhook)
	}
	return modes
}

// checkData checks whether data can be sent as the data of an occurrence. The data must be an object within the type's
// size limit and valid under payloadSchema.
func (d *definition) checkData(data json.RawMessage) error {
	if len(data) > d.options.maxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d", events.ErrTooLarge, len(data), d.options.maxPayload)
	}
	if len(data) == 0 || data[0] != '{' {
		return fmt.Errorf("%w: not an object", events.ErrInvalidPayload)
	}
	if d.Payload == nil {
		return nil
	}
	if err := d.Payload.Validate(data); err != nil {
		return fmt.Errorf("%w: %w", events.ErrInvalidPayload, err)
	}
	return nil
}

// withoutPrivate returns a copy of a payload without its private members. The copy has the form of decoded JSON (OCC-7).
func (d *definition) withoutPrivate(payload any) (any, error) {
	data, err := codec.Encode(payload)
	if err != nil {
		return nil, err
	}
	v, err := validate.Decode(data)
	if err != nil {
		return nil, err
	}
	return v, d.guard("removal of private members", func() error { d.private.RemoveFrom(v); return nil })
}

// guard calls f, which runs a hook of the type, and converts a panic to an error.
func (d *definition) guard(name string, f func() error) error {
	return hook.Place{Hook: name, Event: d.info.Name}.Run(f)
}
