package config

import (
	"cmp"
	_ "embed"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

//go:embed bridge.schema.json
var bridgeSchema string

// Schema returns the JSON Schema (2020-12) of bridge.yaml, for editors and for [Load].
func Schema() []byte { return []byte(bridgeSchema) }

var bridgeForm = sync.OnceValue(func() *form.Form { return form.New(Schema(), nil) })

// Load reads the configuration from the file at path. The configuration is valid if no diagnostic is an error.
func Load(path string) (*Config, []source.Diagnostic) {
	node, found := bridgeForm().Read(path, source.ReadFile)
	if node == nil {
		return nil, found
	}
	l := &loader{c: New()}
	l.c.Path, l.c.Dir = path, filepath.Dir(path)
	if abs, err := filepath.Abs(l.c.Dir); err == nil {
		l.c.Dir = abs
	}
	l.Report(found...)
	l.load(node)
	return l.c, source.Sort(l.Found)
}

// A loader reads a configuration whose form has been checked. It reports the faults that the JSON Schema cannot
// describe.
type loader struct {
	source.Collector
	c *Config
}

func (l *loader) load(n *source.Node) {
	for _, m := range n.MembersAt("servers") {
		l.c.Servers = append(l.c.Servers, l.server(m.Key, m.Value))
	}
	seen := map[string]source.Range{}
	for _, n := range n.ItemsOf("subscriptions", source.Object) {
		s := l.subscription(n)
		if first, taken := seen[s.Key()]; taken && s.Event != "" {
			l.Report(source.New("MCPE123", n.Range, "two subscriptions are to %s of %s with the same arguments", s.Event, s.Server).WithRelated(first, "first here"))
			continue
		}
		seen[s.Key()] = n.Range
		l.c.Subscriptions = append(l.c.Subscriptions, s)
	}
	for _, a := range n.ItemsAt("allow") {
		l.c.Allow = append(l.c.Allow, Allow{Server: l.glob(a, "server"), Event: l.glob(a, "event")})
	}
	l.wake(n.Get("wake"))
	if at := n.Get("catchUp"); at != nil {
		d, err := time.ParseDuration(at.Text)
		if err != nil || d < 0 || d > maxCatchUp {
			l.wrong(at, "as in 24h or 30m", "catchUp %q is not a time of at most 720h", at.Text)
		}
		l.c.CatchUp = d
	}
	l.limits(n.Get("limits"))
}

// wrong reports a value that is invalid, unless its form has a fault.
func (l *loader) wrong(at *source.Node, hint, format string, args ...any) {
	l.ReportOnce(source.New("MCPE123", at.Range, format, args...).WithHint("%s", hint))
}

func (l *loader) server(name string, n *source.Node) Server {
	t := n.Get("token")
	s := Server{Name: name, Me: n.Texts("me"), Token: Token{Env: t.Word("env"), File: l.c.resolvePath(t.Word("file")), Command: t.Texts("command")}}
	if s.Target.Command = n.Texts("command"); s.Target.Command != nil {
		s.Target.Dir = l.c.Dir
	}
	if at := n.Get("url"); at != nil {
		if s.Target.URL = at.Text; !peer.IsURL(at.Text) {
			l.wrong(at, "as in https://ci.example.com/mcp", "the url of a server begins with http:// or https://")
		}
	}
	return s
}

func (l *loader) subscription(n *source.Node) Subscription {
	s := Subscription{Server: n.Word("server"), Event: n.Word("event"), Mode: cmp.Or(n.Word("mode"), "auto"), Coalesce: l.coalesce(n.Get("coalesce"))}
	if _, ok := l.c.Server(s.Server); !ok && n.Get("server") != nil {
		var names []string
		for _, known := range l.c.Servers {
			names = append(names, known.Name)
		}
		l.wrong(n.Get("server"), form.Suggestion(s.Server, names, "it is one of"), "server cannot be %q", s.Server)
	}
	s.Arguments, _ = Canonical(nil)
	if a := n.Get("arguments"); a != nil {
		canonical, ok := Canonical(a.JSON())
		if !ok {
			l.wrong(a, "write numbers in the range of a float64", "arguments have no canonical JSON")
		}
		s.Arguments = canonical
	}
	return s
}

func (l *loader) coalesce(n *source.Node) *Coalesce {
	if n == nil {
		return nil
	}
	c := &Coalesce{Off: n.Kind == source.Bool, Key: n.Texts("key"), QuietSeconds: n.Integer("quietSeconds", 0), MaxSeconds: n.Integer("maxSeconds", 0), Keep: n.Word("keep")}
	if c.MaxSeconds > 0 && c.MaxSeconds < c.QuietSeconds {
		l.wrong(n.Get("maxSeconds"), "it is at least quietSeconds", "maxSeconds is less than quietSeconds")
	}
	return c
}

// glob returns a pattern of names.
func (l *loader) glob(n *source.Node, key string) string {
	text := n.Word(key)
	if _, err := path.Match(text, ""); err != nil {
		l.wrong(n.Get(key), "* stands for any text without a slash, as in workflow_run.*", "%s %q is not a pattern", key, text)
	}
	return text
}

func (l *loader) wake(n *source.Node) {
	l.c.Channel = n.Flag("channel", false)
	if e := n.Get("exec"); e != nil {
		l.c.Exec = &Exec{
			Command:    e.Texts("command"),
			Timeout:    time.Duration(e.Integer("timeoutSeconds", defaultTimeout)) * time.Second,
			PerMinute:  e.Integer("maxPerMinute", defaultRuns),
			KeepUnread: e.Flag("keepUnread", false),
		}
	}
	if p := n.Get("loop"); p != nil {
		l.c.Loop = nil
		if p.Kind == source.Object {
			l.c.Loop = newLoop(p.Integer("wakes", defaultWakes), p.Integer("minutes", defaultMinutes), p.Integer("quietMinutes", defaultMinutes))
		}
	}
}

func (l *loader) limits(n *source.Node) {
	to := &l.c.Limits
	to.BytesPerEvent = n.Integer("bytesPerEvent", to.BytesPerEvent)
	to.EventsPerBatch = n.Integer("eventsPerBatch", to.EventsPerBatch)
	to.BatchesPerMinute = n.Integer("batchesPerMinute", to.BatchesPerMinute)
	to.Inbox = n.Integer("inbox", to.Inbox)
	to.InboxBytes = n.Integer("inboxBytes", to.InboxBytes)
	to.Subscriptions = n.Integer("subscriptions", to.Subscriptions)
	if at := n.Get("inboxBytes"); at != nil && to.InboxBytes < to.BytesPerEvent {
		l.wrong(at, "it is at least bytesPerEvent", "inboxBytes is less than bytesPerEvent, so that no event would fit")
	}
}
