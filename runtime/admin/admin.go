// Package admin serves the operator's view of a server, as a JSON API and as a console of HTML pages. It shows who is
// subscribed and connected, and what webhooks were sent and answered, and lets operators act on it. Start with
// [NewHandler]; openapi.yaml, which the handler serves, describes the API.
//
// Every request must pass [Options.Authenticate]. GET changes nothing. An action needs an Idempotency-Key: if the
// request is repeated with the same key within 10 minutes, the action is not repeated. The server's store remembers
// keys, for all processes that share it.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/origin"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A Verb is an operation that a request wants to perform.
type Verb string

// The verbs. Test, Send, Replay, EndReplay, Pause, Unpause, Resume, End, Disconnect, Revoke, PutBack and Drop change
// state.
const (
	// ListTypes lists event types. ListSubscriptions and ListConnections list subscriptions and connections that match
	// the filters.
	ListTypes         Verb = "types"
	ListSubscriptions Verb = "subscriptions"
	ListConnections   Verb = "connections"
	// ShowOccurrence shows an occurrence and its deliveries. FindOccurrence finds occurrences by event id.
	ShowOccurrence Verb = "occurrence"
	FindOccurrence Verb = "find"
	// ShowType shows one event type with its schemas. Tail follows occurrences live.
	ShowType Verb = "type"
	Tail     Verb = "tail"
	// ListOutbox lists outbox entries that were set aside because they are not valid occurrences.
	ListOutbox Verb = "outbox"
	// Show shows one subscription. Attempts shows the attempts of one subscription, or of all that match the filter.
	Show     Verb = "show"
	Attempts Verb = "attempts"
	// Test emits an event for one subscription, to see whether it arrives.
	Test Verb = "test"
	// Send resends one event to one subscription.
	Send Verb = "send"
	// Replay redelivers all events after a cursor.
	Replay Verb = "replay"
	// EndReplay stops a replay that is under way.
	EndReplay Verb = "endreplay"
	// Pause holds back deliveries until Unpause.
	Pause   Verb = "pause"
	Unpause Verb = "unpause"
	// Resume ends a suspension.
	Resume Verb = "resume"
	// End ends one subscription. Disconnect ends one stream or poller.
	End        Verb = "end"
	Disconnect Verb = "disconnect"
	// Revoke ends all subscriptions of a principal.
	Revoke Verb = "revoke"
	// ListAudit lists the audit log.
	ListAudit Verb = "audit"
	// ShowCluster shows the processes that share the store.
	ShowCluster Verb = "cluster"
	// PutBack returns an entry that was set aside to the outbox. Drop deletes it.
	PutBack Verb = "putback"
	Drop    Verb = "drop"
)

// An Action describes the operation that Authorize decides about. An empty field does not restrict it: a list of all
// subscriptions has neither principal nor event, a filtered list has those of its filters.
type Action struct {
	Verb Verb
	// Subscription is the subscription's id, and Connection the id of a stream or poller, if the action concerns one.
	Subscription, Connection string
	// Host is the callback host in the filter.
	Host string
	// Rejected is the number of an outbox entry that was set aside, if the action concerns one.
	Rejected string
	// Principal and Event are those of the subscription or connection, or the filters of a list.
	Principal, Event string
}

// ErrUnauthenticated is the error that Authenticate returns for a request without valid credentials. The response has
// status 401 instead of 403. With an Authorization header the request counts as a guess by its address, as seen by the
// server or returned by [Options.ClientAddress]. After ten guesses in a minute, further credentials from the address
// get 429 unread, except credentials that were right before.
var ErrUnauthenticated = errors.New("admin: not authenticated")

// Options configure [NewHandler].
type Options struct {
	// Authenticate returns the actor who makes a request, or [ErrUnauthenticated]. It sees only the head of the request
	// and runs before the body or the store is read. Required; see [Tokens].
	Authenticate func(r *http.Request) (actor string, err error)
	// Authorize returns an error if the actor may not perform the action. It runs several times if a response depends
	// on several actions. If nil, every authenticated actor may do everything.
	Authorize func(r *http.Request, actor string, a Action) error
	// Hosts are the host names that the handler serves, with a port to allow only that one. Requests for other hosts
	// are refused, which protects against DNS rebinding. Required.
	Hosts []string
	// ClientAddress returns the client's address for a request that came through a proxy. It may be the value of a
	// header that the proxy overwrites, or "" for the address that the server sees. Wrong credentials count against it.
	// Never return a value that clients choose, such as the first part of X-Forwarded-For: a client could use a new
	// address for each guess. Optional.
	ClientAddress func(r *http.Request) string
	// ShowPayloads shows the payloads of occurrences in live tails and on their pages. Without it operators only see
	// their ids, times and sizes.
	ShowPayloads bool
	// Redact lists JSON Pointers (RFC 6901) into the payloads of every event type. The values they point at are shown
	// as "[redacted]"; a pointer without a value in a payload has no effect on it. A payload that cannot be read is not
	// shown.
	Redact []string
	// Audit is called after every action, in addition to Logger and the store's audit log, which drops old entries
	// ([operator.Admin.Note]).
	Audit func(operator.AuditEntry)
	// Logger logs a line with the group "audit" for every action, and internal failures. The default is slog.Default().
	Logger *slog.Logger
}

// A handler serves the operators of one server.
type handler struct {
	admin        operator.Admin
	authenticate func(*http.Request) (string, error)
	authorize    func(*http.Request, string, Action) error
	hosts        []string
	audit        func(operator.AuditEntry)
	log          *slog.Logger
	origins      origin.Rule
	payloads     bool
	redact       redaction
	guesses      inbound.Guesses
	tails        tails
	mux          *http.ServeMux
	paths        []string // of all routes, for the comparison with openapi.yaml
}

// NewHandler returns a handler that serves the console at its root and the API below /api/. Mount it anywhere with
// http.StripPrefix. It returns an error if Authenticate is nil or Hosts is empty.
func NewHandler(es *server.Server, o Options) (http.Handler, error) {
	switch {
	case es == nil:
		return nil, errors.New("admin.NewHandler: no server given")
	case o.Authenticate == nil:
		return nil, errors.New("admin.NewHandler: Options.Authenticate is missing: anybody could do anything")
	case len(o.Hosts) == 0:
		return nil, errors.New("admin.NewHandler: Options.Hosts is empty: it must name the hosts that operators use")
	}
	h := &handler{admin: es.Admin(), authenticate: o.Authenticate, authorize: o.Authorize, audit: o.Audit, log: o.Logger,
		payloads: o.ShowPayloads}
	if h.authorize == nil {
		h.authorize = func(*http.Request, string, Action) error { return nil }
	}
	for _, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/@ *") {
			return nil, fmt.Errorf("admin.NewHandler: %q in Options.Hosts is not a host or host:port", host)
		}
		h.hosts = append(h.hosts, strings.ToLower(host))
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.guesses.Client = o.ClientAddress
	h.guesses.Report = func(failures, addresses int, most string) {
		h.log.Warn("admin: wrong credentials", "failures", failures, "addresses", addresses, "most", most)
	}
	var err error
	if h.redact, err = readRedaction(o.Redact); err != nil {
		return nil, fmt.Errorf("admin.NewHandler: Options.Redact: %w", err)
	}
	h.routes()
	return h, nil
}

// hosted reports whether the request's Host is allowed.
func (h *handler) hosted(host string) bool {
	host = strings.ToLower(host)
	if slices.Contains(h.hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && (slices.Contains(h.hosts, name) || slices.Contains(h.hosts, "["+name+"]"))
}

// policy allows the console's style sheet and forms, and no script. policyOfTail also allows the live tail's script and
// its connection.
const (
	policy       = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	policyOfTail = policy + "; script-src 'self'; connect-src 'self'"
)

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, bodyTime)
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	if !h.hosted(r.Host) {
		problem(w, http.StatusMisdirectedRequest, "foreign_host", "this host is not served here")
		return
	}
	if err := h.origins.Check(r); err != nil {
		problem(w, http.StatusForbidden, "cross_origin", "the request comes from another origin")
		return
	}
	h.mux.ServeHTTP(w, r)
}

// A page handles a request of an authenticated actor.
type page func(w http.ResponseWriter, r *http.Request, actor string)

// routes fills the mux. Each path serves its method and answers other methods with the allowed ones. Requests are
// authenticated before anything else, except for public paths, which are separate.
func (h *handler) routes() {
	h.mux = http.NewServeMux()
	methods := map[string][]string{}
	open := func(method, path string, f http.HandlerFunc) {
		h.mux.HandleFunc(method+" "+path, f)
		methods[path] = append(methods[path], method)
		h.paths = append(h.paths, method+" "+path)
	}
	add := func(method, path string, f page) {
		named := strings.Contains(path, "/subscriptions/{id}")
		open(method, path, func(w http.ResponseWriter, r *http.Request) {
			actor, ok := h.known(w, r)
			if ok && (!named || h.completeID(w, r, actor)) {
				f(w, r, actor)
			}
		})
	}
	h.api(add)
	h.static(open)
	h.console(add)
	for path, allowed := range methods {
		h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			list := strings.Join(allowed, ", ")
			w.Header().Set("Allow", list)
			h.refuse(w, r, http.StatusMethodNotAllowed, "method_not_allowed", "this takes "+list)
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, r, http.StatusNotFound, "no_such_page", "there is nothing at this path")
	})
}

// known authenticates the request. If Authenticate refuses, known has written the response.
func (h *handler) known(w http.ResponseWriter, r *http.Request) (actor string, ok bool) {
	guess := r.Header.Get("Authorization") != ""
	if wait := h.guesses.Wait(r); guess && wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		h.refuse(w, r, http.StatusTooManyRequests, "too_many_guesses", "too many wrong credentials came from this address")
		return "", false
	}
	actor, err := h.authenticate(r)
	if err == nil {
		if guess {
			h.guesses.Succeeded(r)
		}
		return actor, true
	}
	if !errors.Is(err, ErrUnauthenticated) {
		h.forbid(w, r, "authenticate", err)
		return "", false
	}
	detail := "the operator token is missing: send it as a bearer token, or from a browser as the password of any user"
	if guess {
		h.guesses.Failed(r)
		detail = "the operator token is wrong"
	}
	w.Header().Add("WWW-Authenticate", "Bearer")
	w.Header().Add("WWW-Authenticate", `Basic realm="events", charset="UTF-8"`)
	h.refuse(w, r, http.StatusUnauthorized, "unauthenticated", detail)
	return "", false
}

// allowed authorizes the action. If Authorize refuses, allowed has written the response.
func (h *handler) allowed(w http.ResponseWriter, r *http.Request, actor string, a Action) bool {
	err := h.authorize(r, actor, a)
	if err != nil {
		h.forbid(w, r, a.Verb, err)
	}
	return err == nil
}

func (h *handler) forbid(w http.ResponseWriter, r *http.Request, verb Verb, err error) {
	h.logRefusal(r.Context(), verb, err)
	h.refuse(w, r, http.StatusForbidden, "forbidden", "this is not allowed")
}

func (h *handler) logRefusal(ctx context.Context, verb Verb, err error) {
	h.log.LogAttrs(ctx, slog.LevelInfo, "admin: refused", slog.String("verb", string(verb)), slog.Any("error", err))
}
