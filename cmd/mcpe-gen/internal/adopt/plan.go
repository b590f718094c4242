package adopt

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// perRequest explains the problem with a server that exists only for one request.
const perRequest = "A server is created for each request here, but events need one for the life of the process: an event server has the\n" +
	"log of its one mcp.Server, and events that the others emit reach nobody. Create the server once, when the program starts.\n" +
	"server.Options.Principal identifies the caller; Options.Visible, Options.Authorize and the hooks of each event type control\n" +
	"access; and a tool reads its request, as in req.Extra.TokenInfo.UserID. docs/adopting.md, A server for each caller, shows an example."

// A plan collects the edits of a module.
type plan struct {
	Wiring
	dir    string
	found  *Found
	edits  []Edit
	scopes map[ast.Node]*scope // by declaration
	sites  []*site
	// factory is a place that creates a server for each request, or nil.
	factory *Place
	// names are the variables of the lines for the first server.
	names nameSet
}

// Edits returns the changes that connect the server of a module with its events, ordered by file and line. The last ones
// have no line: their notes say where they go.
func (w Wiring) Edits(dir string, found *Found) []Edit {
	p := &plan{Wiring: w, dir: dir, found: found, scopes: map[ast.Node]*scope{}}
	for _, name := range found.Broken {
		p.edits = append(p.edits, Edit{File: name, Imports: []string{}, Note: "This file does not parse and was not looked at."})
	}
	p.findSites()
	for _, s := range p.sites {
		p.addServer(s)
	}
	if len(p.sites) == 0 {
		p.addWithoutServer()
	} else {
		p.names = p.sites[0].names
	}
	p.addServing()
	for _, e := range p.edits {
		slices.SortFunc(e.Imports, func(a, b string) int { return strings.Compare(pathOf(a), pathOf(b)) })
	}
	slices.SortStableFunc(p.edits, func(a, b Edit) int {
		return cmp.Or(min(b.Line, 1)-min(a.Line, 1), cmp.Compare(a.File, b.File), a.Line-b.Line)
	})
	return p.edits
}

// pathOf returns the quoted path of an import spec.
func pathOf(spec string) string { return spec[strings.IndexByte(spec, '"'):] }

// scopeOf returns the scope of the declaration with a call, without imports.
func (p *plan) scopeOf(f *file, call *ast.CallExpr) *scope {
	declaration := declarationOf(f, call)
	if p.scopes[declaration] == nil {
		p.scopes[declaration] = p.newScope(p.dir, f, declaration)
	}
	p.scopes[declaration].imports = []string{}
	return p.scopes[declaration]
}

// findSites finds the statements that the lines for each server follow. A server for each request gets only a note.
func (p *plan) findSites() {
	isLooped := false
	for i := range p.found.Places {
		made := &p.found.Places[i]
		switch {
		case made.Kind != NewServer:
		case p.found.isFactory(made):
			p.factory = made
			p.edits = append(p.edits, Edit{File: made.Path, Line: made.Line, Imports: []string{}, Note: perRequest, Context: made.file.lines(made.Line, made.Line)})
		default:
			isLooped = isLooped || p.found.isWithin(made.file, made.call, isLoop)
			p.sites = append(p.sites, p.found.sitesOf(made.file, made.call, 0)...)
		}
	}
	const separate = " Each has separate events: an emitted event reaches only its clients."
	for _, s := range p.sites {
		switch {
		case isLooped:
			s.notes = append(s.notes, "A loop makes several servers here."+separate)
		case len(p.sites) > 1:
			s.notes = append(s.notes, "There are several servers."+separate)
		}
	}
}

// addServer adds the lines that follow a server.
func (p *plan) addServer(s *site) {
	sc := p.scopeOf(s.file, s.call)
	if id := assignedVariable(s.file.syntax, s.call); id != nil && s.function == nil {
		s.server = id.Name
	}
	s.names = nameSet{srv: cmp.Or(s.server, "srv"), err: "err"}
	if s.isRedeclared() {
		s.names.err = sc.free("eventsErr")
	}
	served := slices.ContainsFunc(p.found.Places, func(h Place) bool { return (h.Kind == Handler || h.Kind == SSE) && s.covers(&h) })
	lines, margin := p.linesAfter(sc, &s.names, s.failure(sc, s.names.err), served), ""
	e := Edit{File: s.file.path, Imports: sc.imports}
	switch at := s.file.line(s.call.Pos()); {
	case s.function == nil:
		s.notes = append(s.notes, fmt.Sprintf("Line %d creates the server, %s, outside of functions: these lines go to the start of the function that serves it.", at, s.names.srv))
	case s.stmt == nil:
		s.notes = append(s.notes, fmt.Sprintf("Line %d: set %s to the server on a separate line. These lines follow it.", at, s.names.srv))
	default:
		last := s.file.line(s.stmt.End())
		text := s.file.lines(last, last)
		e.Line, e.Context, margin = last+1, text, text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	}
	e.Insert, e.Note = margin+strings.Join(lines, "\n"+margin)+"\n", strings.Join(s.notes, " ")
	p.edits = append(p.edits, e)
}

// addWithoutServer adds the lines for a program whose one server is not known.
func (p *plan) addWithoutServer() {
	f := &file{syntax: &ast.File{Name: ast.NewIdent("_")}}
	if p.factory != nil {
		f = p.factory.file // its package is probably the right one
	}
	sc := p.newScope(p.dir, f, nil)
	p.names = nameSet{srv: "srv", err: "err"}
	e := Edit{File: f.path, Note: "These lines follow the code that creates the one server, srv, when the program starts."}
	if len(p.found.Places) > 0 {
		e.Insert = strings.Join(p.linesAfter(sc, &p.names, []string{"return err"}, false), "\n") + "\n"
	} else {
		e.Note = "No call of mcp.NewServer was found. This function creates a server with events. Call it when the program starts, " +
			"and mount what it returns: mux.Handle(\"/mcp\", handler)."
		lines := []string{fmt.Sprintf("srv := %s.NewServer(&%[1]s.Implementation{Name: %q, Version: \"v0.1.0\"}, nil)", sc.use(sdkPath), p.Name)}
		lines = append(lines, p.linesAfter(sc, &p.names, []string{"return nil, err"}, true)...)
		lines = append(lines, "return "+p.names.handler(sc.use(transportPath), "")+", nil")
		e.Insert = fmt.Sprintf("func newEventHandler() (%s.Handler, error) {\n\t%s\n}\n", sc.use("net/http"), strings.Join(lines, "\n\t"))
	}
	e.Imports = sc.imports
	p.edits = append(p.edits, e)
}

// addServing replaces the calls that serve a server.
func (p *plan) addServing() {
	removed := map[*file][]ast.Node{}
	for i := range p.found.Places {
		h := &p.found.Places[i]
		if h.Kind == NewServer {
			continue
		}
		f := h.file
		removed[f] = append(removed[f], h.call.Fun)
		if h.Kind != Run && len(h.call.Args) > 0 {
			removed[f] = append(removed[f], h.call.Args[0])
		}
		sc := p.scopeOf(f, h.call)
		names, notes := p.names, []string{}
		visible := slices.DeleteFunc(slices.Clone(p.sites), func(s *site) bool { return !s.covers(h) })
		if len(visible) == 1 {
			names = visible[0].names
		} else {
			notes = append(notes, p.handOn(h))
		}
		text := p.replacementOf(h, sc.use(transportPath), names)
		e := f.replacement(h.call, text)
		e.Imports, e.Note = sc.imports, strings.Join(append(notes, p.servingNotes(h)...), " ")
		if last := len(p.edits) - 1; last >= 0 && p.edits[last].File == f.path && p.edits[last].Replace == e.Replace && p.edits[last].Line == e.Line {
			e.Insert = strings.Replace(p.edits[last].Insert, f.source(h.call), text, 1) // another call on the same line
			e.Note = strings.TrimSpace(p.edits[last].Note + " " + e.Note)
			p.edits = p.edits[:last]
		}
		p.edits = append(p.edits, e)
	}
	for f, nodes := range removed {
		inserted := ""
		for _, e := range p.edits {
			if e.File == f.path {
				inserted += e.Insert
			}
		}
		p.edits = append(p.edits, f.unusedImports(nodes, inserted)...)
	}
	if len(removed) == 0 && len(p.found.Places) > 0 {
		p.edits = append(p.edits, Edit{Imports: []string{}, Note: "No call of mcp.NewStreamableHTTPHandler or Run was found. The server is served by " +
			"transport.NewHandler(es, transport.HandlerOptions{}), an http.Handler, or by transport.Run(ctx, es, &mcp.StdioTransport{})."})
	}
}

// handOn says which variables a place needs from another function.
func (p *plan) handOn(h *Place) string {
	note := "Here " + p.names.es + " is the *server.Server (runtime/server) that server.New returns: hand it on to this function"
	if h.Kind == SSE {
		note += ", with " + p.names.srv
	}
	if p.Auth != "" && h.Kind != Run {
		note += ", with " + p.names.authenticate
	}
	return note + "."
}

// servingNotes says what changes for the callers of a server.
func (p *plan) servingNotes(h *Place) []string {
	if h.Kind == Run {
		return nil
	}
	var notes []string
	if p.found.isWithin(h.file, h.call, isRequestHandler) {
		notes = append(notes, "Make this handler once, when the program starts, and not for each request.")
	}
	g := p.found.getterOf(h)
	if g.choosesServer && p.factory == nil {
		notes = append(notes, "The function in this call could choose a server for each request. It is no longer called, so all callers share one server: "+
			"docs/adopting.md, A server for each caller, says where the choice goes.")
	}
	if g.mayReturnNil {
		notes = append(notes, "The function that gave the server also refused callers, by nil, and nobody asks it now: refuse them in front of the handler.")
	}
	if g.function != nil && ast.Node(g.function) != h.call.Args[0] {
		notes = append(notes, "Delete "+h.file.source(h.call.Args[0])+" if nothing else uses it.")
	}
	if held := "*" + h.file.sdk + "." + strings.TrimPrefix(string(h.Kind), "New"); strings.Contains(string(h.file.text), held) {
		notes = append(notes, "The handler is an http.Handler: use this type instead of "+held+".")
	}
	return notes
}
