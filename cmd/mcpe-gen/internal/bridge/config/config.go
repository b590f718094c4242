// Package config reads bridge.yaml, which contains the servers, subscriptions and limits of a bridge. Every error
// includes the line and column. Start with [Load], or with [Config.Add] to configure a bridge for one server without a
// file.
package config

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Config is the configuration of a bridge.
type Config struct {
	// Path is the path of the file, or "" for a configuration without a file. Dir is the working directory of its
	// commands and the base of its relative paths.
	Path, Dir     string
	Servers       []Server
	Subscriptions []Subscription
	// Allow lists further event types that an agent may subscribe to.
	Allow []Allow
	// Channel sends notifications to Claude Code's channels.
	Channel bool
	// Exec is nil if no command is configured.
	Exec *Exec
	// Loop defines when wakes that seem to form a loop are paused. If it is nil, they are never paused.
	Loop *Loop
	// CatchUp is the maximum age of events that are delivered after a restart.
	CatchUp time.Duration
	Limits  Limits
}

// TokenVariables returns the environment variables that contain server tokens. They are not passed to programs that the
// bridge starts.
func (c *Config) TokenVariables() []string {
	var names []string
	for _, s := range c.Servers {
		if s.Token.Env != "" {
			names = append(names, s.Token.Env)
		}
	}
	return names
}

// A Server is a configured source of events.
type Server struct {
	Name   string
	Target peer.Target // without its token
	Token  Token
	// Me contains the names under which the agent is an actor in the server's events. Events caused by these actors are
	// omitted.
	Me []string
}

// A Token is the source of a bearer token. At most one field is set.
type Token struct {
	// Env is the name of an environment variable. File is the path of a file.
	Env, File string
	// Command is a program, with its arguments, that prints the token.
	Command []string
	// Text is the token itself, from the command line.
	Text string
}

// A Subscription is a subscription to a single event type.
type Subscription struct {
	Server, Event string
	Arguments     json.RawMessage // canonical; {} for none
	// Mode is auto, push or poll.
	Mode string
	// Coalesce is nil if the event type determines it.
	Coalesce *Coalesce
}

// A Coalesce defines how events are coalesced into bursts. Zero fields default to the values of the event type.
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
	// KeepUnread keeps a batch unread for the agent even if the command succeeds.
	KeepUnread bool
}

// A Loop defines how many wakes may follow each other within a period. Further wakes are paused until no event has
// arrived for the period Quiet.
type Loop struct {
	Wakes         int
	Within, Quiet time.Duration
}

// Limits restricts the data that reaches the agent.
type Limits struct {
	// BytesPerEvent limits how much of an event's data is kept. EventsPerBatch is the maximum number of events that an
	// agent receives together. BatchesPerMinute limits the rate of batches.
	BytesPerEvent, EventsPerBatch, BatchesPerMinute int
	// Inbox is the maximum number of unread batches. InboxBytes is the maximum size of their data. At either limit, the
	// bridge slows the servers down.
	Inbox, InboxBytes int
	// Subscriptions is the maximum number of subscriptions.
	Subscriptions int
}

const (
	defaultCatchUp = 24 * time.Hour
	maxCatchUp     = 30 * 24 * time.Hour
	defaultTimeout = 60 // seconds
	defaultRuns    = 6
	// These are the default values of a Loop. Few agents need that many wakes in such a short time.
	defaultWakes   = 30
	defaultMinutes = 10
	// maxName is the maximum length of the name of an event type, in characters.
	maxName = 128
)

// New returns a configuration that contains only the default limits.
func New() *Config {
	return &Config{
		CatchUp: defaultCatchUp,
		Loop:    newLoop(defaultWakes, defaultMinutes, defaultMinutes),
		Limits:  Limits{BytesPerEvent: 4 << 10, EventsPerBatch: 20, BatchesPerMinute: 60, Inbox: 1000, InboxBytes: 16 << 20, Subscriptions: 50},
	}
}

func newLoop(wakes, minutes, quietMinutes int) *Loop {
	return &Loop{Wakes: wakes, Within: time.Duration(minutes) * time.Minute, Quiet: time.Duration(quietMinutes) * time.Minute}
}

// Add adds a subscription without arguments to an event type.
func (c *Config) Add(server, event string) error {
	if event == "" || utf8.RuneCountInString(event) > maxName {
		return fmt.Errorf("%q is not the name of an event type, which has 1 to %d characters", event, maxName)
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
	return slices.ContainsFunc(c.Allow, func(a Allow) bool { return matchesName(a.Server, server) && matchesName(a.Event, event) })
}

// matchesName reports whether a pattern matches a whole name. Load has refused bad patterns.
func matchesName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Key returns the key of a subscription. Equal subscriptions have equal keys.
func (s Subscription) Key() string { return s.Server + " " + s.Event + " " + string(s.Arguments) }

// Canonical returns arguments in the form of [Subscription.Arguments]. It returns false if they are not a JSON object.
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

// resolvePath returns p unchanged if it is absolute or empty. Otherwise, it resolves p relative to the file's directory.
func (c *Config) resolvePath(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, filepath.FromSlash(p))
}
