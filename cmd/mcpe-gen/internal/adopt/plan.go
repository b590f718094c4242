package adopt

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// A plan collects the edits of a module.
type plan struct {
	Wiring
	dir    string
	found  *Found
	edits  []Edit
	scopes map[ast.Node]*scope // by declaration
	// sites are those of the lines so far, and lines are the indices of their edits.
	sites []*site
	lines []int
}

// Edits returns the changes that connect the server of a module with its events, ordered by file and line. The last ones
// have no line: their notes say where they go.
func (w Wiring) Edits(dir string, found *Found) []Edit {
	p := &plan{Wiring: w, dir: dir, found: found, scopes: map[ast.Node]*scope{}}
	for _, name := range found.Broken {
		p.edits = append(p.edits, Edit{File: name, Imports: []string{}, Note: "This file does not parse and was not looked at."})
	}
	switch shape, _ := found.Describe(); shape {
	case PerRequest, OneServer:
		p.addServers()
	case Unknown:
		p.addOverlay()
	case PlainHTTP, NoServer:
		p.addHandler()
	}
	for i := range found.mcpGo {
		p.addMCPGo(&found.mcpGo[i])
	}
	for _, i := range p.lines {
		if len(p.lines) > 1 {
			p.edits[i].Note = strings.TrimSpace(p.edits[i].Note + " There are several servers. Each has separate events: an emitted event reaches only its clients.")
		}
	}
	for _, e := range p.edits {
		slices.SortFunc(e.Imports, func(a, b string) int { return strings.Compare(pathOf(a), pathOf(b)) })
	}
	slices.SortStableFunc(p.edits, func(a, b Edit) int {
		// Lines before a statement come before its replacement.
		return cmp.Or(min(b.Line, 1)-min(a.Line, 1), cmp.Compare(a.File, b.File), a.Line-b.Line, min(len(a.Replace), 1)-min(len(b.Replace), 1))
	})
	return p.edits
}

// pathOf returns the quoted path of an import spec.
func pathOf(spec string) string { return spec[strings.IndexByte(spec, '"'):] }

// scopeOf returns the scope of the declaration with a node, without imports.
func (p *plan) scopeOf(f *file, n ast.Node) *scope {
	declaration := declarationOf(f, n)
	if p.scopes[declaration] == nil {
		p.scopes[declaration] = p.newScope(p.dir, f, declaration)
	}
	p.scopes[declaration].imports = []string{}
	return p.scopes[declaration]
}

// addLines adds the lines of a site, unless an earlier site has them. more returns what follows them, if it is not nil.
func (p *plan) addLines(s *site, more func(sc *scope, n nameSet) []string) nameSet {
	sc := p.scopeOf(s.file, s.of)
	var lines []string
	if i := slices.IndexFunc(p.sites, s.hasLinesOf); i >= 0 {
		s.names = p.sites[i].names
	} else {
		s.names = nameSet{srv: s.server, err: "err"}
		if s.isRedeclared() {
			s.names.err = sc.free("eventsErr")
		}
		served := s.server == "" || slices.ContainsFunc(p.found.Places, func(h Place) bool {
			return (h.Kind == Handler || h.Kind == SSE) && contains(declarationOf(s.file, s.of), h.call) && s.file == h.file
		})
		if s.server == "" {
			lines = p.newServer(sc, &s.names)
		}
		lines = append(lines, p.linesAfter(sc, &s.names, s.failure(sc, s.names.err), served)...)
		p.sites, p.lines = append(p.sites, s), append(p.lines, len(p.edits))
	}
	if more != nil {
		lines = append(lines, more(sc, s.names)...)
	}
	if len(lines) == 0 {
		return s.names
	}
	e := Edit{File: s.file.path, Insert: strings.Join(lines, "\n") + "\n"}
	switch {
	case s.stmt != nil:
		last := s.file.line(s.stmt.End())
		e = s.file.insertion(last+1, s.file.margin(last), lines)
	case s.inside != nil:
		e = s.before(lines)
	case s.function == nil:
		s.notes = append(s.notes, fmt.Sprintf("Line %d is outside of functions: these lines go to the start of the function that serves the server, %s.", s.file.line(s.of.Pos()), s.names.srv))
	default:
		s.notes = append(s.notes, fmt.Sprintf("Line %d has other code: these lines go before its call, with %s for the server.", s.file.line(s.of.Pos()), s.names.srv))
	}
	if s.file.isWithin(s.of, isLoop) {
		s.notes = append(s.notes, "A loop makes several servers here. Each has separate events.")
	}
	e.Imports, e.Note = sc.imports, strings.Join(s.notes, " ")
	p.edits = append(p.edits, e)
	return s.names
}

// addServers adds the lines for servers of the SDK. The events of a server that is created or chosen for each request are
// served next to its handler, or next to the handler of the program's HTTP server if each request creates the former.
func (p *plan) addServers() {
	removed, isServed, inRequest := map[*file][]ast.Node{}, false, false
	for i := range p.found.Places {
		h := &p.found.Places[i]
		isServed = isServed || h.Kind != NewServer
		switch isPerRequest := isPerRequest(*h); {
		case isPerRequest && h.Kind == SSE:
			p.note(h, "Events cannot be added to HTTP+SSE with a server for each connection. Serve Streamable HTTP too: overlay.NewHandler (runtime/overlay)\n"+
				"serves the events next to its handler.")
		case isPerRequest && h.file.isWithin(h.call, isRequestHandler):
			inRequest = true
		case h.Kind == NewServer:
		case isPerRequest:
			p.serve(h.file, h.call, nil, func(sc *scope, n nameSet) string { return n.overlaid(sc, h.file.source(h.call), false) })
			if note := h.typeNote(); note != "" {
				p.note(h, note)
			}
		default:
			p.addServing(h, removed)
		}
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
	switch {
	case inRequest && len(p.found.mounts) == 1:
		m := p.found.mounts[0]
		p.serve(m.file, m.handler, nil, func(sc *scope, n nameSet) string { return n.overlaid(sc, m.source(sc), false) })
	case inRequest:
		p.addOverlay()
	case !isServed:
		for _, made := range p.found.Places {
			s := siteOf(made.file, made.call)
			if id := assignedVariable(made.file.syntax, made.call); id != nil {
				s.server = id.Name
			}
			s.server, s.inside = cmp.Or(s.server, "srv"), nil
			p.addLines(s, nil)
		}
		p.edits = append(p.edits, Edit{Imports: []string{}, Note: "No call of mcp.NewStreamableHTTPHandler or Run was found. The server is served by " +
			"transport.NewHandler(es, transport.HandlerOptions{}), an http.Handler, or by transport.Run(ctx, es, &mcp.StdioTransport{})."})
	}
}

// addServing adds the lines for the server of a place, and replaces the call that serves it.
func (p *plan) addServing(h *Place, removed map[*file][]ast.Node) {
	f := h.file
	removed[f] = append(removed[f], h.call.Fun)
	if h.Kind != Run && len(h.call.Args) > 0 {
		removed[f] = append(removed[f], h.call.Args[0])
	}
	names := p.addLines(siteFor(h, serverOf(h)), nil)
	sc := p.scopeOf(f, h.call)
	text := p.replacementOf(h, sc.use(transportPath), names)
	e := f.replacement(h.call, text)
	e.Imports, e.Note = sc.imports, h.typeNote()
	if last := len(p.edits) - 1; last >= 0 && p.edits[last].File == f.path && p.edits[last].Replace == e.Replace && p.edits[last].Line == e.Line {
		e.Insert = strings.Replace(p.edits[last].Insert, f.source(h.call), text, 1) // another call on the same line
		e.Note = strings.TrimSpace(p.edits[last].Note + " " + e.Note)
		p.edits = p.edits[:last]
	}
	p.edits = append(p.edits, e)
}

// typeNote says that a handler that is replaced has another type, or returns "".
func (p *Place) typeNote() string {
	held := "*" + p.file.sdk + "." + strings.TrimPrefix(string(p.Kind), "New")
	if p.Kind == Run || !strings.Contains(string(p.file.text), held) {
		return ""
	}
	return "The handler is an http.Handler: use this type instead of " + held + "."
}
