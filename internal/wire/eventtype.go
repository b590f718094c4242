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
	// Fault returns the fault of an event type, or "". Remedy describes how to correct it.
	Fault  func(t *EventType) string
	Remedy string
}

// EventRules lists the rules that the generator applies to an event file, and a server to a registration.
var EventRules = []EventRule{
	{"name", func(t *EventType) string {
		return textIf(CheckEventName(t.Name) != nil, "%q cannot name an event", t.Name)
	}, NameForm},
	{"delivery", func(t *EventType) string {
		return textIf(slices.ContainsFunc(t.Delivery, isUnknownMode), "delivery %q has an unknown mode", t.Delivery)
	}, "use poll, push and webhook"},
	{"replay", func(t *EventType) string {
		return textIf(t.NoReplay && t.Checked, "an event type with a check has cursors, so replay cannot be false")
	}, "leave replay out, or let the program emit the events, without a check"},
	{"delivery", func(t *EventType) string {
		return textIf(t.NoReplay && !t.PollsHeld && slices.Equal(t.Delivery, []string{ModePoll}), "a poll without replay receives nothing, and delivery has only poll")
	}, "add push to delivery, or register the type with server.WithPollWithoutReplay"},
}

func isUnknownMode(mode string) bool { return !slices.Contains(DeliveryModes, mode) }

// textIf returns the formatted text if broken is true, or "".
func textIf(broken bool, format string, args ...any) string {
	if !broken {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// Check returns an error with the fault and the remedy of the first rule that t breaks.
func (t EventType) Check() error {
	for _, r := range EventRules {
		if fault := r.Fault(&t); fault != "" {
			return fmt.Errorf("%s (%s)", fault, r.Remedy)
		}
	}
	return nil
}
