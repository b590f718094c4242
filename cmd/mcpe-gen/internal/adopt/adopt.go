// Package adopt adds events to a module with an existing MCP server. It implements `mcpe-gen init` in a directory with
// a go.mod. [Module.Require] changes the go.mod, [Find] finds the server by its syntax, and [Wiring.Edits] returns the
// lines to add.
package adopt

import (
	"fmt"
	"strings"
)

// A Wiring describes how a server uses generated code.
type Wiring struct {
	// Import is the import path of the generated package for servers. Name is the name of a new server.
	Import, Name string
	// Events are its event types.
	Events []Event
	// Ingress is the service whose webhooks become events, or nil.
	Ingress *Ingress
	// Setup is the import path of the package that implements the features below, except Webhooks.
	Setup string
	// Store is "sqlite", "postgres" or "jetstream", or "" for an in-memory store. Auth is "bearer" or "oauth", or "" if
	// the program has its own authentication. Metrics is "prometheus" or "otlp", or "" for none.
	Store, Auth, Metrics string
	// Webhooks enables delivery by webhook. Console serves the operator console.
	Webhooks, Console bool
}

// An Event is an event type.
type Event struct {
	// GoName is the prefix of its Go names, such as "NoteAdded".
	GoName string
	// Source is the source of its events: "emit", "check" or "both". Registration requires an upstream to check.
	Source string
}

// An Ingress is a service whose webhooks become events.
type Ingress struct {
	// GoName is the prefix of its Go names. Env is the environment variable with its secret. Secrets is the field for
	// the secret in its options.
	GoName, Env, Secrets string
	// Options contains the other fields of its options, as in `, Header: "X-Signature"`.
	Options string
}

// A nameSet holds variables of the lines. authenticate is "" if the program has its own authentication, and
// recorder is "" without metrics.
type nameSet struct{ srv, es, err, authenticate, recorder string }

// A block collects statements. fail is what ends the function if there is an error.
type block struct {
	lines, fail []string
	err         string
}

func (b *block) add(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// must adds a statement that sets the error, and the check of it.
func (b *block) must(format string, args ...any) {
	b.add(format, args...)
	b.add("if %s != nil {\n\t%s\n}", b.err, strings.Join(b.fail, "\n\t"))
}

// linesAfter returns the lines to add after the server is created. fail is the code that ends the function. served
// reports whether the same function serves the server over HTTP. It sets the names of the variables.
func (w Wiring) linesAfter(sc *scope, n *nameSet, fail []string, served bool) []string {
	b := &block{fail: fail, err: n.err}
	server, generated := sc.use(serverPath), sc.use(w.Import)
	n.es = sc.free("es", "eventServer")
	options := w.storeLines(b, sc)
	if w.Webhooks {
		options = append(options, partOption(sc, "Webhooks", webhooksPath))
	}
	if w.Console {
		options = append(options, fmt.Sprintf("Operators: %s.New()", sc.use(operatorsPath)))
	}
	options = append(options, w.authLines(b, sc, n)...)
	options = append(options, w.telemetryLines(b, sc, n)...)
	b.must("%s, %s := %s.New(%s, %s.Options{%s})", n.es, n.err, server, n.srv, server, strings.Join(options, ", "))
	var fields []string
	for _, event := range w.Events {
		e, args := event.GoName, n.es
		if event.Source != "emit" {
			upstream := sc.free("upstream")
			b.add("var %s %s.%sChecker // yours: its method Check%s is called for new events", upstream, generated, e, e)
			args += ", " + upstream
		}
		args += fmt.Sprintf(", %s.%sHooks{}", generated, e)
		if event.Source == "check" {
			b.must("%s = %s.Register%s(%s)", n.err, generated, e, args)
			continue
		}
		variable := sc.free(lower(e), lower(e)+"Emitter")
		fields = append(fields, e+": "+variable)
		b.must("%s, %s := %s.Register%s(%s)", variable, n.err, generated, e, args)
		if w.Ingress == nil {
			b.add("_ = %s // %s.Emit tells every subscriber", variable, variable)
		}
	}
	b.add("// Tools for clients that do not support events: one reads each event type, one waits for whatever comes first.")
	b.must("%s = %s.AddReadTools(%s.ReadTools()...)", n.err, n.es, generated)
	b.must("%s = %s.AddWaitTool()", n.err, n.es)
	if in := w.Ingress; in != nil {
		ingress, service := sc.use(ingressPath), sc.free("service", "webhookService")
		incoming, webhooks := sc.free("in", "incoming"), sc.free("webhooks", "webhookHandler")
		b.must("%s, %s := %s.New%s(%s.%sOptions{%s: []string{%s.Getenv(%q)}%s})", service, n.err, ingress, in.GoName,
			ingress, in.GoName, in.Secrets, sc.use("os"), in.Env, in.Options)
		b.add("%s := %s.%sIngress{%s}", incoming, generated, in.GoName, strings.Join(fields, ", "))
		counted := ""
		if n.recorder != "" {
			counted = "Telemetry: " + n.recorder
		}
		b.must("%s, %s := %s.Handler(%s, %s.Options{%s})", webhooks, n.err, incoming, service, ingress, counted)
		b.add("_ = %s // an http.Handler: mount it outside of what asks for tokens", webhooks)
	}
	if n.authenticate != "" && !served {
		b.add("_ = %s // goes around the handler where the server is served", n.authenticate)
	}
	if w.Console {
		console := sc.free("console", "operatorConsole")
		b.must(`%s, %s := %s.ConsoleHandler(%s, %s.Getenv("OPERATOR_TOKEN"), "localhost,127.0.0.1")`, console, n.err, sc.use(w.Setup), n.es, sc.use("os"))
		b.add("_ = %s // an http.Handler for operators: serve it on a separate address", console)
	}
	return strings.Split(strings.Join(b.lines, "\n"), "\n")
}

// storeLines adds the lines that open the store. It returns the options for it.
func (w Wiring) storeLines(b *block, sc *scope) (options []string) {
	if w.Store == "" {
		return nil
	}
	setup, kept, at := sc.use(w.Setup), sc.free("kept", "eventStore"), `"events.db"`
	switch w.Store {
	case "postgres":
		at = sc.use("os") + `.Getenv("DATABASE_URL")`
	case "jetstream":
		at = sc.use("os") + `.Getenv("NATS_URL")`
	}
	b.must("%s, %s := %s.OpenStore(%s.Background(), %s)", kept, b.err, setup, sc.use("context"), at)
	options = []string{"Store: " + kept}
	switch w.Store {
	case "postgres":
		options = append(options, partOption(sc, "Replicas", replicasPath))
	case "jetstream":
		options = append(options, fmt.Sprintf("Replicas: %[1]s.New(%[1]s.Options{Lease: %[2]s.Lease})", sc.use(replicasPath), setup))
	}
	return options
}

// partOption returns the option of a server that adds a part with its default options.
func partOption(sc *scope, name, path string) string {
	return fmt.Sprintf("%[1]s: %[2]s.New(%[2]s.Options{})", name, sc.use(path))
}

// authLines adds the lines that authenticate callers. It returns the options for it.
func (w Wiring) authLines(b *block, sc *scope, n *nameSet) (options []string) {
	switch w.Auth {
	case "bearer":
		n.authenticate = sc.free("authenticate", "authenticateCaller")
		b.must(`%s, %s := %s.Authentication("tokens.json")`, n.authenticate, n.err, sc.use(w.Setup))
	case "oauth":
		metadata, tokens := sc.free("metadata", "authMetadata"), sc.free("tokens", "accessTokens")
		b.add("// Mount %s at /.well-known/oauth-protected-resource and below, outside of what asks for tokens.", metadata)
		b.add("%s := %s.NewServeMux()", metadata, sc.use("net/http"))
		b.must("%s, %s := %s.OAuth(%s)", tokens, n.err, sc.use(w.Setup), metadata)
		n.authenticate = tokens + ".RequireToken"
		options = append(options, "Authorize: "+tokens+".Authorize")
	}
	return options
}

// telemetryLines adds the lines that start the export of metrics. It returns the options for it.
func (w Wiring) telemetryLines(b *block, sc *scope, n *nameSet) (options []string) {
	if w.Metrics == "" {
		return nil
	}
	stop, arg := sc.free("stopTelemetry"), `"127.0.0.1:9464"`
	n.recorder = sc.free("recorder", "eventRecorder")
	options = []string{"Telemetry: " + n.recorder}
	if w.Metrics == "otlp" {
		arg = sc.use("context") + ".Background()"
		options = append(options, fmt.Sprintf("TraceContext: %s.TraceContext", sc.use(telemetryPath)))
	}
	b.must("%s, %s, %s := %s.StartTelemetry(%s)", n.recorder, stop, n.err, sc.use(w.Setup), arg)
	b.add("_ = %s // call it when the program ends, after the Shutdown of the event server", stop)
	return options
}

// replacementOf returns the expression that replaces the call at a place and reuses its arguments.
func (w Wiring) replacementOf(p *Place, transport string, n nameSet) string {
	arg := func(i int) string {
		if i >= len(p.call.Args) {
			return ""
		}
		return p.file.source(p.call.Args[i])
	}
	switch options := arg(1); {
	case p.Kind == Run:
		return fmt.Sprintf("%s.Run(%s, %s, %s)", transport, arg(0), n.es, options)
	case p.Kind == SSE:
		return n.authenticated(fmt.Sprintf("%s.NewSSEHandler(%s, %s, %s)", transport, n.srv, n.es, options))
	case options == "" || options == "nil":
		return n.handler(transport, "")
	default:
		return n.handler(transport, "Streamable: "+options)
	}
}

// handler returns the expression for the handler of Streamable HTTP.
func (n nameSet) handler(transport, options string) string {
	return n.authenticated(fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{%s})", transport, n.es, transport, options))
}

// authenticated returns the expression for a handler that asks for tokens if the lines have authentication.
func (n nameSet) authenticated(handler string) string {
	if n.authenticate == "" {
		return handler
	}
	return n.authenticate + "(" + handler + ")"
}

func lower(name string) string {
	// Lowercase an initialism as a whole: "HTTPDone" becomes httpDone.
	n := 1
	for n < len(name) && name[n] >= 'A' && name[n] <= 'Z' {
		n++
	}
	if n > 1 && n < len(name) {
		n--
	}
	return strings.ToLower(name[:n]) + name[n:]
}
