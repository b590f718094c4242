// Package adopt adds events to a module with an existing MCP server. It implements `mcpe-gen init` in a directory with
// a go.mod. [Module.Require] changes the go.mod, [Find] finds the server by its syntax, [Wiring.Steps] returns the
// lines to add, and [Write] inserts them if that is safe.
package adopt

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Wiring describes how a server uses a generated package.
type Wiring struct {
	// Import is the import path of the generated package. Package is its name.
	Import, Package string
	// Events are the Go name prefixes of its event types, such as "NoteAdded".
	Events []string
	// Check reports whether the server polls an upstream for events. Registration then requires an upstream.
	Check bool
	// Ingress is the service whose webhooks become events, or nil.
	Ingress *Ingress
	// Setup is the import path of the package that implements the features below, except Webhooks.
	Setup string
	// Store is "sqlite", "postgres" or "jetstream", or "" for an in-memory store. Auth is "bearer" or "oauth", or "" if
	// the program has its own authentication.
	Store, Auth string
	// Webhooks enables delivery by webhook. Console serves the operator console.
	Webhooks, Console bool
}

// An Ingress is a service whose webhooks become events.
type Ingress struct {
	// GoName is the prefix of its Go names. Env is the environment variable with its secret. Secrets is the field for
	// the secret in its options.
	GoName, Env, Secrets string
	// Options contains the other fields of its options, as in `, Header: "X-Signature"`.
	Options string
}

// A Step is a manual change at a single place.
type Step struct {
	Place Place `json:"place,omitzero"`
	// Imports are the import specs that the lines need and the file lacks, in Go syntax: `"os"`, `notes "m/notes"`.
	Imports []string `json:"imports"`
	// Lines follow the statement that calls NewServer. For the other kinds, the single line replaces the call.
	Lines []string `json:"lines"`
	// Note describes the assumptions that the lines make. It may be empty.
	Note string `json:"note,omitzero"`
}

// perRequest explains the problem with a server that exists only for one request.
const perRequest = "A server is created for each request here, but events need one for the life of the process: an event server has the\n" +
	"log of its one mcp.Server, and events that the others emit reach nobody. Create the server once, when the program starts.\n" +
	"server.Options.Principal identifies the caller; Options.Visible, Options.Authorize and the hooks of each event type control\n" +
	"access; and a tool reads its request, as in req.Extra.TokenInfo.UserID. docs/adopting.md, A server for each caller, shows an example."

// Steps returns the changes that [Write] leaves to the user. They use names that are unused in their files. If the
// program does not create a server that lives as long as the process, the first step has no place. Its lines follow any
// code that creates the server srv. A step without lines explains what prevents the change.
func (w Wiring) Steps(dir string, found *Found) ([]Step, error) {
	var steps []Step
	var all []serverPlace
	single := 0
	var factory *Place
	for i := range found.Places {
		if p := &found.Places[i]; p.Kind == NewServer && !found.isFactory(p) {
			single++
		}
	}
	for i := range found.Places {
		p := &found.Places[i]
		if p.Kind != NewServer {
			continue
		}
		if found.isFactory(p) {
			factory = p
			steps = append(steps, Step{Place: *p, Imports: []string{}, Lines: []string{}, Note: perRequest})
			continue
		}
		site, _ := siteOf(p)
		n, err := chooseNames(dir, p.file, w, site)
		if err != nil {
			return nil, err
		}
		m := serverPlace{p, "srv", n}
		step := Step{Place: *p, Imports: w.missingImports(p.file, n, true)}
		if site.failFormat == "" {
			site.failFormat, site.needsLog = "log.Fatal(%s)", true
		}
		if site.needsLog && importName(p.file.syntax, "log") != "log" {
			step.Imports = append([]string{`"log"`}, step.Imports...)
		}
		if id := assignedVariable(p.file.syntax, p.call); id != nil && id.Name != "_" {
			m.srv = id.Name
		} else {
			step.Note = "Here srv is the server: put it into a variable first."
		}
		switch {
		case found.isWithin(p.file, p.call, isLoop):
			step.Note = strings.TrimSpace(step.Note + " A loop makes several servers here. Each has separate events: an emitted event reaches only its clients.")
		case single > 1:
			step.Note = strings.TrimSpace(step.Note + " There are several servers: one of them has the events, and an emitted event reaches only its clients.")
		}
		step.Lines = w.linesAfter(m.srv, n, fmt.Sprintf(site.failFormat, n.err), found.isServedIn(p))
		steps, all = append(steps, step), append(all, m)
	}
	if len(all) == 0 {
		n := defaultNames(w)
		if factory != nil { // its package is probably the right one
			var err error
			if n, err = chooseNames(dir, factory.file, w, nil); err != nil {
				return nil, err
			}
		}
		steps = append(steps, Step{Imports: w.importSpecs(n, true), Lines: w.linesAfter("srv", n, "return err", false)})
		all = append(all, serverPlace{srv: "srv", names: n})
	}
	for _, p := range found.Places {
		if p.Kind == NewServer {
			continue
		}
		n, err := chooseNames(dir, p.file, w, nil)
		if err != nil {
			return nil, err
		}
		m := all[0]
		here := slices.IndexFunc(all, func(m serverPlace) bool {
			return m.place != nil && declarationOf(m.place.file, m.place.call) == declarationOf(p.file, p.call)
		})
		if here >= 0 {
			m = all[here]
		}
		step := Step{Place: p, Imports: w.missingImports(p.file, n, false), Lines: []string{w.replacementOf(p, n.transport, m)}}
		var notes []string
		if here < 0 {
			note := "Here " + m.names.es + " is the *server.Server (runtime/server) that the lines above make: hand it on to this function"
			if p.Kind == SSE {
				note += ", with " + m.srv
			}
			if w.Auth != "" && p.Kind != Run {
				note += ", with " + m.names.authenticate
			}
			notes = append(notes, note+".")
		}
		if p.Kind != Run && found.isWithin(p.file, p.call, isRequestHandler) {
			notes = append(notes, "Make this handler once, when the program starts, and not for each request.")
		}
		g := found.getterOf(&p)
		if g.choosesServer && factory == nil {
			notes = append(notes, "The function in this call could choose a server for each request. It is no longer called, so all callers share one server: "+
				"docs/adopting.md, A server for each caller, says where the choice goes.")
		}
		if g.mayReturnNil {
			notes = append(notes, "The function that gave the server also refused callers, by nil, and nobody asks it now: refuse them in front of the handler.")
		}
		step.Note = strings.Join(notes, " ")
		steps = append(steps, step)
	}
	return steps, nil
}

// A serverPlace is a place that creates a server, with the variables for the server and its events.
type serverPlace struct {
	place *Place
	srv   string
	names nameSet
}

// defaultNames returns the names to use if no names are known to be taken.
func defaultNames(w Wiring) nameSet {
	n := nameSet{server: "server", transport: "transport", ingress: "ingress", generated: w.Package, es: "es", err: "err",
		upstream: "upstream", service: "service", in: "in", webhooks: "webhooks",
		setup: path.Base(w.Setup), kept: "kept", authenticate: "authenticate", metadata: "metadata", console: "console"}
	for _, e := range w.Events {
		n.events = append(n.events, lower(e))
	}
	return n
}

// importSpecs returns the imports of the lines after NewServer, or of the lines that serve it.
func (w Wiring) importSpecs(n nameSet, behind bool) []string {
	spec := func(name, of string) string {
		if name == path.Base(of) {
			return strconv.Quote(of)
		}
		return name + " " + strconv.Quote(of)
	}
	if !behind {
		return []string{spec(n.transport, RuntimePath+"/runtime/transport")}
	}
	specs := w.stdImports()
	if w.Setup != "" {
		specs = append(specs, spec(n.setup, w.Setup))
	}
	specs = append(specs, spec(n.generated, w.Import))
	if w.Ingress != nil {
		specs = append(specs, spec(n.ingress, RuntimePath+"/runtime/ingress"))
	}
	return append(specs, spec(n.server, RuntimePath+"/runtime/server"))
}

// stdImports returns the imports from the standard library for the lines after NewServer.
func (w Wiring) stdImports() []string {
	var specs []string
	if w.Store != "" {
		specs = append(specs, `"context"`)
	}
	if w.Auth == "oauth" {
		specs = append(specs, `"net/http"`)
	}
	if w.Ingress != nil || w.Console || w.Store == "postgres" || w.Store == "jetstream" {
		specs = append(specs, `"os"`)
	}
	return specs
}

// missingImports returns the import specs that a file lacks.
func (w Wiring) missingImports(f *file, n nameSet, behind bool) []string {
	return slices.DeleteFunc(w.importSpecs(n, behind), func(spec string) bool {
		of, err := strconv.Unquote(spec)
		return err == nil && !strings.Contains(of, ".") && importName(f.syntax, of) == path.Base(of)
	})
}

// linesAfter returns the lines to add after mcp.NewServer. srv is the variable that holds the server, and fail is the
// code that ends the function. served reports whether the same function serves the server over HTTP.
func (w Wiring) linesAfter(srv string, n nameSet, fail string, served bool) []string {
	var lines []string
	must := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...), "if "+n.err+" != nil {", "\t"+fail, "}")
	}
	var options []string
	if w.Store != "" {
		at := `"events.db"`
		switch w.Store {
		case "postgres":
			at = `os.Getenv("DATABASE_URL")`
		case "jetstream":
			at = `os.Getenv("NATS_URL")`
		}
		must("%s, %s := %s.OpenStore(context.Background(), %s)", n.kept, n.err, n.setup, at)
		options = append(options, "Store: "+n.kept)
		if w.Store == "jetstream" {
			options = append(options, fmt.Sprintf("Replica: %s.Replica{Lease: %s.Lease}", n.server, n.setup))
		}
	}
	if w.Webhooks {
		options = append(options, "Webhook: &"+n.server+".WebhookOptions{}")
	}
	must("%s, %s := %s.New(%s, %s.Options{%s})", n.es, n.err, n.server, srv, n.server, strings.Join(options, ", "))
	for i, e := range w.Events {
		hooks := fmt.Sprintf("%s.%sHooks{}", n.generated, e)
		switch variable := n.events[i]; {
		case w.Check:
			lines = append(lines, fmt.Sprintf("var %s %s.%sChecker // yours: its method Check%s is called for new events", n.upstream, n.generated, e, e))
			must("%s = %s.Register%s(%s, %s, %s)", n.err, n.generated, e, n.es, n.upstream, hooks)
		case w.Ingress != nil:
			must("%s, %s := %s.Register%s(%s, %s)", variable, n.err, n.generated, e, n.es, hooks)
		default:
			must("%s, %s := %s.Register%s(%s, %s)", variable, n.err, n.generated, e, n.es, hooks)
			lines = append(lines, fmt.Sprintf("_ = %s // %s.Emit tells every subscriber", variable, variable))
		}
	}
	lines = append(lines, "// Tools for clients that do not support events: one reads each event type, one waits for whatever comes first.")
	must("%s = %s.AddReadTools(%s.ReadTools()...)", n.err, n.es, n.generated)
	must("%s = %s.AddWaitTool()", n.err, n.es)
	if in := w.Ingress; in != nil {
		must("%s, %s := %s.New%s(%s.%sOptions{%s: []string{os.Getenv(%q)}%s})", n.service, n.err, n.ingress, in.GoName,
			n.ingress, in.GoName, in.Secrets, in.Env, in.Options)
		var fields []string
		for i, e := range w.Events {
			fields = append(fields, e+": "+n.events[i])
		}
		lines = append(lines, fmt.Sprintf("%s := %s.%sIngress{%s}", n.in, n.generated, in.GoName, strings.Join(fields, ", ")))
		must("%s, %s := %s.Handler(%s, %s.Options{})", n.webhooks, n.err, n.in, n.service, n.ingress)
		lines = append(lines, fmt.Sprintf("_ = %s // an http.Handler: mount it outside of what asks for tokens", n.webhooks))
	}
	return append(lines, w.authLines(n, fail, served)...)
}

// authLines returns the lines that authenticate callers and operators.
func (w Wiring) authLines(n nameSet, fail string, served bool) []string {
	var lines []string
	must := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...), "if "+n.err+" != nil {", "\t"+fail, "}")
	}
	switch w.Auth {
	case "bearer":
		must(`%s, %s := %s.Authentication("tokens.json")`, n.authenticate, n.err, n.setup)
	case "oauth":
		lines = append(lines, "// Mount "+n.metadata+" at /.well-known/oauth-protected-resource and below, outside of what asks for tokens.",
			n.metadata+" := http.NewServeMux()")
		must("%s, %s := %s.OAuth(%s)", n.authenticate, n.err, n.setup, n.metadata)
	}
	if w.Auth != "" && !served {
		lines = append(lines, fmt.Sprintf("_ = %s // goes around the handler where the server is served", n.authenticate))
	}
	if w.Console {
		must(`%s, %s := %s.ConsoleHandler(%s, os.Getenv("OPERATOR_TOKEN"), "localhost,127.0.0.1")`, n.console, n.err, n.setup, n.es)
		lines = append(lines, fmt.Sprintf("_ = %s // an http.Handler for operators: serve it on a separate address", n.console))
	}
	return lines
}

// replacementOf returns the expression that replaces the call at a place and reuses its arguments.
func (w Wiring) replacementOf(p Place, transport string, m serverPlace) string {
	arg := func(i int) string {
		if i >= len(p.call.Args) {
			return ""
		}
		a := p.call.Args[i]
		return string(p.file.text[p.file.offset(a.Pos()):p.file.offset(a.End())])
	}
	options := arg(1)
	handler := fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{Streamable: %s})", transport, m.names.es, transport, options)
	switch {
	case p.Kind == Run:
		return fmt.Sprintf("%s.Run(%s, %s, %s)", transport, arg(0), m.names.es, options)
	case p.Kind == SSE:
		handler = fmt.Sprintf("%s.NewSSEHandler(%s, %s, %s)", transport, m.srv, m.names.es, options)
	case options == "" || options == "nil":
		handler = fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{})", transport, m.names.es, transport)
	}
	if w.Auth != "" {
		return m.names.authenticate + "(" + handler + ")"
	}
	return handler
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
