// Package config reads bridge.yaml: the servers, subscriptions and limits of a bridge. Every error has a line and a
// column. Start with [Load], or with [Config.Add] for a bridge of one server without a file.
package config

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Config is the configuration of a bridge.
type Config struct {
	// Path is the file, or empty without one. Dir is the working directory of its commands and the base of its relative
	// paths.
	Path, Dir     string
	Servers       []Server
	Subscriptions []Subscription
	// Allow lists the event types that an agent may subscribe to in addition to Subscriptions.
	Allow []Allow
	// Channel sends notifications to Claude Code's channels.
	Channel bool
	// Exec is nil if no command is configured.
	Exec *Exec
	// Loop defines when wakes that seem to be a loop pause; nil never pauses them.
	Loop *Loop
	// CatchUp is the maximum age of events that are delivered after a restart.
	CatchUp time.Duration
	Limits  Limits
}

// TokenVariables returns the environment variables that contain tokens of servers. Programs that the bridge starts do
// not get them.
func (c *Config) TokenVariables() []string {
	var names []string
	for _, s := range c.Servers {
		if s.Token.Env != "" {
			names = append(names, s.Token.Env)
		}
	}
	return names
}

// A Server is a source of events.
type Server struct {
	Name   string
	Target peer.Target // without its token
	Token  Token
	// Me has the agent's names among the actors of the server's events; events of these actors are left out.
	Me []string
}

// A Token is the source of a bearer token. At most one field is set.
type Token struct {
	// Env is the name of an environment variable, and File is the path of a file.
	Env, File string
	// Command is a program that prints the token, with its arguments.
	Command []string
	// Text is the token itself, from the command line.
	Text string
}

// A Subscription is a subscription to one event type.
type Subscription struct {
	Server, Event string
	Arguments     json.RawMessage // canonical; {} for none
	// Mode is auto, push or poll.
	Mode string
	// Coalesce is nil if the event type decides.
	Coalesce *Coalesce
}

// A Coalesce defines how events are joined to bursts. Zero values default to the event type's.
type Coalesce struct {
	Off                      bool
	Key                      []string
	QuietSeconds, MaxSeconds int
	Keep                     string
}

// An Allow is a pair of patterns in which * matches any text without a slash.
type Allow struct{ Server, Event string }

// An Exec is a command to run for each batch.
type Exec struct {
	Command []string
	Timeout time.Duration
	// PerMinute is the maximum number of runs per minute.
	PerMinute int
	// KeepUnread leaves a batch unread for the agent if the command succeeds.
	KeepUnread bool
}

// A Loop pauses wakes if too many follow each other within a time, until no event has come for a quiet time.
type Loop struct {
	Wakes         int
	Within, Quiet time.Duration
}

// Limits limit the data that reaches the agent.
type Limits struct {
	// BytesPerEvent is how much of an event's data is kept, EventsPerBatch is the maximum number of events that an
	// agent gets together, and BatchesPerMinute is the maximum rate.
	BytesPerEvent, EventsPerBatch, BatchesPerMinute int
	// Inbox is the maximum number of unread batches, and InboxBytes is the maximum size of their data. At either limit,
	// the bridge slows servers down.
	Inbox, InboxBytes int
	// Subscriptions is the maximum number of subscriptions.
	Subscriptions int
}

// A bound is the range of a number in the file.
type bound struct {
	key                    string
	least, most, otherwise int
	at                     func(*Limits) *int
}

// bounds are the keys of limits with their ranges and defaults.
var bounds = []bound{
	{"bytesPerEvent", 256, 1 << 20, 4 << 10, func(l *Limits) *int { return &l.BytesPerEvent }},
	{"eventsPerBatch", 1, 1000, 20, func(l *Limits) *int { return &l.EventsPerBatch }},
	{"batchesPerMinute", 1, 6000, 60, func(l *Limits) *int { return &l.BatchesPerMinute }},
	{"inbox", 1, 100_000, 1000, func(l *Limits) *int { return &l.Inbox }},
	{"inboxBytes", 1 << 10, 1 << 30, 16 << 20, func(l *Limits) *int { return &l.InboxBytes }},
	{"subscriptions", 1, 1000, 50, func(l *Limits) *int { return &l.Subscriptions }},
}

const (
	defaultCatchUp = 24 * time.Hour
	maxCatchUp     = 30 * 24 * time.Hour
	defaultTimeout = time.Minute
	maxTimeout     = time.Hour
	defaultRuns    = 6
	maxRuns        = 600
	// Default and maximum values of a Loop. Few agents want so many wakes in so short a time.
	defaultWakes   = 30
	maxWakes       = 10_000
	defaultMinutes = 10
	maxMinutes     = 24 * 60
)

// New returns a configuration with the default limits and nothing else.
func New() *Config {
	c := &Config{CatchUp: defaultCatchUp, Loop: &Loop{Wakes: defaultWakes, Within: defaultMinutes * time.Minute, Quiet: defaultMinutes * time.Minute}}
	for _, b := range bounds {
		*b.at(&c.Limits) = b.otherwise
	}
	return c
}

// Add adds a subscription to an event without arguments.
func (c *Config) Add(server, event string) error {
	if event == "" || len(event) > maxName {
		return fmt.Errorf("%q is not the name of an event type, which has 1 to %d bytes", event, maxName)
	}
	for _, s := range c.Subscriptions {
		if s.Server == server && s.Event == event {
			return fmt.Errorf("%s is named twice", event)
		}
	}
	c.Subscriptions = append(c.Subscriptions, Subscription{Server: server, Event: event, Arguments: json.RawMessage(`{}`), Mode: "auto"})
	return nil
}

// Server returns the server with the given name.
func (c *Config) Server(name string) (Server, bool) {
	for _, s := range c.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// Allowed reports whether an agent may subscribe to the event.
func (c *Config) Allowed(server, event string) bool {
	for _, a := range c.Allow {
		if matches(a.Server, server) && matches(a.Event, event) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern covers all of a name. Load has refused bad patterns.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Key returns the key of a subscription: equal subscriptions have equal keys.
func (s Subscription) Key() string { return s.Server + " " + s.Event + " " + string(s.Arguments) }

// Canonical returns arguments in the form of [Subscription.Arguments], or false if they are not a JSON object.
func Canonical(args json.RawMessage) (json.RawMessage, bool) {
	if len(args) == 0 || string(args) == "null" {
		return json.RawMessage(`{}`), true
	}
	form, err := wire.Canonical(args)
	if err != nil || len(form) == 0 || form[0] != '{' {
		return nil, false
	}
	return form, true
}

// within returns the path p, relative to the file's directory if it is not absolute.
func (c *Config) within(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, filepath.FromSlash(p))
}
