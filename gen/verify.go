package gen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Verify type-checks the planned packages in their module as if the plan had been applied. It returns errors in the
// code as diagnostics, and a failure to load the module as an error.
func (p *Plan) Verify(ctx context.Context) ([]diagnostic.Diagnostic, error) {
	overlay := map[string][]byte{}
	for _, list := range [][]File{p.Create, p.Update} {
		for _, f := range list {
			if filepath.Ext(f.at) == ".go" || filepath.Base(f.at) == golang.SchemasFile { // the schemas are embedded
				overlay[f.at] = f.Content
			}
		}
	}
	for _, f := range p.Delete {
		if filepath.Ext(f.at) == ".go" {
			overlay[f.at] = []byte("package " + p.packageOf(f.at) + "\n")
		}
	}
	var diags []source.Diagnostic
	missing := map[string]bool{} // modules, each reported once
	for _, out := range p.packages {
		found, err := out.check(ctx, overlay, missing)
		if err != nil {
			return nil, err
		}
		diags = append(diags, found...)
	}
	return source.Sort(diags), nil
}

func (p *Plan) packageOf(file string) string {
	for _, out := range p.packages {
		if out.dir == filepath.Dir(file) {
			return out.name
		}
	}
	return "p"
}

func (o output) check(ctx context.Context, overlay map[string][]byte, missing map[string]bool) ([]source.Diagnostic, error) {
	if _, err := os.Stat(filepath.Join(o.base, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("verify %s: found no go.mod in the directory or its parents; create one with go mod init", o.shown)
	}
	dir := o.dir
	for { // the go command needs an existing directory
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		if filepath.Dir(dir) == dir {
			return nil, fmt.Errorf("verify %s: no such directory", o.shown)
		}
		dir = filepath.Dir(dir)
	}
	rel, err := filepath.Rel(dir, o.dir)
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Overlay: overlay,
		// Without NeedDeps, imports come from export data, and the sources of imported packages are not checked.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax,
	}, "./"+filepath.ToSlash(rel))
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", o.shown, err)
	}
	if len(loaded) == 0 { // for example, go.mod lacks requirements of required modules
		return nil, fmt.Errorf("verify %s: the go command found no package; run go mod tidy in %s, then verify again", o.shown, o.base)
	}
	var diags []source.Diagnostic
	for _, pkg := range loaded {
		// The go command compiles to get export data. Its single error repeats the errors that the type checker reports
		// one by one.
		typed := slices.ContainsFunc(pkg.Errors, func(e packages.Error) bool { return e.Kind == packages.TypeError })
		for _, e := range pkg.Errors {
			if e.Kind == packages.ListError && typed {
				continue
			}
			if more, ok := strings.CutPrefix(e.Msg, "\t"); ok && len(diags) > 0 {
				diags[len(diags)-1] = diags[len(diags)-1].WithRelated(o.rangeOf(e.Pos), "%s", more)
				continue
			}
			message, hint := strings.ReplaceAll(e.Msg, "\n\t", "; "), ""
			if m := notImported.FindStringSubmatch(e.Msg); m != nil {
				module := m[1]
				if module == golang.RuntimeModule || strings.HasPrefix(module, golang.RuntimeModule+"/") {
					module = golang.RuntimeModule // one requirement covers all packages of the module
				}
				if missing[module] {
					continue
				}
				missing[module] = true
				message, hint = "no module in go.mod provides "+module, "go get "+module
			}
			diags = append(diags, source.New("MCPE302", o.rangeOf(e.Pos), "%s", message).WithHint("%s", hint))
		}
	}
	return diags, nil
}

// notImported matches the type checker's error for an import that cannot be loaded.
var notImported = regexp.MustCompile(`^could not import (\S+) \(invalid package name: ""\)$`)

// rangeOf parses the file:line:column of a compiler message.
func (o output) rangeOf(pos string) source.Range {
	parts := strings.Split(pos, ":")
	var numbers []int
	for len(parts) > 1 && len(numbers) < 2 {
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			break
		}
		numbers = append([]int{n}, numbers...)
		parts = parts[:len(parts)-1]
	}
	file := strings.Join(parts, ":")
	if rel, err := filepath.Rel(o.dir, file); err == nil && file != "" && !strings.HasPrefix(rel, "..") {
		file = filepath.Join(o.shown, rel)
	}
	if file == "" || file == "-" {
		file = o.shown
	}
	at := source.Position{File: file}
	if len(numbers) > 0 {
		at.Line = numbers[0]
	}
	if len(numbers) > 1 {
		at.Column = numbers[1]
	}
	return source.Range{Start: at, End: at}
}
