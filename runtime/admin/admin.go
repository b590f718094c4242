// Package admin serves the operator's view of a server as a JSON API and a console of HTML pages. It shows
// subscriptions, connections and the results of webhook deliveries, and lets operators act on them. Start with
// [NewHandler]; openapi.yaml, which the handler serves, describes the API.
//
// Every request must pass [Options.Authenticate]. A GET request does not change state. An action requires an
// Idempotency-Key. If a request to one subscription is repeated with the same key, the response has the number of the
// first request, unless a newer request of its kind has replaced it. A test event is emitted once per key.
package admin

import (
	"cmp"
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

// A Verb is the operation that a request performs.
type Verb string

// The verbs. Test, Send, Replay, EndReplay, Pause, Unpause, Resume, End, Disconnect, Revoke, Reopen, PutBack and Drop change
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
	// ShowType shows an event type with its schemas. Tail follows occurrences live.
	ShowType Verb = "type"
	Tail     Verb = "tail"
	// ListOutbox lists the rejected outbox entries, which are not valid occurrences.
	ListOutbox Verb = "outbox"
	// Show shows one subscription. Attempts shows the attempts of one subscription, or of all subscriptions that match
	// the filter.
	Show     Verb = "show"
	Attempts Verb = "attempts"
	// Test emits an event for one subscription to check whether the subscription receives it.
	Test Verb = "test"
	// Send resends an event to one subscription.
	Send Verb = "send"
	// Replay redelivers all events after a cursor.
	Replay Verb = "replay"
	// EndReplay stops a replay in progress.
	EndReplay Verb = "endreplay"
	// Pause pauses deliveries until Unpause.
	Pause   Verb = "pause"
	Unpause Verb = "unpause"
	// Resume ends a suspension.
	Resume Verb = "resume"
	// End ends one subscription. Disconnect ends one stream or poller.
	End        Verb = "end"
	Disconnect Verb = "disconnect"
	// Revoke ends all subscriptions of a principal.
	Revoke Verb = "revoke"
	// Reopen ends the termination of an event type.
	Reopen Verb = "reopen"
	// ListAudit lists the audit log.
	ListAudit Verb = "audit"
	// ShowCluster shows the processes that share the store.
	ShowCluster Verb = "cluster"
	// PutBack returns a rejected entry to the outbox. Drop deletes it.
	PutBack Verb = "putback"
	Drop    Verb = "drop"
)

// An Action describes the operation that Authorize allows or rejects. An empty field means that the action is not
// restricted in that respect. For a list of all subscriptions, Principal and Event are empty. For a filtered list, they
// contain the values of the filters.
type Action struct {
	Verb Verb
	// Subscription is the id of the subscription, if any. Connection is the id of the stream or poller, if any.
	Subscription, Connection string
	// Host is the callback host of the filter.
	Host string
	// Rejected is the number of the rejected outbox entry, if any.
	Rejected string
	// Principal and Event are the values of the subscription or connection, or of the filters of a list.
	Principal, Event string
}

// ErrUnauthenticated is returned by Authenticate for a request without valid credentials. The response has status 401
// instead of 403. A request with an Authorization header counts as a guess from its address, which is the peer's
// address or the result of [Options.ClientAddress]. After ten guesses in a minute, further requests with credentials
// from the address are rejected with status 429 without checking the credentials. Credentials that were previously
// valid are exempt.
var ErrUnauthenticated = errors.New("admin: not authenticated")

// Options configure [NewHandler].
type Options struct {
	// Authenticate returns the actor that sent the request, or [ErrUnauthenticated]. It is called before the request
	// body or the store is read, and it must not read the body. Required; see [Tokens].
	Authenticate func(r *http.Request) (actor string, err error)
	// Authorize returns an error if the actor may not perform the action. It is called several times for a response
	// that depends on several actions. If Authorize is nil, every authenticated actor may perform every action.
	Authorize func(r *http.Request, actor string, a Action) error
	// Hosts lists the host names that the handler serves. A name with a port allows only that port. Requests for other
	// hosts are rejected to protect against DNS rebinding. Required.
	Hosts []string
	// ClientAddress returns the client's address for a request that came through a proxy. The result can be the value
	// of a header that the proxy overwrites, or "" for the peer's address. Wrong credentials count against this
	// address. Never return a value that clients choose, such as the first part of X-Forwarded-For, because a client
	// could use a new address for each guess. Optional.
	ClientAddress func(r *http.Request) string
	// ShowPayloads enables showing the payloads of occurrences in live tails and on their pages. If it is false,
	// operators see only the ids, times and sizes of occurrences.
	ShowPayloads bool
	// Redact lists JSON Pointers (RFC 6901) to values in the payloads of all event types. These values are shown as
	// "[redacted]". A pointer that matches no value in a payload is ignored. A payload that cannot be parsed is not
	// shown.
	Redact []string
	// Audit is called after every action. Actions are also written to Logger and to the store's audit log, which drops
	// old entries ([operator.Admin.Note]).
	Audit func(operator.AuditEntry)
	// Logger logs a record with the group "audit" for every action, and logs internal errors. The default is
	// slog.Default().
	Logger *slog.Logger
}

// A handler serves the console and the API of one server.
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
	tails        tailCounter
	mux          *http.ServeMux
	paths        []string // of all routes, for the comparison with openapi.yaml
}

// NewHandler returns a handler that serves the console at its root and the API below /api/. Mount it anywhere with
// http.StripPrefix. It returns an error if Authenticate is nil or Hosts is empty.
func NewHandler(es *server.Server, o Options) (http.Handler, error) {
	switch {
	case es == nil:
		return nil, errors.New("admin.NewHandler: no server given")
	case es.Admin() == nil:
		return nil, errors.New("admin.NewHandler: the server has no part for operators: set server.Options.Operators to operators.New()")
	case o.Authenticate == nil:
		return nil, errors.New("admin.NewHandler: Options.Authenticate is missing: anybody could do anything")
	case len(o.Hosts) == 0:
		return nil, errors.New("admin.NewHandler: Options.Hosts is empty: it must name the hosts that operators use")
	}
	h := &handler{admin: es.Admin(), authenticate: o.Authenticate, authorize: o.Authorize, audit: o.Audit, log: cmp.Or(o.Logger, slog.Default()),
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

// isAllowedHost reports whether the request's Host is allowed.
func (h *handler) isAllowedHost(host string) bool {
	host = strings.ToLower(host)
	if slices.Contains(h.hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && (slices.Contains(h.hosts, name) || slices.Contains(h.hosts, "["+name+"]"))
}

// contentPolicy is the Content-Security-Policy of the console. It allows the style sheet and forms, but no scripts.
// policyOfTail also allows the script of the live tail and its connection.
const (
	contentPolicy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	policyOfTail  = contentPolicy + "; script-src 'self'; connect-src 'self'"
)

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, bodyTime)
	head := w.Header()
	head.Set("Content-Security-Policy", contentPolicy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	if !h.isAllowedHost(r.Host) {
		problem(w, http.StatusMisdirectedRequest, "foreign_host", "the host name is not in admin.Options.Hosts")
		return
	}
	if err := h.origins.Check(r); err != nil {
		problem(w, http.StatusForbidden, "cross_origin", "the request comes from another origin")
		return
	}
	h.mux.ServeHTTP(w, r)
}

// A page handles a request from an authenticated actor.
type page func(w http.ResponseWriter, r *http.Request, actor string)

// routes registers the routes in the mux. For other methods on a path, the response lists the allowed methods. Every
// request is authenticated first, except for public paths, which are registered separately.
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
			actor, ok := h.authenticateOrFail(w, r)
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
			h.refuse(w, r, http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed: use "+list)
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, r, http.StatusNotFound, "no_such_page", "no page has this path")
	})
}

// authenticateOrFail authenticates the request. If Authenticate rejects it, authenticateOrFail writes an error response
// and returns false.
func (h *handler) authenticateOrFail(w http.ResponseWriter, r *http.Request) (actor string, ok bool) {
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
		h.fail(w, r, "", h.forbid(r.Context(), "authenticate", err))
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

// authorizeOrFail authorizes the action. If Authorize rejects it, authorizeOrFail writes an error response and returns
// false.
func (h *handler) authorizeOrFail(w http.ResponseWriter, r *http.Request, actor string, a Action) bool {
	err := h.allow(r, actor, a)
	if err != nil {
		h.fail(w, r, "", err)
	}
	return err == nil
}

// allow authorizes all actions of a request. It returns errForbidden if Authorize rejects one.
func (h *handler) allow(r *http.Request, actor string, actions ...Action) error {
	for _, a := range actions {
		if err := h.authorize(r, actor, a); err != nil {
			return h.forbid(r.Context(), a.Verb, err)
		}
	}
	return nil
}

// forbid logs why a request is rejected, and returns errForbidden.
func (h *handler) forbid(ctx context.Context, verb Verb, err error) error {
	h.log.LogAttrs(ctx, slog.LevelInfo, "admin: refused", slog.String("verb", string(verb)), slog.Any("error", err))
	return errForbidden
}
