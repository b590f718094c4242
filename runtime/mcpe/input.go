package mcpe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A refusal is the error result of a tool call (MCPE-TOOL-4).
type refusal struct{ mcpewire.Refusal }

func (r *refusal) Error() string { return r.Message }

func refuse(code mcpewire.Code, format string, args ...any) *refusal {
	return &refusal{mcpewire.Refusal{Code: code, Name: code.String(), Message: fmt.Sprintf(format, args...)}}
}

// invalidField returns a refusal that names an invalid field (MCPE-TOOL-6).
func invalidField(field, format string, args ...any) *refusal {
	return refuse(mcpewire.CodeInvalidParams, "%s: %s", field, fmt.Sprintf(format, args...))
}

// Limits for the values of a subscription. Options contains further limits.
const (
	maxPattern = 256
	maxText    = 16 << 10
	maxArgs    = 64
)

// An object is a JSON object in a caller's arguments, together with its path.
type object struct {
	at      string
	members map[string]json.RawMessage
}

// parseObject parses raw. It returns an empty object if raw is absent or null (MCPE-TOOL-3).
func parseObject(at string, raw json.RawMessage) (object, *refusal) {
	o := object{at: at}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return o, nil
	}
	if raw[0] != '{' || json.Unmarshal(raw, &o.members) != nil {
		return o, invalidField(cmp.Or(at, "arguments"), "must be an object")
	}
	return o, nil
}

func (o object) path(name string) string {
	if o.at == "" {
		return name
	}
	return o.at + "." + name
}

// get returns a member, or nil if the member is absent or null.
func (o object) get(name string) json.RawMessage {
	raw := bytes.TrimSpace(o.members[name])
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (o object) has(name string) bool { _, ok := o.members[name]; return ok }

func (o object) text(name string) (s string, err *refusal) {
	raw := o.get(name)
	if raw == nil {
		return "", nil
	}
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", invalidField(o.path(name), "must be a string")
	}
	if len(s) > maxText {
		return "", invalidField(o.path(name), "is longer than %d bytes", maxText)
	}
	return s, nil
}

// stringList parses a member as a list of strings. It treats a single string as a list with one element.
func (o object) stringList(name string) (list []string, given bool, err *refusal) {
	raw := o.get(name)
	if raw == nil {
		return nil, false, nil
	}
	if raw[0] == '"' {
		s, err := o.text(name)
		return []string{s}, true, err
	}
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, true, invalidField(o.path(name), "must be a list of strings")
	}
	for _, s := range list {
		if len(s) > maxText {
			return nil, true, invalidField(o.path(name), "holds a string longer than %d bytes", maxText)
		}
	}
	return list, true, nil
}

func (o object) flag(name string, otherwise bool) (v bool, err *refusal) {
	raw := o.get(name)
	if raw == nil {
		return otherwise, nil
	}
	if json.Unmarshal(raw, &v) != nil {
		return false, invalidField(o.path(name), "must be true or false")
	}
	return v, nil
}

func (o object) number(name string, otherwise, from, to int64) (int64, *refusal) {
	raw := o.get(name)
	if raw == nil {
		return otherwise, nil
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || f < float64(from) {
		return 0, invalidField(o.path(name), "must be a whole number of at least %d", from)
	}
	return int64(min(f, float64(to))), nil
}

func (o object) time(name string) (at time.Time, err *refusal) {
	text, err := o.text(name)
	if err != nil || text == "" {
		return at, err
	}
	t, bad := events.ParseTime(text)
	if bad != nil {
		return at, invalidField(o.path(name), "must be a datetime of RFC 3339, such as 2026-01-15T10:30:00Z")
	}
	return t.Time, nil
}

func (o object) zone(name string) (*time.Location, *refusal) {
	text, err := o.text(name)
	if err != nil {
		return nil, err
	}
	text = cmp.Or(text, defaultZone)
	loc, bad := time.LoadLocation(text)
	if bad != nil || text == "Local" {
		return nil, invalidField(o.path(name), "%.64q is not a time zone of the IANA database", text)
	}
	return loc, nil
}

func (o object) table(name string) (table map[string]string, err *refusal) {
	raw := o.get(name)
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '{' || json.Unmarshal(raw, &table) != nil || len(table) > maxArgs || len(raw) > maxText {
		return nil, invalidField(o.path(name), "must be an object of at most %d strings", maxArgs)
	}
	return table, nil
}

// parseFilter parses a filter and checks the number of its values (MCPE-CAP-3).
func (a *Adapter) parseFilter(at string, raw json.RawMessage) (f mcpewire.Filter, err *refusal) {
	o, err := parseObject(at, raw)
	if err != nil {
		return f, err
	}
	if f.EventTypes, _, err = o.stringList("eventTypes"); err != nil {
		return f, err
	}
	if f.Tags, _, err = o.stringList("tags"); err != nil {
		return f, err
	}
	if f.Priority, _, err = o.stringList("priority"); err != nil {
		return f, err
	}
	if n := len(f.EventTypes) + len(f.Tags) + len(f.Priority); n > a.o.MaxFilters {
		return f, invalidField(at, "has %d values; maxFiltersPerSubscription is %d", n, a.o.MaxFilters)
	}
	for _, p := range f.EventTypes {
		if err := checkPattern(o.path("eventTypes"), p); err != nil {
			return f, err
		}
	}
	for _, p := range f.Priority {
		if !slices.Contains(priorities, p) {
			return f, invalidField(o.path("priority"), "%.64q is not one of %s", p, strings.Join(priorities, ", "))
		}
	}
	return f, nil
}

func checkPattern(at, p string) *refusal {
	name := strings.TrimSuffix(p, ".*")
	switch {
	case p == "*":
		return nil
	case p == "" || name == "" || len(p) > maxPattern || !utf8.ValidString(p):
		return invalidField(at, "%.64q is not an event type", p)
	case strings.Contains(name, "*"):
		return invalidField(at, "%.64q is not a pattern: use * by itself, or at the end after a dot, as in github.*", p)
	case strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return invalidField(at, "%.64q holds a space or control character", p)
	}
	return nil
}

// A plan is a delivery with its parsed schedules.
type plan struct {
	wire mcpewire.Delivery
	cron *cron.Schedule
	zone *time.Location
	at   time.Time
}

func (p *plan) has(channel string) bool { return slices.Contains(p.wire.Channels, channel) }

// parseDelivery parses a delivery. If no channels are given, it uses the channels of the given schedules, or realtime.
func (a *Adapter) parseDelivery(at string, raw json.RawMessage) (*plan, *refusal) {
	o, err := parseObject(at, raw)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	channels, given, err := o.stringList("channels")
	if err != nil {
		return nil, err
	}
	if given && len(channels) == 0 {
		return nil, invalidField(o.path("channels"), "is empty; give one or more of %s", strings.Join(a.o.channels(), ", "))
	}
	if !given {
		if o.get("cronSchedule") != nil {
			channels = append(channels, wire.MCPECron)
		}
		if o.get("scheduledDelivery") != nil {
			channels = append(channels, wire.MCPEScheduled)
		}
		if len(channels) == 0 {
			channels = []string{wire.MCPERealtime}
		}
	}
	for _, c := range channels {
		if !slices.Contains(a.o.channels(), c) {
			return nil, invalidField(o.path("channels"), "%.64q is not one of %s", c, strings.Join(a.o.channels(), ", "))
		}
		if !p.has(c) {
			p.wire.Channels = append(p.wire.Channels, c)
		}
	}
	if p.has(wire.MCPECron) {
		if err := a.parseCron(p, o); err != nil {
			return nil, err
		}
	}
	if p.has(wire.MCPEScheduled) {
		if err := a.parseScheduled(p, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (a *Adapter) parseCron(p *plan, o object) (err *refusal) {
	if o.get("cronSchedule") == nil {
		return invalidField(o.path("cronSchedule"), "is required by the channel cron")
	}
	c, err := parseObject(o.path("cronSchedule"), o.get("cronSchedule"))
	if err != nil {
		return err
	}
	s := &mcpewire.CronSchedule{}
	if s.Expression, err = c.text("expression"); err != nil {
		return err
	}
	var bad error
	if p.cron, bad = cron.Parse(s.Expression); bad != nil {
		return invalidField(c.path("expression"), "%v", bad)
	}
	if p.zone, err = c.zone("timezone"); err != nil {
		return err
	}
	s.Timezone = p.zone.String()
	if s.AggregateEvents, err = c.flag("aggregateEvents", true); err != nil {
		return err
	}
	n, err := c.number("maxEventsPerDelivery", int64(min(defaultBatch, a.o.MaxBatch)), 1, int64(a.o.MaxBatch))
	s.MaxEventsPerDelivery = int(n)
	p.wire.CronSchedule = s
	return err
}

func (a *Adapter) parseScheduled(p *plan, o object) (err *refusal) {
	if o.get("scheduledDelivery") == nil {
		return invalidField(o.path("scheduledDelivery"), "is required by the channel scheduled")
	}
	c, err := parseObject(o.path("scheduledDelivery"), o.get("scheduledDelivery"))
	if err != nil {
		return err
	}
	s := &mcpewire.ScheduledOnce{}
	if p.at, err = c.time("deliverAt"); err != nil {
		return err
	}
	if p.at.IsZero() {
		return invalidField(c.path("deliverAt"), "is required")
	}
	s.DeliverAt, _ = c.text("deliverAt")
	zone, err := c.zone("timezone")
	if err != nil {
		return err
	}
	s.Timezone = zone.String()
	if s.Description, err = c.text("description"); err != nil {
		return err
	}
	if s.AggregateEvents, err = c.flag("aggregateEvents", true); err != nil {
		return err
	}
	s.AutoExpire, err = c.flag("autoExpire", true)
	p.wire.ScheduledDelivery = s
	return err
}

// A change contains the members of a subscription to set. Nil and zero members leave the old values unchanged.
type change struct {
	filter  *mcpewire.Filter
	plan    *plan
	handler *mcpewire.Handler
	expires time.Time
	// dropHandler and dropExpiry are set if the member is null.
	dropHandler, dropExpiry bool
}

// parseChange parses the members of a subscription in o. local reports whether the caller is local.
func (a *Adapter) parseChange(o object, local bool) (c change, err *refusal) {
	if raw := o.get("filter"); raw != nil {
		f, err := a.parseFilter(o.path("filter"), raw)
		if err != nil {
			return c, err
		}
		c.filter = &f
	}
	if raw := o.get("delivery"); raw != nil {
		if c.plan, err = a.parseDelivery(o.path("delivery"), raw); err != nil {
			return c, err
		}
	}
	if raw := o.get("handler"); raw != nil {
		if c.handler, err = a.parseHandler(o.path("handler"), raw, local); err != nil {
			return c, err
		}
	}
	c.dropHandler = o.has("handler") && c.handler == nil
	if c.expires, err = o.time("expiresAt"); err != nil {
		return c, err
	}
	if !c.expires.IsZero() && a.o.WithoutExpiration {
		return c, invalidField(o.path("expiresAt"), "subscriptions do not expire on this server")
	}
	c.dropExpiry = o.has("expiresAt") && c.expires.IsZero()
	return c, nil
}
