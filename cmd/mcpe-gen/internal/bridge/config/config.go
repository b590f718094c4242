// Package config reads bridge.yaml: the servers, subscriptions and limits of a bridge. Every mistake has its line and
// column. Start with [Load], or with [Config.Add] for a bridge of one server without a file.
package config

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Config is what a bridge does.
type Config struct {
	// Path is the file, empty without one. Dir is the directory that its commands run in and its paths are relative to.
	Path, Dir     string
	Servers       []Server
	Subscriptions []Subscription
	// Allow says what an agent may subscribe to beside Subscriptions.
	Allow []Allow
	// Channel sends notifications to Claude Code's channels.
	Channel bool
	// Exec is nil when no command is run.
	Exec *Exec
	// CatchUp is how old an event may be that a restart still brings.
	CatchUp time.Duration
	Limits  Limits
}

// TokenVariables returns the environment variables that have tokens of servers. No program that the bridge starts gets them.
func (c *Config) TokenVariables() []string {
	var names []string
	for _, s := range c.Servers {
		if s.Token.Env != "" {
			names = append(names, s.Token.Env)
		}
	}
	return names
}

// A Server is a server that events come from.
type Server struct {
	Name   string
	Target peer.Target // without its token
	Token  Token
}

// A Token says where a bearer token comes from. At most one field is set.
type Token struct {
	// Env is the name of an environment variable, File the path of a file.
	Env, File string
	// Command is a program and its arguments, which prints it.
	Command []string
	// Text is the token itself, of the command line.
	Text string
}

// A Subscription is a subscription to one event type.
type Subscription struct {
	Server, Event string
	Arguments     json.RawMessage // canonical; {} for none
	// Mode is auto, push or poll.
	Mode string
	// Coalesce is nil where the event type decides.
	Coalesce *Coalesce
}

// Coalesce says how events are joined to bursts. What is zero is as the event type says.
type Coalesce struct {
	Off                      bool
	Key                      []string
	QuietSeconds, MaxSeconds int
	Keep                     string
}

// An Allow is a pair of patterns in which * stands for any text without a slash.
type Allow struct{ Server, Event string }

// An Exec is a command that is run for each batch.
type Exec struct {
	Command []string
	Timeout time.Duration
	// PerMinute is how often it runs in a minute.
	PerMinute int
	// KeepUnread leaves a batch unread for the agent when the command succeeds.
	KeepUnread bool
}

// Limits bound what reaches the agent.
type Limits struct {
	// BytesPerEvent is how much of an event's data is kept; EventsPerBatch is how many events an agent gets at once, and
	// BatchesPerMinute how often in a minute.
	BytesPerEvent, EventsPerBatch, BatchesPerMinute int
	// Inbox is how many batches wait unread, InboxBytes how many bytes of data they have. Then servers are made to wait.
	Inbox, InboxBytes int
	// Subscriptions is how many subscriptions there may be.
	Subscriptions int
}

// A bound is what a number of the file may be.
type bound struct {
	key                    string
	least, most, otherwise int
	at                     func(*Limits) *int
}

// bounds are the keys of limits with their defaults.
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
)

// New is a configuration with the default limits and nothing else.
func New() *Config {
	c := &Config{CatchUp: defaultCatchUp}
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

// Server returns the server of that name.
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

// Key is what a subscription is kept under: equal ones have the same.
func (s Subscription) Key() string { return s.Server + " " + s.Event + " " + string(s.Arguments) }

// Canonical returns arguments in the form that [Subscription] has; false when they are no JSON object.
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

// within returns a path relative to the file's directory.
func (c *Config) within(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, filepath.FromSlash(p))
}
