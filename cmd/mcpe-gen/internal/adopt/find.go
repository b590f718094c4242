package adopt

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

const sdkPath = "github.com/modelcontextprotocol/go-sdk/mcp"

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
)

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

// A file is a Go file that imports the SDK.
type file struct {
	path   string
	text   []byte
	fset   *token.FileSet
	syntax *ast.File
	// sdk is the name under which the file imports the SDK.
	sdk string
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// Found lists the places in a module that use the SDK.
type Found struct {
	Places []Place
	// Broken lists files that import the SDK but do not parse. Their places are unknown.
	Broken []string
	files  []*file
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
		if err != nil || !bytes.Contains(text, []byte(sdkPath)) {
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
	if f.sdk = importName(syntax, sdkPath); f.sdk == "" || f.sdk == "_" {
		return
	}
	found.files = append(found.files, f)
	servers := map[token.Pos]bool{} // by the position of the variable's declaration
	ast.Inspect(syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch name := f.sdkCall(call); name {
		case "NewServer", "NewStreamableHTTPHandler", "NewSSEHandler":
			found.place(f, Kind(name), call)
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
				found.place(f, Run, call)
			}
		}
		return true
	})
}

func (found *Found) place(f *file, kind Kind, call *ast.CallExpr) {
	found.Places = append(found.Places, Place{Kind: kind, Path: f.path, Line: f.line(call.Pos()), file: f, call: call})
}

// sdkCall returns the name of the SDK function that a call invokes, or "" for any other call.
func (f *file) sdkCall(call *ast.CallExpr) string {
	if id, ok := call.Fun.(*ast.Ident); ok && f.sdk == "." && id.Obj == nil {
		return id.Name
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	// A name with an Obj is declared in the file and shadows the import.
	if id, ok := sel.X.(*ast.Ident); ok && id.Name == f.sdk && id.Obj == nil {
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
func assignedVariable(syntax *ast.File, call *ast.CallExpr) *ast.Ident {
	var id *ast.Ident
	ast.Inspect(syntax, func(n ast.Node) bool {
		if names, values := assignment(n); len(names) == 1 && len(values) == 1 && values[0] == ast.Expr(call) {
			id, _ = names[0].(*ast.Ident)
		}
		return id == nil
	})
	return id
}
