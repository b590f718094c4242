package fault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// The message of an error is its name and, if there is one, a short reason: people print the message. The reasons are
// the texts below and those of the checks of params. The text of an author's hook or of an endpoint is never a reason;
// an author can put text into the data.

// errorMessage returns the message of an error. The message consists of the error's name and the reason, if it is not
// empty.
func errorMessage(kind wire.Kind, reason string) string {
	if reason == "" {
		return kind.String()
	}
	return kind.String() + ": " + reason
}

// Reasons for refusing a verification. ReasonUndecided means that the caller timed out while it waited for
// verifications by other callers. ReasonOthers means that other callers' verifications of the same host have failed.
const (
	ReasonUndecided = "undecided"
	ReasonOthers    = "others"
)

// Reasons that correspond to the values in an error's data. Other values have no reason.
var (
	notFoundReasons = map[string]string{"event": "no such event type", "subscription": "no such subscription"}
	changedReasons  = map[string]string{FeatureInput: "inputSchema has changed", FeaturePayload: "payloadSchema has changed"}
	modeReasons     = map[string]string{
		wire.ModePoll:    "delivery mode poll is not offered",
		wire.ModePush:    "delivery mode push is not offered",
		wire.ModeWebhook: "delivery mode webhook is not offered",
	}
	limitReasons = map[string]string{ // for limits with a max
		"subscriptions": "at most %d subscriptions",
		"streams":       "at most %d streams",
		"bytes":         "at most %d bytes",
		"verifications": "at most %d verified callbacks",
	}
	verificationReasons = map[string]string{ // for verifications without a max (VER-3)
		"":              "too many failed verifications",
		ReasonOthers:    "too many failed verifications of this host, by other callers",
		ReasonUndecided: "too many verifications are under way",
	}
	categories = []wire.Category{wire.ConnectionRefused, wire.Timeout, wire.TLSError, wire.HTTP4xx, wire.HTTP5xx, wire.ChallengeFailed}
)

// reasonOf returns the reason derived from an error's data, or "" if the data does not contain a known value.
func reasonOf(e *events.Error) string {
	var data struct {
		Kind, Feature, Value, Reason, Limit string
		Max                                 int64
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	switch e.Kind {
	case wire.NotFound:
		return notFoundReasons[data.Kind]
	case wire.Unsupported:
		if data.Feature != "deliveryMode" {
			return changedReasons[data.Feature]
		}
		if reason := modeReasons[data.Value]; reason != "" {
			return reason
		}
		return "the delivery mode is not offered"
	case wire.ResourceExhausted:
		if reason := limitReasons[data.Limit]; reason != "" && data.Max > 0 {
			return fmt.Sprintf(reason, data.Max)
		}
		if data.Limit == "verifications" {
			return verificationReasons[data.Reason]
		}
	case wire.Internal:
		if data.Reason == wire.ReasonShuttingDown {
			return "the server is shutting down"
		}
	case wire.CallbackEndpointError:
		if slices.Contains(categories, wire.Category(data.Reason)) {
			return data.Reason
		}
	}
	return ""
}

// paramsReason returns the first error found when the params were validated. It escapes and truncates names chosen by
// the caller.
func paramsReason(e *events.Error) string {
	var data wire.FieldErrors
	if json.Unmarshal(e.Data, &data) != nil || len(data.Errors) == 0 {
		return ""
	}
	first := data.Errors[0]
	reason := wire.Shown(first.Message)
	if first.Path != "" {
		reason = wire.Shown(first.Path) + " " + reason
	}
	if more := len(data.Errors) - 1; more > 0 {
		reason += " (and " + strconv.Itoa(more) + " more)"
	}
	return reason
}
