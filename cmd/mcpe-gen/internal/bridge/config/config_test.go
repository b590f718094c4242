package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
)

func load(t *testing.T, text string) (*Config, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, found := Load(path)
	var lines []string
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%d:%d: %s (%s)", d.Range.Start.Line, d.Range.Start.Column, d.Message, d.Hint))
	}
	return c, lines
}

// BRIDGE-2, BRIDGE-6: a full configuration, and the defaults of an empty one.
func TestBRIDGE2Config(t *testing.T) {
	c, found := load(t, `
servers:
  ci:
    url: https://ci.example.com/mcp
    token: {env: CI_TOKEN}
    me: ci-bot
  local:
    command: [./server, --flag]
    me: [a, b]
subscriptions:
  - {server: ci, event: workflow_run.completed, arguments: {branch: main, n: 1.0}, coalesce: {quietSeconds: 20}, mode: poll}
  - {server: local, event: a, coalesce: false}
  - {server: local, event: a, arguments: {x: 1}, coalesce: {key: [/a, /b/0], quietSeconds: 1, maxSeconds: 2, keep: all}}
allow:
  - {server: "*", event: "workflow_run.*"}
wake:
  channel: true
  exec: {command: [./on-event.sh, x, x], timeoutSeconds: 5, maxPerMinute: 7, keepUnread: true}
  loop: {wakes: 5, minutes: 2, quietMinutes: 3}
catchUp: 90m
limits: {bytesPerEvent: 1000, eventsPerBatch: 2, batchesPerMinute: 3, inbox: 4, inboxBytes: 5000, subscriptions: 6}
`)
	if len(found) > 0 {
		t.Fatal(found)
	}
	dir := c.Dir
	wanted := &Config{Path: c.Path, Dir: dir,
		Servers: []Server{
			{Name: "ci", Target: peer.Target{URL: "https://ci.example.com/mcp"}, Token: Token{Env: "CI_TOKEN"}, Me: []string{"ci-bot"}},
			{Name: "local", Target: peer.Target{Command: []string{"./server", "--flag"}, Dir: dir}, Me: []string{"a", "b"}},
		},
		Subscriptions: []Subscription{
			{Server: "ci", Event: "workflow_run.completed", Arguments: []byte(`{"branch":"main","n":1}`), Mode: "poll", Coalesce: &Coalesce{QuietSeconds: 20}},
			{Server: "local", Event: "a", Arguments: []byte(`{}`), Mode: "auto", Coalesce: &Coalesce{Off: true}},
			{Server: "local", Event: "a", Arguments: []byte(`{"x":1}`), Mode: "auto", Coalesce: &Coalesce{Key: []string{"/a", "/b/0"}, QuietSeconds: 1, MaxSeconds: 2, Keep: "all"}},
		},
		Allow: []Allow{{"*", "workflow_run.*"}}, Channel: true,
		Exec:    &Exec{Command: []string{"./on-event.sh", "x", "x"}, Timeout: 5 * time.Second, PerMinute: 7, KeepUnread: true},
		Loop:    &Loop{Wakes: 5, Within: 2 * time.Minute, Quiet: 3 * time.Minute},
		CatchUp: 90 * time.Minute,
		Limits:  Limits{BytesPerEvent: 1000, EventsPerBatch: 2, BatchesPerMinute: 3, Inbox: 4, InboxBytes: 5000, Subscriptions: 6},
	}
	if !filepath.IsAbs(dir) || !reflect.DeepEqual(c, wanted) {
		t.Errorf("got  %+v\nwant %+v", c, wanted)
	}
	for event, ok := range map[string]bool{"workflow_run.completed": true, "workflow_run": false, "x.workflow_run.a": false} {
		if c.Allowed("ci", event) != ok {
			t.Errorf("%s is allowed: %v", event, !ok)
		}
	}
	c, found = load(t, "servers: {a: {url: 'http://127.0.0.1:1/mcp', token: {file: secret}}, b: {url: 'http://127.0.0.1:2/mcp', token: {command: [pass, show]}}}\nwake: {exec: {command: [x]}}\n")
	if len(found) > 0 || c.CatchUp != 24*time.Hour || c.Limits != (Limits{4096, 20, 60, 1000, 16 << 20, 50}) || c.Allowed("a", "x") || c.Channel ||
		c.Servers[0].Token.File != filepath.Join(c.Dir, "secret") || len(c.Servers[1].Token.Command) != 2 || *c.Loop != (Loop{30, 10 * time.Minute, 10 * time.Minute}) || c.Exec.PerMinute != 6 || c.Exec.Timeout != time.Minute {
		t.Errorf("%v %+v", found, c)
	}
}

// Every mistake is told with its line and column, all at once.
func TestMistakes(t *testing.T) {
	const ci = "servers: {ci: {url: 'https://ci.example.com/mcp'}}\n"
	for text, wanted := range map[string]string{
		"a: 1":         `1:1: the configuration of the bridge has no key "a"`,
		"{}":           `1:1: the configuration of the bridge needs "servers"`,
		"servers: {}":  "1:10: servers is empty",
		"servers: [a]": "1:10: servers must be an object",
		"servers:\n  a b: {url: 'https://x.example'}":                                              `2:3: the name of a server "a b" is not allowed`,
		"servers: {a: {}}":                                                                         `1:14: a server needs "url" or "command"`,
		"servers: {a: {url: 'ftp://x'}}":                                                           "1:20: the url of a server begins with",
		"servers: {a: {url: 'http://x', command: [x]}}":                                            "1:41: command stands next to url (a server has a url or a command: remove one)",
		"servers: {a: {url: 'http://x', me: 5}}":                                                   "1:36: me must be an array",
		"servers: {a: {url: 'http://x', me: ''}}":                                                  "1:36: me is empty",
		"servers: {a: {url: 'http://x', me: [a, a]}}":                                              `1:40: me holds "a" twice`,
		"servers: {a: {command: []}}":                                                              "1:24: command is empty",
		"servers: {a: {command: ['']}}":                                                            "1:25: the program is empty",
		"servers: {a: {command: [1]}}":                                                             "1:25: the program must be a string",
		"servers: {a: {command: x}}":                                                               "1:24: command must be an array",
		"servers: {a: {command: [x], token: {env: X}}}":                                            "1:36: a token is sent over HTTP only",
		"servers: {a: {url: 'http://x', token: secret}}":                                           "1:39: a token must be an object, not a string (write {env: NAME}, {file: PATH} or {command: [PROGRAM, …]})",
		"servers: {a: {url: 'http://x', token: {}}}":                                               "1:39: a token is empty (write {env: NAME}",
		"servers: {a: {url: 'http://x', token: {env: X, file: y}}}":                                "1:39: a token has several sources",
		"servers: {a: {url: 'http://x', token: {env: 'A=B'}}}":                                     `1:45: env "A=B" is not the name`,
		"servers: {a: {url: 'http://x', token: {file: ''}}}":                                       "1:46: file is empty",
		ci + "subscriptions: [{event: a}]":                                                         `2:17: a subscription needs "server"`,
		ci + "subscriptions: [{server: x, event: a}]":                                              `2:26: server cannot be "x"`,
		ci + "subscriptions: [{server: ci, event: ''}]":                                            "2:37: event is empty",
		ci + "subscriptions: [{server: ci, event: a, mode: webhook}]":                              `2:46: mode cannot be "webhook"`,
		ci + "subscriptions: [{server: ci, event: a, arguments: [1]}]":                             "2:51: arguments must be an object",
		ci + "subscriptions: [{server: ci, event: a, arguments: {a: 1e300}}]":                      "2:51: arguments have no canonical JSON",
		ci + "subscriptions:\n- {server: ci, event: a}\n- {server: ci, event: a, arguments: {}}":   "4:3: two subscriptions are to a of ci",
		ci + "subscriptions: [{server: ci, event: a, coalesce: true}]":                             "2:50: coalesce true has no meaning",
		ci + "subscriptions: [{server: ci, event: a, coalesce: {quietSeconds: 0}}]":                "2:65: quietSeconds is 0; it must be 1 to 86400",
		ci + "subscriptions: [{server: ci, event: a, coalesce: {quietSeconds: 9, maxSeconds: 8}}]": "2:80: maxSeconds is less than quietSeconds",
		ci + "subscriptions: [{server: ci, event: a, coalesce: {key: a}}]":                         `2:56: key "a" is not a JSON Pointer`,
		ci + "subscriptions: [{server: ci, event: a, coalesce: {keep: some}}]":                     `2:57: keep cannot be "some"`,
		ci + "allow: [{server: ci}]":                                                               `2:9: an element of allow needs "event"`,
		ci + "allow: [{server: ci, event: '[a'}]":                                                  `2:29: event "[a" is not a pattern`,
		ci + "wake: {chanel: true}":                                                                `2:8: wake has no key "chanel"`,
		ci + "wake: {channel: 1}":                                                                  "2:17: channel must be a boolean",
		ci + "wake: {exec: {}}":                                                                    `2:14: exec needs "command"`,
		ci + "wake: {exec: {command: [x], maxPerMinute: 601}}":                                     "2:43: maxPerMinute is 601; it must be",
		ci + "wake: {loop: true}":                                                                  "2:14: loop true has no meaning",
		ci + "wake: {loop: {wakes: 1}}":                                                            "2:22: wakes is 1; it must be",
		ci + "wake: {loop: {quiet: 1}}":                                                            `2:15: loop has no key "quiet"`,
		ci + "catchUp: 1 day":                                                                      `2:10: catchUp "1 day" is not a time`,
		ci + "catchUp: 721h":                                                                       `2:10: catchUp "721h" is not a time`,
		ci + "limits: {bytesPerEvent: 10}":                                                         "2:25: bytesPerEvent is 10; it must be",
		ci + "limits: {eventsPerBatch: 1.5}":                                                       "2:26: eventsPerBatch must be an integer",
		ci + "limits: {inboxBytes: 2000}":                                                          "2:22: inboxBytes is less than bytesPerEvent",
	} {
		_, found := load(t, text)
		if len(found) == 0 || !strings.HasPrefix(found[0], wanted) {
			t.Errorf("%s\ngot  %q\nwant %s", text, found, wanted)
		}
	}
	if _, found := load(t, "servers: {a: {urll: x}, b: {url: 1}}\ncatchUp: x\nlimits: {inbox: 0}\n"); len(found) != 5 {
		t.Errorf("%d mistakes: %q", len(found), found)
	}
	if c, found := load(t, ci+"wake: {loop: false}"); len(found) != 0 || c.Loop != nil {
		t.Errorf("%q, %+v", found, c.Loop)
	}
	if c, found := Load(filepath.Join(t.TempDir(), "none")); c != nil || len(found) != 1 {
		t.Error(c, found)
	}
}
