package config

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Load reads the configuration from the file at path. The configuration is valid if no diagnostic is an error.
func Load(path string) (*Config, []source.Diagnostic) {
	content, err := source.ReadFile(path)
	if err != nil {
		return nil, []source.Diagnostic{schema.Unreadable(path, err)}
	}
	node, found := source.Parse(path, content)
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

type loader struct {
	source.Reader
	c *Config
}

func (l *loader) load(n *source.Node) {
	o := l.Object(n, "the configuration of the bridge", []string{"servers"}, []string{"subscriptions", "allow", "wake", "catchUp", "limits"})
	if o == nil {
		return
	}
	l.servers(n.Get("servers"))
	if s := n.Get("subscriptions"); s != nil {
		l.subscriptions(o)
	}
	for _, a := range o.List("allow") {
		l.allow(a)
	}
	if w := n.Get("wake"); w != nil {
		l.wake(w)
	}
	if text, at := o.Text("catchUp"); at != nil {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxCatchUp {
			l.wrong(at, "as in 24h or 30m", "catchUp %q is not a time of at most 720h", text)
		}
		l.c.CatchUp = d
	}
	if m := n.Get("limits"); m != nil {
		l.limits(m)
	}
}

// wrong reports an invalid value.
func (l *loader) wrong(at *source.Node, hint, format string, args ...any) {
	d := source.New("MCPE123", at.Range, format, args...)
	if hint != "" {
		d = d.WithHint("%s", hint)
	}
	l.Report(d)
}

// maxName is the maximum length of the name of a server or event type.
const maxName = 128

func (l *loader) servers(n *source.Node) {
	if n == nil || !l.Is(n, source.Object, "servers") {
		return
	}
	if len(n.Members) == 0 {
		l.wrong(n, "", "servers is empty: there is nothing to bring events from")
	}
	for _, m := range n.Members {
		if !named(m.Key) {
			l.Report(source.New("MCPE123", m.KeyRange, "the name of a server is %q", m.Key).WithHint("it has 1 to 64 ASCII letters and digits, - and _"))
		}
		l.server(m.Key, m.Value)
	}
}

func named(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func (l *loader) server(name string, n *source.Node) {
	o := l.Object(n, "a server", nil, []string{"url", "command", "token", "me"})
	if o == nil {
		return
	}
	s := Server{Name: name, Me: l.agentNames(o)}
	if text, at := o.Text("url"); at != nil {
		if s.Target.URL = text; !peer.IsURL(text) {
			l.wrong(at, "", "the url of a server begins with http:// or https://")
		}
	}
	if n.Get("command") != nil {
		s.Target.Command, s.Target.Dir = l.readProgram(o), l.c.Dir
	}
	switch {
	case n.Get("url") == nil && n.Get("command") == nil:
		l.Report(source.New("MCPE122", n.Range, "a server needs \"url\" or \"command\""))
	case n.Get("url") != nil && n.Get("command") != nil:
		l.Report(source.New("MCPE123", n.Member("command").KeyRange, "a server has a url or a command, not both"))
	case n.Get("token") != nil && n.Get("url") == nil:
		l.Report(source.New("MCPE123", n.Member("token").KeyRange, "a token is sent over HTTP only").WithHint("a command gets secrets from its environment"))
	}
	if t := n.Get("token"); t != nil {
		s.Token = l.token(t)
	}
	l.c.Servers = append(l.c.Servers, s)
}

// readProgram reads a program and its arguments.
func (l *loader) readProgram(o *source.ObjectReader) []string {
	var argv []string
	items := o.List("command")
	for _, c := range items {
		if !l.Is(c, source.String, "an element of command") {
			return nil
		}
		argv = append(argv, c.Text)
	}
	if n := o.Node.Get("command"); n.Kind == source.Array && (len(items) == 0 || argv[0] == "") {
		l.wrong(n, "it holds the program and its arguments", "command is empty")
		return nil
	}
	return argv
}

func (l *loader) token(n *source.Node) (t Token) {
	if n.Kind == source.String {
		l.wrong(n, "write {env: NAME}, {file: PATH} or {command: [PROGRAM, …]}", "a token does not stand in the configuration")
		return t
	}
	o := l.Object(n, "a token", nil, []string{"env", "file", "command"})
	if o == nil {
		return t
	}
	if len(n.Members) != 1 {
		l.Report(source.New("MCPE122", n.Range, "a token needs one of env, file and command"))
		return t
	}
	if text, at := o.Text("env"); at != nil {
		if t.Env = text; text == "" || strings.ContainsAny(text, "= \x00") {
			l.wrong(at, "", "env %q is not the name of an environment variable", text)
		}
	}
	if text, at := o.Text("file"); at != nil {
		if t.File = l.c.resolvePath(text); text == "" {
			l.wrong(at, "", "file is empty")
		}
	}
	if n.Get("command") != nil {
		t.Command = l.readProgram(o)
	}
	return t
}

func (l *loader) subscriptions(o *source.ObjectReader) {
	seen := map[string]source.Range{}
	for _, n := range o.List("subscriptions") {
		before := len(l.Found)
		s := l.subscription(n)
		if len(l.Found) > before {
			continue
		}
		if first, taken := seen[s.Key()]; taken {
			l.Report(source.New("MCPE123", n.Range, "two subscriptions are to %s of %s with the same arguments", s.Event, s.Server).WithRelated(first, "first here"))
			continue
		}
		seen[s.Key()] = n.Range
		l.c.Subscriptions = append(l.c.Subscriptions, s)
	}
	if most := bounds[len(bounds)-1].most; len(l.c.Subscriptions) > most {
		l.wrong(o.Node.Get("subscriptions"), "", "there are %d subscriptions, and at most %d are allowed", len(l.c.Subscriptions), most)
	}
}

func (l *loader) subscription(n *source.Node) (s Subscription) {
	o := l.Object(n, "a subscription", []string{"server", "event"}, []string{"arguments", "mode", "coalesce"})
	if o == nil {
		return s
	}
	var at *source.Node
	if s.Server, at = o.Text("server"); at != nil {
		if _, ok := l.c.Server(s.Server); !ok {
			var names []string
			for _, known := range l.c.Servers {
				names = append(names, known.Name)
			}
			l.Among(at, "server", names)
		}
	}
	if s.Event, at = o.Text("event"); at != nil && (s.Event == "" || len(s.Event) > maxName) {
		l.wrong(at, "", "event is the name of an event type, of 1 to %d bytes", maxName)
	}
	s.Mode = o.Choice("mode", "auto", "push", "poll")
	s.Arguments, _ = Canonical(nil)
	if a := n.Get("arguments"); a != nil && l.Is(a, source.Object, "arguments") {
		form, ok := Canonical(a.JSON())
		if !ok {
			l.wrong(a, "", "arguments cannot be said in JSON")
		}
		s.Arguments = form
	}
	if c := n.Get("coalesce"); c != nil {
		s.Coalesce = l.coalesce(c)
	}
	return s
}

func (l *loader) coalesce(n *source.Node) *Coalesce {
	if n.Kind == source.Bool && !n.True() {
		return &Coalesce{Off: true}
	}
	o := l.Object(n, "coalesce", nil, []string{"key", "quietSeconds", "maxSeconds", "keep"})
	if o == nil {
		return nil
	}
	c := &Coalesce{
		QuietSeconds: l.readInteger(o, "quietSeconds", 1, wire.MaxCoalesceSeconds, 0),
		MaxSeconds:   l.readInteger(o, "maxSeconds", 1, wire.MaxCoalesceSeconds, 0),
	}
	if c.MaxSeconds > 0 && c.MaxSeconds < c.QuietSeconds {
		l.wrong(n.Get("maxSeconds"), "", "maxSeconds is less than quietSeconds")
	}
	if n.Get("keep") != nil {
		c.Keep = o.Choice("keep", wire.KeepLatest, wire.KeepAll)
	}
	places := []*source.Node{n.Get("key")}
	if k := n.Get("key"); k != nil && k.Kind == source.Array {
		places = o.Texts("key")
	} else if k != nil && !l.Is(k, source.String, "key") || k == nil {
		places = nil
	}
	for _, p := range places {
		if _, ok := wire.SplitPointer(p.Text); !ok {
			l.wrong(p, "as in /pullRequest/number", "key %q is not a JSON Pointer to a member of the payload", p.Text)
		}
		c.Key = append(c.Key, p.Text)
	}
	if len(c.Key) > wire.MaxCoalesceKeys {
		l.wrong(n.Get("key"), "", "key has %d places, and at most %d are allowed", len(c.Key), wire.MaxCoalesceKeys)
	}
	return c
}

// readInteger reads an integer between least and most.
func (l *loader) readInteger(o *source.ObjectReader, key string, least, most, otherwise int) int {
	n := o.Node.Get(key)
	if n == nil || !l.Is(n, source.Number, key) {
		return otherwise
	}
	v, err := strconv.Atoi(n.Text)
	if err != nil || v < least || v > most {
		l.wrong(n, "", "%s is %s; it must be a whole number of %d to %d", key, n.Text, least, most)
		return otherwise
	}
	return v
}

func (l *loader) allow(n *source.Node) {
	o := l.Object(n, "an element of allow", []string{"server", "event"}, nil)
	if o == nil {
		return
	}
	var a Allow
	for key, to := range map[string]*string{"server": &a.Server, "event": &a.Event} {
		text, at := o.Text(key)
		if *to = text; at == nil {
			continue
		}
		if _, err := path.Match(text, ""); err != nil || text == "" {
			l.wrong(at, "* stands for any text without a slash, as in workflow_run.*", "%s %q is not a pattern", key, text)
		}
	}
	l.c.Allow = append(l.c.Allow, a)
}

func (l *loader) wake(n *source.Node) {
	o := l.Object(n, "wake", nil, []string{"channel", "exec", "loop"})
	if o == nil {
		return
	}
	l.c.Channel = o.Flag("channel", false)
	if n := n.Get("loop"); n != nil {
		l.c.Loop = l.loop(n)
	}
	e := n.Get("exec")
	if e == nil {
		return
	}
	x := l.Object(e, "exec", []string{"command"}, []string{"timeoutSeconds", "maxPerMinute", "keepUnread"})
	if x == nil || e.Get("command") == nil {
		return
	}
	l.c.Exec = &Exec{
		Command:    l.readProgram(x),
		Timeout:    time.Duration(l.readInteger(x, "timeoutSeconds", 1, int(maxTimeout/time.Second), int(defaultTimeout/time.Second))) * time.Second,
		PerMinute:  l.readInteger(x, "maxPerMinute", 1, maxRuns, defaultRuns),
		KeepUnread: x.Flag("keepUnread", false),
	}
}

func (l *loader) loop(n *source.Node) *Loop {
	if n.Kind == source.Bool && !n.True() {
		return nil
	}
	o := l.Object(n, "loop", nil, []string{"wakes", "minutes", "quietMinutes"})
	if o == nil {
		return nil
	}
	return &Loop{
		Wakes:  l.readInteger(o, "wakes", 2, maxWakes, defaultWakes),
		Within: time.Duration(l.readInteger(o, "minutes", 1, maxMinutes, defaultMinutes)) * time.Minute,
		Quiet:  time.Duration(l.readInteger(o, "quietMinutes", 1, maxMinutes, defaultMinutes)) * time.Minute,
	}
}

func (l *loader) limits(n *source.Node) {
	var keys []string
	for _, b := range bounds {
		keys = append(keys, b.key)
	}
	o := l.Object(n, "limits", nil, keys)
	if o == nil {
		return
	}
	for _, b := range bounds {
		*b.at(&l.c.Limits) = l.readInteger(o, b.key, b.least, b.most, b.otherwise)
	}
	if at := n.Get("inboxBytes"); at != nil && l.c.Limits.InboxBytes < l.c.Limits.BytesPerEvent {
		l.wrong(at, "", "inboxBytes is less than bytesPerEvent, so that no event would fit")
	}
}
