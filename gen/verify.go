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
	"github.com/mcpe-gen/mcpe-gen/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Verify type-checks the planned packages as part of the module that holds them, as if the plan
// were applied. Errors of the code are diagnostics; the returned error is a failure to load the
// module.
func (p *Plan) Verify(ctx context.Context) ([]diagnostic.Diagnostic, error) {
	overlay := map[string][]byte{}
	for _, list := range [][]File{p.Create, p.Update} {
		for _, f := range list {
			if filepath.Ext(f.at) == ".go" || filepath.Base(f.at) == golang.SchemasFile { // which is embedded
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
	for _, out := range p.packages {
		found, err := out.check(ctx, overlay)
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

func (o output) check(ctx context.Context, overlay map[string][]byte) ([]source.Diagnostic, error) {
	if _, err := os.Stat(filepath.Join(o.base, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("verify %s: it is not in a module: there is no go.mod in the directory or above; create one with go mod init", o.shown)
	}
	dir := o.dir
	for { // the go command needs a directory that exists
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
		// Without NeedDeps the imports come from export data, so that their sources are not checked.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax,
	}, "./"+filepath.ToSlash(rel))
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", o.shown, err)
	}
	var diags []source.Diagnostic
	missing := map[string]bool{}
	for _, pkg := range loaded {
		// The go command compiles to get export data, and says in one text what the type checker says by place.
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
					module = golang.RuntimeModule // one requirement for all of its packages
				}
				if missing[module] {
					continue
				}
				missing[module] = true
				message, hint = "go.mod requires no module that has "+module, "go get "+module
			}
			diags = append(diags, source.New("MCPE302", o.rangeOf(e.Pos), "%s", message).WithHint("%s", hint))
		}
	}
	return diags, nil
}

// notImported matches what the type checker says of an import that could not be loaded.
var notImported = regexp.MustCompile(`^could not import (\S+) \(invalid package name: ""\)$`)

// rangeOf reads the file:line:column of a compiler message.
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
