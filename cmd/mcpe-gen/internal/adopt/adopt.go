// Package adopt gives a module that has an MCP server already what events need, for `mcpe-gen init` in a directory
// with a go.mod: [Module.Require] changes the go.mod, [Find] finds the server by its syntax, [Wiring] has the lines
// that go into it, and [Write] puts them there where that can be done safely.
package adopt

import (
	"fmt"
	"strings"
)

// A Wiring is what a server has to do with a generated package.
type Wiring struct {
	// Import is the import path of the generated package, Package its name.
	Import, Package string
	// Events are its event types, as Go names begin: "NoteAdded".
	Events []string
	// Check is set when an upstream is asked for events, so that registering needs one.
	Check bool
	// Ingress is the service whose webhooks become events, nil for none.
	Ingress *Ingress
}

// An Ingress is a service whose webhooks become events.
type Ingress struct {
	// GoName is what Go names of it begin with, Env the variable with its secret.
	GoName, Env string
	// Options are the further fields of its options, as in `, Header: "X-Signature"`.
	Options string
}

// Imports are the import paths that the lines need.
func (w Wiring) Imports() []string {
	paths := []string{RuntimePath + "/runtime/server", RuntimePath + "/runtime/transport"}
	if w.Ingress != nil {
		paths = append(paths, RuntimePath+"/runtime/ingress")
	}
	return append(paths, w.Import)
}

// Behind are the lines that go behind mcp.NewServer, whose result is in the variable srv. They return errors.
func (w Wiring) Behind(srv string) []string {
	n := names{server: "server", generated: w.Package, es: "es", err: "err"}
	if srv == n.server {
		n.server = "eventserver" // which the import has to be called then
	}
	return w.behind(srv, n, "return err")
}

func (w Wiring) behind(srv string, n names, fail string) []string {
	var lines []string
	must := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...), "if "+n.err+" != nil {", "\t"+fail, "}")
	}
	must("%s, %s := %s.New(%s, %s.Options{})", n.es, n.err, n.server, srv, n.server)
	for _, e := range w.Events {
		hooks := fmt.Sprintf("%s.%sHooks{}", n.generated, e)
		switch variable := lower(e); {
		case w.Check:
			lines = append(lines, "// upstream is yours: its method Check"+e+" is asked for what is new.")
			must("%s = %s.Register%s(%s, upstream, %s)", n.err, n.generated, e, n.es, hooks)
		case w.Ingress != nil:
			must("%s, %s := %s.Register%s(%s, %s)", variable, n.err, n.generated, e, n.es, hooks)
		default:
			must("%s, %s := %s.Register%s(%s, %s)", variable, n.err, n.generated, e, n.es, hooks)
			lines = append(lines, fmt.Sprintf("_ = %s // %s.Emit tells every subscriber", variable, variable))
		}
	}
	lines = append(lines, "// Tools for clients that know no events.")
	must("%s = %s.AddReadTools(%s.ReadTools()...)", n.err, n.es, n.generated)
	if in := w.Ingress; in != nil {
		must("service, %s := ingress.New%s(ingress.%sOptions{Secrets: []string{os.Getenv(%q)}%s})", n.err, in.GoName,
			in.GoName, in.Env, in.Options)
		var fields []string
		for _, e := range w.Events {
			fields = append(fields, e+": "+lower(e))
		}
		lines = append(lines, fmt.Sprintf("in := %s.%sIngress{%s}", n.generated, in.GoName, strings.Join(fields, ", ")))
		must("webhooks, %s := in.Handler(service, ingress.Options{}) // mount it outside of what asks for tokens", n.err)
	}
	return lines
}

// Instead is the expression that takes a place's: of its arguments only those that are carried over count.
func (w Wiring) Instead(p Place) string { return w.instead(p, "transport", "es") }

func (w Wiring) instead(p Place, transport, es string) string {
	arg := func(i int) string {
		if i >= len(p.call.Args) {
			return ""
		}
		a := p.call.Args[i]
		return string(p.file.text[p.file.offset(a.Pos()):p.file.offset(a.End())])
	}
	switch options := arg(1); p.Kind {
	case Run:
		return fmt.Sprintf("%s.Run(%s, %s, %s)", transport, arg(0), es, options)
	case SSE:
		return fmt.Sprintf("%s.NewSSEHandler(%s, %s, %s)", transport, "srv", es, options)
	default:
		if options == "" || options == "nil" {
			return fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{})", transport, es, transport)
		}
		return fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{Streamable: %s})", transport, es, transport, options)
	}
}

// Server is the variable that a place's server is in, "srv" when it is in none.
func (p Place) Server() string {
	if id := assigned(p.file.syntax, p.call); id != nil {
		return id.Name
	}
	return "srv"
}

func lower(name string) string {
	// An initialism is lowered as a whole: "HTTPDone" is httpDone.
	n := 1
	for n < len(name) && name[n] >= 'A' && name[n] <= 'Z' {
		n++
	}
	if n > 1 && n < len(name) {
		n--
	}
	return strings.ToLower(name[:n]) + name[n:]
}
