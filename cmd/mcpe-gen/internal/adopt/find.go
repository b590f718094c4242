package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	sdkPath   = "github.com/modelcontextprotocol/go-sdk/mcp"
	mcpGoPath = "github.com/mark3labs/mcp-go/server"
	httpPath  = "net/http"
)

// A Kind is the kind of a place.
type Kind string

// The kinds of places.
const (
	// NewServer creates the SDK's server. Events are added after the call.
	NewServer Kind = "NewServer"
	// Handler is the SDK's handler for Streamable HTTP, which transport.NewHandler replaces.
	Handler Kind = "NewStreamableHTTPHandler"
	// SSE is the SDK's handler for the older HTTP transport, which transport.NewSSEHandler replaces.
	SSE Kind = "NewSSEHandler"
	// Run runs the server on a transport. It is replaced with transport.Run.
	Run Kind = "Run"
	// mcpGoHTTP is mcp-go's handler for Streamable HTTP, around which overlay.NewHandler goes.
	mcpGoHTTP Kind = "NewStreamableHTTPServer"
)

// servedHandler is the index of the handler among the arguments of the functions of net/http that serve one.
var servedHandler = map[string]int{"ListenAndServe": 1, "ListenAndServeTLS": 3, "Serve": 1, "ServeTLS": 1}

// mcpGoOnly is what serves mcp-go's servers on transports to which nothing can add events.
var mcpGoOnly = []string{"ServeStdio", "NewStdioServer", "NewSSEServer"}

// A Place is a call in a program that is relevant to events.
type Place struct {
	Kind Kind
	// Path is relative to the module's directory and uses slashes.
	Path string
	// Line counts from 1.
	Line int
	file *file
	call *ast.CallExpr
}

// serverName finds the name and the version of a server if they are string literals.
var serverName = regexp.MustCompile(`(?:Implementation\{\s*Name:|NewMCPServer\()\s*("[^"\n]*"),?\s*(?:Version:\s*)?("[^"\n]*")?`)

// A mount is the expression for the handler of a program's HTTP server.
type mount struct {
	file    *file
	handler ast.Expr
}

// A file is a Go file that imports the SDK, mcp-go or net/http.
type file struct {
	path   string
	text   []byte
	fset   *token.FileSet
	syntax *ast.File
	// sdk, mcpGo and http are the names under which the file imports these packages, or "".
	sdk, mcpGo, http string
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// Found lists the places in a module that use the SDK.
type Found struct {
	Places []Place
	// Broken lists files that import the SDK, mcp-go or net/http but do not parse. Their places are unknown.
	Broken []string
	files  []*file
	// mcpGo lists the calls that serve servers of mcp-go, and mounts the handlers of HTTP servers.
	mcpGo  []Place
	mounts []mount
	// name and version are the string literals that name the server, or "".
	name, version string
	// uses is where the module uses a server, or "". OtherSDK is another SDK for servers that go.mod requires, or "".
	uses, OtherSDK string
}

// Find finds the places in the Go files of a module. It uses only their syntax and import paths. It skips tests, nested
// modules, vendor, testdata, and directories whose names begin with "." or "_".
func Find(dir string) (*Found, error) {
	found := &Found{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != dir && skipped(name, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !slices.ContainsFunc([]string{sdkPath, mcpGoPath, httpPath}, func(of string) bool { return bytes.Contains(text, []byte(of)) }) {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		found.addPlaces(filepath.ToSlash(rel), text)
		return nil
	})
	return found, err
}

func skipped(name, base string) bool {
	if base == "vendor" || base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") ||
		strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return !errors.Is(err, fs.ErrNotExist)
}

// addPlaces records the places in one file.
func (found *Found) addPlaces(name string, text []byte) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		found.Broken = append(found.Broken, name)
		return
	}
	f := &file{path: name, text: text, fset: fset, syntax: syntax}
	f.sdk, f.mcpGo, f.http = importName(syntax, sdkPath), importName(syntax, mcpGoPath), importName(syntax, httpPath)
	if f.sdk == "_" || f.sdk+f.mcpGo+f.http == "" {
		return
	}
	found.files = append(found.files, f)
	if named := serverName.FindSubmatch(text); named != nil {
		found.name, found.version = string(named[1]), string(named[2])
	}
	servers := map[token.Pos]bool{} // by the position of the variable's declaration
	ast.Inspect(syntax, func(n ast.Node) bool {
		found.addMount(f, n)
		if sel, ok := n.(*ast.SelectorExpr); ok && (isNamed(sel.X, f.sdk) && sel.Sel.Name == "Server" || isNamed(sel.X, f.mcpGo) && sel.Sel.Name == "MCPServer") {
			found.uses = fmt.Sprintf("%s at %s:%d", f.source(sel), f.path, f.line(sel.Pos()))
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name := f.callOf(f.mcpGo, call); name == string(mcpGoHTTP) && len(call.Args) > 0 || slices.Contains(mcpGoOnly, name) {
			found.mcpGo = append(found.mcpGo, f.place(Kind(name), call))
		}
		switch name := f.callOf(f.sdk, call); name {
		case "NewServer", "NewStreamableHTTPHandler", "NewSSEHandler":
			found.Places = append(found.Places, f.place(Kind(name), call))
			if name == "NewServer" {
				if id := assignedVariable(syntax, call); id != nil && id.Obj != nil {
					servers[id.Obj.Pos()] = true
				}
			}
		}
		return true
	})
	ast.Inspect(syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" {
			id, ok := sel.X.(*ast.Ident)
			if ok && id.Obj != nil && servers[id.Obj.Pos()] || f.isTransport(call.Args[1]) {
				found.Places = append(found.Places, f.place(Run, call))
			}
		}
		return true
	})
}

// addMount records the handler of an HTTP server.
func (found *Found) addMount(f *file, n ast.Node) {
	var handler ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		if i, ok := servedHandler[f.callOf(f.http, n)]; ok && i < len(n.Args) {
			handler = n.Args[i]
		}
	case *ast.CompositeLit:
		if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Server" && isNamed(sel.X, f.http) {
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && isNamed(kv.Key, "Handler") {
					handler = kv.Value
				}
			}
		}
	case *ast.AssignStmt:
		if sel, ok := n.Lhs[0].(*ast.SelectorExpr); ok && sel.Sel.Name == "Handler" && f.http != "" {
			handler = n.Rhs[0]
		}
	}
	if handler != nil {
		found.mounts = append(found.mounts, mount{f, handler})
	}
}

func (f *file) place(kind Kind, call *ast.CallExpr) Place {
	return Place{Kind: kind, Path: f.path, Line: f.line(call.Pos()), file: f, call: call}
}

// callOf returns the name of the function that a call invokes in the package that the file imports under a name, or ""
// for any other call.
func (f *file) callOf(pkg string, call *ast.CallExpr) string {
	if id, ok := call.Fun.(*ast.Ident); ok && pkg == "." && id.Obj == nil {
		return id.Name
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	// A name with an Obj is declared in the file and shadows the import.
	if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg && id.Obj == nil {
		return sel.Sel.Name
	}
	return ""
}

// isTransport reports whether an expression is the address of one of the SDK's transports.
func (f *file) isTransport(e ast.Expr) bool {
	if and, ok := e.(*ast.UnaryExpr); ok && and.Op == token.AND {
		if lit, ok := and.X.(*ast.CompositeLit); ok {
			sel, ok := lit.Type.(*ast.SelectorExpr)
			if !ok || !strings.HasSuffix(sel.Sel.Name, "Transport") {
				return false
			}
			id, ok := sel.X.(*ast.Ident)
			return ok && id.Name == f.sdk
		}
	}
	return false
}

// importName returns the name under which a file imports a package, or "" if it does not import the package.
func importName(syntax *ast.File, of string) string {
	for _, spec := range syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != of {
			continue
		}
		return nameOf(spec)
	}
	return ""
}

// nameOf returns the name of an import. It assumes that a package has the name of its directory.
func nameOf(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}

// assignedVariable returns the variable that the result of a call is assigned to, or nil if there is not exactly one.
func assignedVariable(syntax *ast.File, call ast.Expr) *ast.Ident {
	var id *ast.Ident
	ast.Inspect(syntax, func(n ast.Node) bool {
		if names, values := assignment(n); len(names) == 1 && len(values) == 1 && values[0] == call {
			id, _ = names[0].(*ast.Ident)
		}
		return id == nil
	})
	return id
}
