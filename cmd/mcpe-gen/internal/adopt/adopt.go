// Package adopt gives a module that has an MCP server already what events need, for `mcpe-gen init` in a directory
// with a go.mod: [Module.Require] changes the go.mod, [Find] finds the server by its syntax, [Wiring.Steps] has
// the lines that go into it, and [Write] puts them there where that can be done safely.
package adopt

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
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
	// GoName is what Go names of it begin with, Env the variable with its secret, Secrets the field of its options
	// that takes it.
	GoName, Env, Secrets string
	// Options are the further fields of its options, as in `, Header: "X-Signature"`.
	Options string
}

// A Step is what a person changes at one place.
type Step struct {
	Place Place `json:"place,omitzero"`
	// Imports are the import specs that the file needs for it and lacks, as Go has them: `"os"`, `notes "m/notes"`.
	Imports []string `json:"imports"`
	// Lines follow the statement of a NewServer; of the other kinds the one line takes the place of the call.
	Lines []string `json:"lines"`
	// Note says what the lines rest on, "" for nothing.
	Note string `json:"note,omitzero"`
}

// Steps are the changes of a program that [Write] leaves to a person, with names that are free in their files. Where
// no server is made the first step has no place: its lines follow whatever makes the server srv.
func (w Wiring) Steps(dir string, found *Found) ([]Step, error) {
	var steps []Step
	var all []made
	for i := range found.Places {
		p := &found.Places[i]
		if p.Kind != NewServer {
			continue
		}
		site, _ := siteOf(p)
		n, err := nameAll(dir, p.file, w, site)
		if err != nil {
			return nil, err
		}
		m := made{p, "srv", n.es}
		step := Step{Place: *p, Imports: w.lacking(p.file, n, true)}
		if site.fail == "" {
			site.fail, site.log = "log.Fatal(%s)", true
		}
		if site.log && importName(p.file.syntax, "log") != "log" {
			step.Imports = append([]string{`"log"`}, step.Imports...)
		}
		if id := assigned(p.file.syntax, p.call); id != nil && id.Name != "_" {
			m.srv = id.Name
		} else {
			step.Note = "Here srv is the server: put it into a variable first."
		}
		step.Lines = w.behind(m.srv, n, fmt.Sprintf(site.fail, n.err))
		steps, all = append(steps, step), append(all, m)
	}
	if len(all) == 0 {
		n := plain(w)
		steps = append(steps, Step{Imports: w.specs(n, true), Lines: w.behind("srv", n, "return err")})
		all = append(all, made{srv: "srv", es: n.es})
	}
	for _, p := range found.Places {
		if p.Kind == NewServer {
			continue
		}
		n, err := nameAll(dir, p.file, w, nil)
		if err != nil {
			return nil, err
		}
		m := all[0]
		here := slices.IndexFunc(all, func(m made) bool { return m.place != nil && declaration(m.place) == declaration(&p) })
		if here >= 0 {
			m = all[here]
		}
		step := Step{Place: p, Imports: w.lacking(p.file, n, false), Lines: []string{w.instead(p, n.transport, m.srv, m.es)}}
		if here < 0 {
			step.Note = "Here " + m.es + " is the *server.Server (runtime/server) that the lines above make: hand it on to this function"
			if p.Kind == SSE {
				step.Note += ", with " + m.srv
			}
			step.Note += "."
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// A made is a place where a server is made, its variable, and that of its events.
type made struct {
	place   *Place
	srv, es string
}

// declaration is the declaration around a place.
func declaration(p *Place) ast.Node {
	for _, d := range p.file.syntax.Decls {
		if d.Pos() <= p.call.Pos() && p.call.End() <= d.End() {
			return d
		}
	}
	return nil
}

// plain are the names where nothing is known to be taken.
func plain(w Wiring) names {
	n := names{server: "server", transport: "transport", ingress: "ingress", generated: w.Package, es: "es", err: "err",
		upstream: "upstream", service: "service", in: "in", webhooks: "webhooks"}
	for _, e := range w.Events {
		n.events = append(n.events, lower(e))
	}
	return n
}

// specs are the imports of the lines behind NewServer, or of those that serve it.
func (w Wiring) specs(n names, behind bool) []string {
	spec := func(name, of string) string {
		if name == path.Base(of) {
			return strconv.Quote(of)
		}
		return name + " " + strconv.Quote(of)
	}
	if !behind {
		return []string{spec(n.transport, RuntimePath+"/runtime/transport")}
	}
	specs := []string{spec(n.generated, w.Import)}
	if w.Ingress != nil {
		specs = append([]string{`"os"`}, append(specs, spec(n.ingress, RuntimePath+"/runtime/ingress"))...)
	}
	return append(specs, spec(n.server, RuntimePath+"/runtime/server"))
}

// lacking are the specs that a file does not have.
func (w Wiring) lacking(f *file, n names, behind bool) []string {
	return slices.DeleteFunc(w.specs(n, behind), func(spec string) bool {
		return spec == `"os"` && importName(f.syntax, "os") == "os"
	})
}

// behind are the lines that go behind mcp.NewServer, whose result is in the variable srv; fail ends the function.
func (w Wiring) behind(srv string, n names, fail string) []string {
	var lines []string
	must := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...), "if "+n.err+" != nil {", "\t"+fail, "}")
	}
	must("%s, %s := %s.New(%s, %s.Options{})", n.es, n.err, n.server, srv, n.server)
	for i, e := range w.Events {
		hooks := fmt.Sprintf("%s.%sHooks{}", n.generated, e)
		switch variable := n.events[i]; {
		case w.Check:
			lines = append(lines, fmt.Sprintf("var %s %s.%sChecker // yours: its method Check%s is asked for what is new", n.upstream, n.generated, e, e))
			must("%s = %s.Register%s(%s, %s, %s)", n.err, n.generated, e, n.es, n.upstream, hooks)
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
	return lines
}

// instead is the expression that takes a place's: of its arguments only those that are carried over count.
func (w Wiring) instead(p Place, transport, srv, es string) string {
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
		return fmt.Sprintf("%s.NewSSEHandler(%s, %s, %s)", transport, srv, es, options)
	default:
		if options == "" || options == "nil" {
			return fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{})", transport, es, transport)
		}
		return fmt.Sprintf("%s.NewHandler(%s, %s.HandlerOptions{Streamable: %s})", transport, es, transport, options)
	}
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
