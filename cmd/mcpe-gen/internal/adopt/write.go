package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A nameSet holds the names to use in a file. They do not shadow other names.
type nameSet struct {
	server, transport, ingress, generated, setup string // imports
	es, err, upstream, service, in, webhooks     string
	kept, authenticate, metadata, console        string
	events                                       []string // the variables of the emitters, in the order of Wiring.Events
}

// An Edit describes a change to a file.
type Edit struct {
	// Path is relative to the module's directory and uses slashes.
	Path     string
	Old, New []byte
}

// A cut replaces the bytes from..to of a file with text.
type cut struct {
	from, to int
	text     string
}

// Write returns an edit that adds the lines of w to the server's file. If it cannot, it returns an error that explains
// why the user has to add them. It succeeds only if the syntax shows that the result compiles. A single server must be
// created and served in the same function.
func Write(dir string, found *Found, w Wiring) (*Edit, error) {
	if w.Check {
		return nil, errors.New("a check must be written by hand")
	}
	if w.Ingress != nil {
		return nil, errors.New("the webhook path must be chosen by hand")
	}
	if len(found.Broken) > 0 {
		return nil, fmt.Errorf("%s does not parse", found.Broken[0])
	}
	var server *Place
	for i, p := range found.Places {
		if p.Kind == SSE {
			return nil, fmt.Errorf("%s:%d: the older HTTP transport has to be changed by hand", p.Path, p.Line)
		}
		if p.Kind != NewServer {
			continue
		}
		if found.isFactory(&found.Places[i]) {
			return nil, fmt.Errorf("%s:%d: a server is made for each request, and events need one for the life of the process", p.Path, p.Line)
		}
		if server != nil {
			return nil, fmt.Errorf("there are several servers, at %s:%d and %s:%d", server.Path, server.Line, p.Path, p.Line)
		}
		if found.isWithin(p.file, p.call, isLoop) {
			return nil, fmt.Errorf("%s:%d: a loop makes several servers", p.Path, p.Line)
		}
		server = &found.Places[i]
	}
	if server == nil {
		return nil, errors.New("no call of mcp.NewServer was found")
	}
	f := server.file
	site, err := siteOf(server)
	if err == nil && site.failFormat == "" {
		err = errors.New("the function cannot return an error")
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", server.Path, server.Line, err)
	}
	n, err := chooseNames(dir, f, w, site)
	if err != nil {
		return nil, err
	}
	cuts := []cut{{site.behind, site.behind, site.margin +
		strings.Join(w.linesAfter(site.server.Name, n, fmt.Sprintf(site.failFormat, n.err), found.isServedIn(server)), "\n"+site.margin) + "\n"}}
	served := 0
	for _, p := range found.Places {
		if p.Kind == NewServer {
			continue
		}
		if err := site.checkServing(p, server); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", p.Path, p.Line, err)
		}
		cuts = append(cuts, cut{f.offset(p.call.Pos()), f.offset(p.call.End()), w.replacementOf(p, n.transport, serverPlace{srv: site.server.Name, names: n})})
		served++
	}
	if served == 0 {
		return nil, fmt.Errorf("%s:%d: what serves %s was not found", server.Path, server.Line, site.server.Name)
	}
	text, err := addImports(applyCuts(f.text, cuts), f, n, w, site.needsLog)
	if err != nil {
		return nil, err
	}
	return &Edit{Path: f.path, Old: f.text, New: text}, nil
}

// A site is the statement that the new lines follow.
type site struct {
	server *ast.Ident
	block  *ast.BlockStmt
	behind int // the offset of the line after the statement
	margin string
	// failFormat is a format for the code that ends the function with an error, or "" if the function cannot be ended.
	// needsLog reports whether that code needs package log.
	failFormat string
	needsLog   bool
}

// siteOf returns the site where the lines of a place are inserted. If it returns an error, only the fields failFormat
// and needsLog of the site are valid.
func siteOf(made *Place) (*site, error) {
	f := made.file
	s := &site{server: assignedVariable(f.syntax, made.call)}
	var function *ast.FuncType
	var stmt ast.Stmt
	var entry bool
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if n == nil || n.Pos() > made.call.Pos() || n.End() < made.call.End() {
			return n == nil
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			function, entry = n.Type, n.Recv == nil && n.Name.Name == "main"
		case *ast.FuncLit:
			function, entry = n.Type, false
		case *ast.BlockStmt:
			s.block = n
			for _, st := range n.List {
				if st.Pos() <= made.call.Pos() && made.call.End() <= st.End() {
					stmt = st
				}
			}
		case *ast.CaseClause, *ast.CommClause:
			s.block, stmt = nil, nil
		}
		return true
	})
	switch st := stmt.(type) {
	case *ast.AssignStmt:
		if st.Tok != token.DEFINE {
			stmt = nil
		}
	case *ast.DeclStmt:
	default:
		stmt = nil
	}
	if function != nil {
		s.failFormat, s.needsLog = failureCode(f, function, entry)
	}
	if s.server == nil || s.server.Name == "_" || s.server.Obj == nil || stmt == nil || s.block == nil || function == nil {
		return s, errors.New("the server is not in a variable of its function")
	}
	end := f.offset(stmt.End())
	rest := bytes.IndexByte(f.text[end:], '\n')
	s.behind = end + rest + 1
	if rest < 0 || s.behind > f.offset(s.block.Rbrace) {
		return s, errors.New("the function is on one line")
	}
	// The new lines follow this line, so the rest of it may only be a comment.
	if tail := bytes.TrimSpace(f.text[end : end+rest]); len(tail) > 0 && !bytes.HasPrefix(tail, []byte("//")) {
		return s, errors.New("other code follows on the same line")
	}
	start := f.offset(stmt.Pos())
	first := bytes.LastIndexByte(f.text[:start], '\n') + 1
	s.margin = string(f.text[first:start])
	if strings.TrimSpace(s.margin) != "" {
		return s, errors.New("other code precedes it on the same line")
	}
	return s, nil
}

// failureCode returns a format for the code that ends a function with an error, or "" if the function cannot be ended.
// The second result reports whether that code needs package log.
func failureCode(f *file, function *ast.FuncType, entry bool) (string, bool) {
	if entry && f.syntax.Name.Name == "main" {
		return "log.Fatal(%s)", true
	}
	if function.Results == nil || len(function.Results.List) == 0 {
		return "", false
	}
	var results []string
	last := ""
	for _, field := range function.Results.List {
		last = string(f.text[f.offset(field.Type.Pos()):f.offset(field.Type.End())])
		zero := "*new(" + last + ")"
		switch t := field.Type.(type) {
		case *ast.StarExpr, *ast.MapType, *ast.ChanType, *ast.FuncType, *ast.InterfaceType:
			zero = "nil"
		case *ast.ArrayType:
			if t.Len == nil {
				zero = "nil"
			}
		}
		for range max(1, len(field.Names)) {
			results = append(results, zero)
		}
	}
	if last != "error" {
		return "", false
	}
	results[len(results)-1] = "%s"
	return "return " + strings.Join(results, ", "), false
}

// checkServing returns the reason why the call at a place cannot be replaced, or nil.
func (s *site) checkServing(p Place, made *Place) error {
	if p.file != made.file || p.call.Pos() < made.call.End() || p.call.End() > s.block.End() {
		return errors.New("the server is made and served in different functions")
	}
	if p.Kind == Run {
		return nil
	}
	if len(p.call.Args) != 2 {
		return errors.New("it has other arguments than the SDK's")
	}
	get, ok := p.call.Args[0].(*ast.FuncLit)
	if !ok || len(get.Body.List) != 1 {
		return errors.New("a function chooses the server at run time")
	}
	ret, ok := get.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return errors.New("a function chooses the server at run time")
	}
	if id, ok := ret.Results[0].(*ast.Ident); !ok || id.Obj != s.server.Obj {
		return errors.New("a function chooses the server at run time")
	}
	// The new handler is an http.Handler, so a variable of the SDK's type could not hold it.
	fits := false
	ast.Inspect(p.file.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			fits = fits || n.Tok == token.DEFINE && slices.Contains(n.Rhs, ast.Expr(p.call))
		case *ast.CallExpr:
			fits = fits || slices.Contains(n.Args, ast.Expr(p.call))
		}
		return !fits
	})
	if !fits {
		return errors.New("the handler goes to a place that may want the SDK's type")
	}
	return nil
}

// chooseNames chooses names that are unused in every file of the package. An import is visible in its whole file and
// must not have the name of a package-level declaration. Without a site, it cannot detect later declarations of err.
func chooseNames(dir string, f *file, w Wiring, s *site) (nameSet, error) {
	taken, imported := map[string]bool{}, map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(path.Dir(f.path))))
	if err != nil {
		return nameSet{}, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(path.Dir(f.path)), e.Name())
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nameSet{}, err
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				taken[id.Name] = true
			}
			return true
		})
		for _, spec := range syntax.Imports {
			of := strings.Trim(spec.Path.Value, `"`)
			taken[path.Base(of)] = true
			imported[of] = imported[of] || spec.Name == nil
		}
	}
	free := func(candidates ...string) string {
		for _, c := range candidates {
			if !taken[c] {
				taken[c] = true
				return c
			}
		}
		for i := 2; ; i++ {
			if c := fmt.Sprint(candidates[0], i); !taken[c] {
				taken[c] = true
				return c
			}
		}
	}
	std := w.stdImports()
	if s == nil {
		std = nil
	} else if s.needsLog {
		std = append(std, `"log"`)
	}
	for _, spec := range std {
		of := strings.Trim(spec, `"`)
		if name := path.Base(of); taken[name] && !imported[of] {
			return nameSet{}, fmt.Errorf("%s: the name %s is taken", f.path, name)
		}
	}
	n := nameSet{server: free("server", "eventserver"), transport: free("transport", "eventtransport"),
		ingress: free("ingress", "eventingress"), generated: free(w.Package, w.Package+"events"),
		es: free("es", "eventServer"), err: "err", upstream: free("upstream"), service: free("service", "webhookService"),
		in: free("in", "incoming"), webhooks: free("webhooks", "webhookHandler")}
	if w.Setup != "" {
		n.setup = free(path.Base(w.Setup))
		n.kept, n.authenticate = free("kept", "eventStore"), free("authenticate", "authenticateCaller")
		n.metadata, n.console = free("metadata", "authMetadata"), free("console", "operatorConsole")
	}
	for _, e := range w.Events {
		n.events = append(n.events, free(lower(e), lower(e)+"Emitter"))
	}
	if s != nil && s.block != nil && s.behind > 0 && isRedeclared(f, s) {
		n.err = free("eventsErr")
	}
	return n, nil
}

// isRedeclared reports whether a later statement of the block declares only err, which would no longer compile.
func isRedeclared(f *file, s *site) bool {
	for _, st := range s.block.List {
		if f.offset(st.Pos()) < s.behind {
			continue
		}
		switch st := st.(type) {
		case *ast.AssignStmt:
			if st.Tok == token.DEFINE && slices.ContainsFunc(st.Lhs, isErr) && !slices.ContainsFunc(st.Lhs, isOtherOperand) {
				return true
			}
		case *ast.DeclStmt:
			d, ok := st.Decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && slices.ContainsFunc(v.Names, func(id *ast.Ident) bool { return isErr(id) }) {
					return true
				}
			}
		}
	}
	return false
}

func isErr(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "err"
}

// isOtherOperand reports whether an operand on the left of := is neither err nor blank.
func isOtherOperand(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name != "err" && id.Name != "_"
}

// applyCuts applies cuts, which must not overlap.
func applyCuts(text []byte, cuts []cut) []byte {
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, c := range cuts {
		out = append(append(out, text[at:c.from]...), c.text...)
		at = c.to
	}
	return append(out, text[at:]...)
}

// addImports adds the imports of the new lines after the import of the SDK. It removes the import of net/http if the
// file no longer uses it. It formats the file only if the file was already formatted.
func addImports(text []byte, f *file, n nameSet, w Wiring, needsLog bool) ([]byte, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.path, text, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	lines := append(w.missingImports(f, n, true), w.importSpecs(n, false)...)
	if needsLog && importName(syntax, "log") == "" {
		lines = append(lines, `"log"`)
	}
	var cuts []cut
	for _, decl := range syntax.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.IMPORT {
			continue
		}
		if at := slices.IndexFunc(d.Specs, isStd); at >= 0 && d.Lparen.IsValid() {
			// Imports of the standard library join the existing ones.
			ours, rest := splitImports(lines)
			from := fset.Position(d.Specs[at].Pos()).Offset
			first := bytes.LastIndexByte(text[:from], '\n') + 1
			if len(ours) > 0 && len(bytes.TrimSpace(text[first:from])) == 0 {
				cuts, lines = append(cuts, cut{first, first, "\t" + strings.Join(ours, "\n\t") + "\n"}), rest
			}
		}
		for _, s := range d.Specs {
			spec := s.(*ast.ImportSpec)
			from, to := fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset
			switch {
			case spec.Path.Value == `"`+sdkPath+`"` && d.Lparen.IsValid():
				cuts = append(cuts, cut{from, from, joinImports(lines, "\n\t") + "\n\t"})
				lines = nil
			case spec.Path.Value == `"`+sdkPath+`"`:
				cuts = append(cuts, cut{fset.Position(d.End()).Offset, fset.Position(d.End()).Offset,
					"\n\nimport (\n\t" + joinImports(lines, "\n\t") + "\n)"})
				lines = nil
			case spec.Path.Value == `"net/http"` && d.Lparen.IsValid() && !usesImport(syntax, importName(syntax, "net/http")):
				next := bytes.IndexByte(text[to:], '\n')
				first := bytes.LastIndexByte(text[:from], '\n') + 1
				cuts = append(cuts, cut{first, to + next + 1, ""})
			}
		}
	}
	text = applyCuts(text, cuts)
	if before, err := format.Source(f.text); err == nil && bytes.Equal(before, f.text) {
		return format.Source(text)
	}
	_, err = parser.ParseFile(token.NewFileSet(), f.path, text, 0)
	return text, err
}

// joinImports joins import specs with sep between those of the standard library and the others.
func joinImports(lines []string, sep string) string {
	std, rest := splitImports(lines)
	if len(std) == 0 {
		return strings.Join(rest, sep)
	}
	return strings.Join(std, sep) + "\n" + sep + strings.Join(rest, sep)
}

// splitImports separates the imports of the standard library from the others.
func splitImports(lines []string) (std, rest []string) {
	for _, l := range lines {
		if strings.Contains(l, ".") {
			rest = append(rest, l)
		} else {
			std = append(std, l)
		}
	}
	return std, rest
}

// isStd reports whether an import is from the standard library.
func isStd(s ast.Spec) bool { return !strings.Contains(s.(*ast.ImportSpec).Path.Value, ".") }

// usesImport reports whether a file uses the package that it imports under a name.
func usesImport(syntax *ast.File, name string) bool {
	found := name == "" || name == "_" || name == "."
	ast.Inspect(syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				found = true
			}
		}
		return !found
	})
	return found
}
