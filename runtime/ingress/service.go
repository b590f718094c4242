package ingress

import (
	"errors"
	"net/http"
	"time"
)

// Names of services in event files.
const (
	ProviderGitHub           = "github"
	ProviderStripe           = "stripe"
	ProviderSlack            = "slack"
	ProviderGitLab           = "gitlab"
	ProviderStandardWebhooks = "standard-webhooks"
	ProviderHMAC             = "hmac"
	ProviderCloudEvents      = "cloudevents"
	ProviderSNS              = "sns"
	ProviderDiscord          = "discord"
	ProviderCustom           = "custom" // a Service of another package
)

// A Service verifies requests from a service and decodes their deliveries. Implementations must be safe for concurrent
// use.
//
// If an implementation has a method MaxBody() int64, its result is the default of [Options.MaxBody].
type Service interface {
	// Provider returns the name of the service in routes.
	Provider() string
	// Receive verifies and parses a request of any method. r.Body is bounded in size and time; [CheckJSON] and
	// [Unpack] help to read it. Receive should reject a request with invalid headers before reading its body.
	//
	// The [Handler] answers 401 to errors that are or wrap [ErrHeaders], [ErrStale] or [ErrSignature], the status of a
	// [*Refusal], 413, 408 or 400 to errors of r.Body, and 400 to all others. The text of an error goes to the log and
	// should not quote values of the request.
	Receive(r *http.Request) (Result, error)
}

// Errors from [Service.Receive] for requests that cannot be verified. The handler logs them and responds with 401.
var (
	// ErrHeaders reports missing, repeated or malformed authentication headers.
	ErrHeaders = errors.New("ingress: the headers that authenticate are missing or malformed")
	// ErrStale reports a timestamp that is too far from the current time.
	ErrStale = errors.New("ingress: the timestamp is too old or too new")
	// ErrSignature reports a request that is not signed with an accepted secret or key.
	ErrSignature = errors.New("ingress: no signature matches")
)

// A Refusal is an error from [Service.Receive] with a status for the response. For example, 503 makes the service
// repeat the request.
type Refusal struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Reason is for the log. The response does not contain it.
	Reason string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// A Result is the content of a verified request. It consists of deliveries, a response that the service expects, or
// both.
type Result struct {
	// Deliveries are the events in the request, in order.
	Deliveries []Delivery
	// Answer replaces the empty responses 202 and 204. The handler sends it after the deliveries were stored in the
	// log.
	Answer *Answer
}

// An Answer is the response to a request, such as the text of a challenge.
type Answer struct {
	// Status is the HTTP status, 200 to 599. If it is 0, the status is 200.
	Status int
	// Header contains the header fields of the response, such as Content-Type.
	Header http.Header
	// Body is the content.
	Body []byte
}

// A Delivery is an event in a verified request.
type Delivery struct {
	// ID is the service's id of the delivery. A repeated delivery has the same id. It is empty if the routes specify
	// its location (see [From]).
	ID string
	// Event is the service's name for the event, such as "issues" or "invoice.paid". Action distinguishes events with
	// the same name, such as "opened". It is empty for services without actions.
	Event, Action string
	// Time is the time of the event according to the service, or zero if it is unknown.
	Time time.Time
	// Body is the JSON object to which the routes refer.
	Body []byte
}

// singleDelivery returns the result of a request that contains a single event.
func singleDelivery(d Delivery) Result { return Result{Deliveries: []Delivery{d}} }
