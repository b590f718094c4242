// Package templates holds what `mcpe-gen init` writes: the files of a small MCP server with one event type, on
// stdio or on Streamable HTTP, whose events are emitted or found by a check, or of one that makes the webhooks of a
// service events. They are written once and then belong to the author.
//
// Start at [Render]. The files lie in common/, in one directory for each transport, in those of what the server
// is about: notes/ with one for each source, or webhooks/; and in one for each thing that is chosen: store/, bearer/,
// oauth/, console/, typescript/. What several of them share is in partial/. They are text templates over [Scaffold]; every one ends in
// .tmpl, so that neither the go command nor an editor takes go.mod.tmpl for a module or main.go.tmpl for Go.
//
// This package makes no compatibility promise.
package templates

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"
)

//go:embed all:common all:stdio all:http all:notes all:noteshttp all:emit all:check all:webhooks
//go:embed all:store all:bearer all:oauth all:console all:setup all:typescript all:partial
var tree embed.FS

// Transports are the values that Scaffold.Transport may have.
var Transports = []string{"stdio", "http"}

// Stores are the values that Scaffold.Store may have, and Auths those of Scaffold.Auth.
var (
	Stores = []string{"memory", "sqlite", "postgres", "jetstream"}
	Auths  = []string{"none", "bearer", "oauth"}
)

// Sources are the values that Scaffold.Source may have.
var Sources = []string{"emit", "check"}

// A Scaffold is what the templates need to know.
type Scaffold struct {
	// Module is the module path of the new module, for example "example.com/demo".
	Module string
	// Name is what the program and the MCP server are called, for example "demo".
	Name string
	// Transport is one of Transports.
	Transport string
	// Source is where events come from, one of Sources: "emit" when the program tells of each,
	// "check" when the server asks an upstream for new ones.
	Source string
	// Store is what events are kept in, one of Stores; "" for memory.
	Store string
	// Auth is how callers say who they are, one of Auths; "" for bearer on HTTP, and for none on stdio.
	Auth string
	// Webhooks offers delivery by webhook, Console serves the operators' console; both on HTTP only.
	Webhooks, Console bool
	// TypeScript adds the TypeScript of the event types, and a program that listens, in web/.
	TypeScript bool
	// GoVersion is the go line of go.mod, for example "1.26.0".
	GoVersion string
	// Version is the version of this module that go.mod requires, for example "v0.1.0".
	Version string
	// Replace is a file path, as a go.mod has it, that this module is replaced by; "" for none.
	Replace string
	// From is the service whose webhooks become events, nil for the server of notes.
	From *From
	// Adopted says that the module is there, with its server, for [RenderInto]. RootPackage is then the Go package in the
	// module's directory, and OwnEventFile says that mcpe.yaml names the scaffold's event file alone, not all in events/.
	Adopted      bool
	RootPackage  string
	OwnEventFile bool
}

// SetupPackage is the name of the package, below internal/, that has what a server which is there needs beside events:
// its store, who its callers are, what operators see.
const SetupPackage = "eventsetup"

// GoPackage is the package of the files that [SetupPackage] has in a module that is there.
func (s Scaffold) GoPackage() string {
	if s.Adopted {
		return SetupPackage
	}
	return "main"
}

// Go is the name of a function of those files: exported where another package calls it.
func (s Scaffold) Go(name string) string {
	if s.Adopted {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// StoreFlag is the flag that says where events are kept, and its variable.
func (s Scaffold) StoreFlag() string {
	if s.Store == "jetstream" {
		return "nats"
	}
	return "db"
}

// Shared reports whether several processes can serve from the store.
func (s Scaffold) Shared() bool { return s.Store == "postgres" || s.Store == "jetstream" }

// Modules are what go.mod requires beside this module: directories below its root, in the same version.
func (s Scaffold) Modules() []string {
	if s.Store == "jetstream" {
		return []string{"runtime/store/jetstream"}
	}
	return nil
}

// ReplaceOf is what one of Modules is replaced by, where this module is.
func (s Scaffold) ReplaceOf(module string) string {
	checkout, err := strconv.Unquote(s.Replace)
	if err != nil {
		checkout = s.Replace
	}
	return modfile.AutoQuote(strings.TrimSuffix(checkout, "/") + "/" + module)
}

// HasSetup reports whether anything of [SetupPackage] is wanted.
func (s Scaffold) HasSetup() bool {
	return s.Adopted && (s.Store != "memory" || s.Auth != "none" || s.Console)
}

// A From is a service whose webhooks become events, and the event types that it starts with.
type From struct {
	// Service is its word, for example "standard-webhooks", Title what people call it, GoName what Go names begin
	// with.
	Service, Title, GoName string
	// Package is the generated package, and the name of the event file.
	Package string
	// EventFile is the event file, Sample the body of a webhook that becomes the first of Events.
	EventFile, Sample []byte
	Events            []FromEvent
}

// A FromEvent is one event type of a [From].
type FromEvent struct {
	// Name is the event type's, GoName what Go names of it begin with, Event what the service calls it.
	Name, GoName, Event string
}

// Env is the environment variable with the secret of the webhooks.
func (f From) Env() string {
	return strings.ToUpper(strings.ReplaceAll(f.Service, "-", "_")) + "_SECRET"
}

// Package is the name of the generated package, which is below internal/.
func (s Scaffold) Package() string {
	if s.From != nil {
		return s.From.Package
	}
	return "notes"
}

// directories are those whose files make the scaffold.
func (s Scaffold) directories() []string {
	dirs := []string{"common", s.Transport}
	if s.From != nil {
		dirs = append(dirs, "webhooks")
	} else {
		dirs = append(dirs, "notes", s.Source)
		if s.Transport == "http" {
			dirs = append(dirs, "noteshttp")
		}
	}
	if s.Store != "memory" {
		dirs = append(dirs, "store")
	}
	if s.Auth != "none" {
		dirs = append(dirs, s.Auth)
	}
	if s.Console {
		dirs = append(dirs, "console")
	}
	if s.HasSetup() {
		dirs = append(dirs, "setup")
	}
	if s.TypeScript {
		dirs = append(dirs, "typescript")
	}
	return dirs
}

// Settle chooses what was left open, and refuses what does not go together. Its errors name the flags of init.
func (s *Scaffold) Settle() error {
	if s.Store == "" {
		s.Store = "memory"
	}
	if s.Auth == "" {
		s.Auth = "bearer"
		if s.Transport == "stdio" || s.Adopted { // who is there has its own way, or none
			s.Auth = "none"
		}
	}
	for _, c := range []struct {
		what, value string
		choices     []string
	}{{"transport", s.Transport, Transports}, {"source", s.Source, Sources}, {"store", s.Store, Stores}, {"auth", s.Auth, Auths}} {
		if !slices.Contains(c.choices, c.value) {
			return fmt.Errorf("%s %q is none of %s", c.what, c.value, strings.Join(c.choices, ", "))
		}
	}
	switch stdio := s.Transport == "stdio"; {
	case stdio && s.From != nil:
		return fmt.Errorf("webhooks come by HTTP: transport %q cannot take them in", s.Transport)
	case stdio && s.Webhooks:
		return errors.New("--webhooks: subscriptions belong to somebody, and nobody has a name on stdio; use --transport http")
	case stdio && s.Auth != "none":
		return fmt.Errorf("--auth %s: a client on stdio starts the server itself; use --transport http", s.Auth)
	case stdio && s.Console:
		return errors.New("--console: operators come by HTTP; use --transport http")
	case s.Webhooks && s.Auth == "none" && !s.Adopted:
		return errors.New("--webhooks: subscriptions belong to somebody, and with --auth none nobody has a name")
	}
	return nil
}

// GoRelease is the Go release that GoVersion belongs to, for example "1.26". The container image of
// this tag has the newest patch.
func (s Scaffold) GoRelease() string {
	return strings.TrimPrefix(version.Lang("go"+s.GoVersion), "go")
}

// A File is one file to write.
type File struct {
	// Path is relative to the directory of the new module, with slashes.
	Path    string
	Content []byte
}

// Render gives the files of a scaffold in the order of their paths. It writes nothing.
func Render(s Scaffold) ([]File, error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}
	var files []File
	if s.From != nil {
		files = append(files, File{Path: "events/" + s.From.Package + ".yaml", Content: s.From.EventFile},
			File{Path: "testdata/webhook.json", Content: s.From.Sample})
	}
	for _, dir := range s.directories() {
		err := fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := execute(name, s)
			if err != nil {
				return err
			}
			files = append(files, File{Path: target(dir, name), Content: content})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// RenderInto gives the files that a module which is there needs for the events of a scaffold, in the order of their
// paths: the event file, mcpe.yaml, generate.go, what is in web/, and [SetupPackage]. It writes nothing.
func RenderInto(s Scaffold) ([]File, error) {
	if s.RootPackage == "" {
		return nil, errors.New("the package of generate.go is not known")
	}
	all, err := Render(s)
	if err != nil {
		return nil, err
	}
	setup := []string{"doc.go", "store.go", "auth.go", "auth_test.go", "console.go"}
	wanted := []string{"events/" + s.Package() + ".yaml", "mcpe.yaml", "generate.go"}
	var files []File
	for _, f := range all {
		switch {
		case slices.Contains(setup, f.Path):
			f.Path = "internal/" + SetupPackage + "/" + f.Path
		case !slices.Contains(wanted, f.Path) && !strings.HasPrefix(f.Path, "web/"):
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// hidden are names that begin with a dot in a scaffold. The dot is left out of the template's name,
// because a .gitignore here would be obeyed here.
var hidden = []string{"gitignore", "gitattributes", "dockerignore", "github"}

// target turns common/gitignore.tmpl into .gitignore and http/main.go.tmpl into main.go.
func target(dir, name string) string {
	p := strings.TrimSuffix(strings.TrimPrefix(name, dir+"/"), ".tmpl")
	if first, _, _ := strings.Cut(p, "/"); slices.Contains(hidden, first) {
		return "." + p
	}
	return p
}

func execute(name string, s Scaffold) ([]byte, error) {
	text, err := tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").ParseFS(tree, "partial/*.tmpl")
	if err != nil {
		return nil, err
	}
	if t, err = t.Parse(string(text)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
