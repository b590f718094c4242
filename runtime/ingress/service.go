package ingress

import (
	"errors"
	"net/http"
	"time"
)

// Words that event files name services by.
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

// A Service verifies the requests of one service and reads the deliveries in them. It is safe for concurrent use.
//
// If its type has a method MaxBody() int64, that is the default of [Options.MaxBody].
type Service interface {
	// Provider returns the word that routes name the service by.
	Provider() string
	// Receive verifies a request of any method and reads it. r.Body is bounded in size and time; [CheckJSON] and
	// [Unpack] help to read it. A request that nobody could have signed should be refused by its headers, before
	// its body is read.
	//
	// Errors that are or wrap [ErrHeaders], [ErrStale] or [ErrSignature] are answered 401, and a [*Refusal] with its
	// status. Errors of r.Body are answered 413, 408 or 400. All others are answered 400. The text of an error is for the log
	// and should not repeat a value of the request.
	Receive(r *http.Request) (Result, error)
}

// Errors of [Service.Receive] for requests that are not verified. The log names them; the answer is 401 for each.
var (
	// ErrHeaders is a request whose authenticating headers are missing, repeated or malformed.
	ErrHeaders = errors.New("ingress: the headers that authenticate are missing or malformed")
	// ErrStale is a request whose timestamp is too far from the present.
	ErrStale = errors.New("ingress: the timestamp is too old or too new")
	// ErrSignature is a request that no accepted secret or key has signed.
	ErrSignature = errors.New("ingress: no signature matches")
)

// A Refusal is an error of [Service.Receive] that sets the status of the answer, such as 503 to make the service
// repeat the request.
type Refusal struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Reason is for the log.
	Reason string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// A Result is the content of a verified request: deliveries, an answer that the service waits for, or both.
type Result struct {
	// Deliveries are the events of the request, in order.
	Deliveries []Delivery
	// Answer replaces the empty answers 202 and 204. It is sent after the deliveries are in the log.
	Answer *Answer
}

// An Answer is the response to a request, such as the text of a challenge.
type Answer struct {
	// Status is the HTTP status, 200 to 599; 0 means 200.
	Status int
	// Header holds the fields of the response, such as Content-Type.
	Header http.Header
	// Body is the content.
	Body []byte
}

// A Delivery is one event of a verified request.
type Delivery struct {
	// ID is the service's id of the delivery, the same for a repeated delivery. It is empty if the routes name its place (see
	// [From]).
	ID string
	// Event is the service's name of the event, such as "issues" or "invoice.paid". Action distinguishes the events
	// that a service sends under one name, such as "opened"; it is empty for services without actions.
	Event, Action string
	// Time is the service's time of the event, or zero.
	Time time.Time
	// Body is the JSON object that the routes read.
	Body []byte
}

// delivered is the result of a request with one event.
func delivered(d Delivery) Result { return Result{Deliveries: []Delivery{d}} }
