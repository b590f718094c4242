// Package admin is the operator's face of a server: who is subscribed and connected, what was sent to
// a webhook and what came back, and what can be done about it, as a JSON API and as a console of HTML
// pages. Start with [NewHandler]; openapi.yaml, which the handler serves, describes the API.
//
// Nothing is reachable without [Options.Authenticate]. GET changes nothing. An action needs an
// Idempotency-Key: sent again with the same key within 10 minutes it is not done again. The server's
// store remembers keys, for all processes that share it.
package admin

import (
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

// A Verb is what a request wants to do.
type Verb string

// The verbs. Those from Test on change something.
const (
	// ListTypes shows event types, ListSubscriptions and ListConnections what the filters leave.
	ListTypes         Verb = "types"
	ListSubscriptions Verb = "subscriptions"
	ListConnections   Verb = "connections"
	// ShowOccurrence shows an occurrence and what became of it, FindOccurrence looks for one by its event id.
	ShowOccurrence Verb = "occurrence"
	FindOccurrence Verb = "find"
	// ShowType shows one event type with its schemas, Tail occurrences as they pass.
	ShowType Verb = "type"
	Tail     Verb = "tail"
	// ListOutbox shows what transactions emitted and was put aside, since it is no occurrence.
	ListOutbox Verb = "outbox"
	// Show shows one subscription, Attempts what was sent to it.
	Show     Verb = "show"
	Attempts Verb = "attempts"
	// Test emits an event for one subscription alone, to see whether it arrives.
	Test Verb = "test"
	// Send sends one event again to one subscription.
	Send Verb = "send"
	// Replay delivers again everything after a cursor.
	Replay Verb = "replay"
	// EndReplay delivers nothing more of a replay under way.
	EndReplay Verb = "endreplay"
	// Pause holds deliveries back until Unpause.
	Pause   Verb = "pause"
	Unpause Verb = "unpause"
	// Resume ends a suspension.
	Resume Verb = "resume"
	// End ends one subscription, Disconnect one stream or poller.
	End        Verb = "end"
	Disconnect Verb = "disconnect"
	// Revoke ends all that a principal has.
	Revoke Verb = "revoke"
	// ListTasks shows actions on many subscriptions, CancelTask ends one early. Beginning one has the verb of what it does:
	// Pause, Unpause, Resume, Replay, EndReplay or Send without a subscription, with the filter's principal and event.
	ListTasks  Verb = "tasks"
	CancelTask Verb = "cancel"
	// ListAudit shows who did what.
	ListAudit Verb = "audit"
	// ShowCluster shows the processes that share the store.
	ShowCluster Verb = "cluster"
	// PutBack lets what was put aside be looked at again, Drop deletes it.
	PutBack Verb = "putback"
	Drop    Verb = "drop"
)

// An Action is what Authorize decides about. Empty members do not restrict it: a list of all
// subscriptions has neither principal nor event, one with filters has theirs.
type Action struct {
	Verb Verb
	// Subscription is the id, and Connection that of a stream or poller, where it is about one.
	Subscription, Connection string
	// Task is the id of an action on many subscriptions, where it is about one.
	Task string
	// Host is that of the filter's callbacks.
	Host string
	// Rejected is the number of what was put aside, where it is about one.
	Rejected string
	// Principal and Event are those of the subscription or connection, or the filters of a list.
	Principal, Event string
}

// ErrUnauthenticated is what Authenticate returns for a request that does not say whose it is: the
// answer is 401 instead of 403. With an Authorization header it counts as a guess: an address, as the
// server sees it, has ten in a minute, after which its credentials get 429 unread.
var ErrUnauthenticated = errors.New("admin: not authenticated")

// Options configure [NewHandler].
type Options struct {
	// Authenticate says who makes a request, by its head alone, or [ErrUnauthenticated]; required. It is
	// asked before a body is read and before the store is; see [Tokens].
	Authenticate func(r *http.Request) (actor string, err error)
	// Authorize says whether the actor may do that, several times where what is shown depends on more than
	// one action; nil lets everybody who is authenticated do everything.
	Authorize func(r *http.Request, actor string, a Action) error
	// Hosts are the names under which the handler is reached, with a port where only that one is
	// meant; required. Other hosts are refused, so that a page of somebody else whose name was made
	// to resolve to this address reaches nothing.
	Hosts []string
	// ShowPayloads shows the payloads of occurrences in live tails and on their pages; else operators see their ids,
	// times and sizes only.
	ShowPayloads bool
	// Redact are JSON Pointers (RFC 6901) into payloads. What they point at is shown as "[redacted]", of every event
	// type; one that leads nowhere in a payload redacts nothing of it. A payload that cannot be read is not shown.
	Redact []string
	// Audit is told of every action once it is over, beside Logger and the store's audit log, which forgets
	// ([operator.Admin.Note]). It is not told of the end of tasks.
	Audit func(operator.AuditEntry)
	// Logger gets a line with the group "audit" for every action, and internal failures; default
	// slog.Default().
	Logger *slog.Logger
}

// A handler serves one server's operators.
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

// NewHandler returns a handler of the console at its root and of the API below /api/. It may be
// mounted anywhere by http.StripPrefix. A nil Authenticate and no Hosts are errors.
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

// hosted reports whether a request's Host is one of ours.
func (h *handler) hosted(host string) bool {
	host = strings.ToLower(host)
	if slices.Contains(h.hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && (slices.Contains(h.hosts, name) || slices.Contains(h.hosts, "["+name+"]"))
}

// policy allows what the console has: its own style sheet and forms, no script at all. policyOfTail
// allows the script of the live tail and its connection beside that.
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

// An action of the handler, and who asks for it.
type page func(w http.ResponseWriter, r *http.Request, actor string)

// routes fills the mux: each path answers its method and says of others what it has. Who asks is known before
// anything is done for a request; what is nobody's has a path of its own.
func (h *handler) routes() {
	h.mux = http.NewServeMux()
	methods := map[string][]string{}
	open := func(method, path string, f http.HandlerFunc) {
		h.mux.HandleFunc(method+" "+path, f)
		methods[path] = append(methods[path], method)
		h.paths = append(h.paths, method+" "+path)
	}
	add := func(method, path string, f page) {
		open(method, path, func(w http.ResponseWriter, r *http.Request) {
			if actor, ok := h.known(w, r); ok {
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

// known asks Authenticate; when it refuses, the answer is written.
func (h *handler) known(w http.ResponseWriter, r *http.Request) (actor string, ok bool) {
	guess := r.Header.Get("Authorization") != ""
	if wait := h.guesses.Wait(r); guess && wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		h.refuse(w, r, http.StatusTooManyRequests, "too_many_guesses", "too many wrong credentials came from this address")
		return "", false
	}
	actor, err := h.authenticate(r)
	if err == nil {
		return actor, true
	}
	if !errors.Is(err, ErrUnauthenticated) {
		h.forbid(w, r, "authenticate", err)
		return "", false
	}
	if guess {
		h.guesses.Failed(r)
	}
	w.Header().Add("WWW-Authenticate", "Bearer")
	w.Header().Add("WWW-Authenticate", `Basic realm="events", charset="UTF-8"`)
	h.refuse(w, r, http.StatusUnauthorized, "unauthenticated", "the request does not say whose it is")
	return "", false
}

// allowed asks Authorize; when it refuses, the answer is written.
func (h *handler) allowed(w http.ResponseWriter, r *http.Request, actor string, a Action) bool {
	err := h.authorize(r, actor, a)
	if err != nil {
		h.forbid(w, r, a.Verb, err)
	}
	return err == nil
}

func (h *handler) forbid(w http.ResponseWriter, r *http.Request, verb Verb, err error) {
	h.log.LogAttrs(r.Context(), slog.LevelInfo, "admin: refused", slog.String("verb", string(verb)), slog.Any("error", err))
	h.refuse(w, r, http.StatusForbidden, "forbidden", "this is not allowed")
}
