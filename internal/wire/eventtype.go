package wire

import (
	"fmt"
	"slices"
)

// DeliveryModes lists the delivery modes in the order of events/list.
var DeliveryModes = []string{ModePoll, ModePush, ModeWebhook}

// An EventType holds the facts about an event type that [EventRules] compare.
type EventType struct {
	Name string
	// Delivery lists the modes in which the type can be received. If it is empty, the list is not limited.
	Delivery []string
	// Checked reports whether a check finds occurrences. PollsHeld reports whether held polls receive them without replay.
	Checked, NoReplay, PollsHeld bool
}

// An EventRule describes event types that a server cannot serve.
type EventRule struct {
	// Key is the key of the event file to which the rule applies.
	Key string
	// Broken reports whether an event type breaks the rule. Fault says how, and Remedy how to correct it.
	Broken        func(t *EventType) bool
	Fault, Remedy string
}

// EventRules lists the rules that the generator applies to an event file, and a server to a registration.
var EventRules = []EventRule{
	{"name", func(t *EventType) bool { return CheckEventName(t.Name) != nil }, "an event cannot have this name", NameForm},
	{"delivery", func(t *EventType) bool {
		return slices.ContainsFunc(t.Delivery, func(mode string) bool { return !slices.Contains(DeliveryModes, mode) })
	}, "delivery has an unknown mode", "use poll, push and webhook"},
	{"replay", func(t *EventType) bool { return t.NoReplay && t.Checked }, "an event type with a check has cursors, so replay cannot be false",
		"leave replay out, or let the program emit the events, without a check"},
	{"delivery", func(t *EventType) bool {
		return t.NoReplay && !t.PollsHeld && slices.Equal(t.Delivery, []string{ModePoll})
	}, "a poll without replay receives nothing, and delivery has only poll", "add push to delivery, or register the type with server.WithPollWithoutReplay"},
}

// Check returns an error with the fault and the remedy of the first rule that t breaks.
func (t EventType) Check() error {
	for _, r := range EventRules {
		if r.Broken(&t) {
			return fmt.Errorf("%s (%s)", r.Fault, r.Remedy)
		}
	}
	return nil
}
