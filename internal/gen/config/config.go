package config

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Name is the name of the configuration file.
const Name = "mcpe.yaml"

// Misnamed is a wrong name of the configuration file that people give it.
const Misnamed = "mcpe.yml"

// Emits lists the valid values of emit in canonical order. The first three are the default.
var Emits = []string{"server", "client", "tools", "ingress", "types"}

// ServerSuffix and ClientSuffix follow the name of the package with the types in the default names of the packages for
// servers and for clients.
const (
	ServerSuffix = "server"
	ClientSuffix = "client"
)

// A Config is the content of a configuration file.
type Config struct {
	// Path is the path of the file. Dir is the base directory of the relative paths in it.
	Path, Dir string
	Packages  []Package
	// Types maps JSON Schema formats to Go types such as github.com/google/uuid.UUID.
	Types map[string]string
	// Refs maps URL prefixes of remote schemas to paths, joined to Dir.
	Refs map[string]string
	// Dialect is the default schema dialect, as in [schema.Options].
	Dialect string
	// Overrides change third-party schemas as they are read. It may be nil.
	Overrides *schema.Overrides
	// Silences lists the diagnostics to hide in text output.
	Silences []Silence
	// Plugins lists the programs that generate files from the model.
	Plugins []Plugin
	// Places maps the entries of types and of import to their locations, by key and entry. The key packages without an
	// entry is the location of the list, and the key format is that of a format in types.
	Places map[[2]string]source.Range
	// Lint and Breaking select rules. The defaults are STANDARD for Lint and WIRE for Breaking.
	Lint, Breaking rule.Selection

	// met contains the names in the recorded sets.
	met names
}

// Reading returns the options for reading the event files of the configuration.
func (c *Config) Reading() schema.Options {
	return schema.Options{Refs: c.Refs, Dialect: c.Dialect, Overrides: c.Overrides, Formats: slices.Sorted(maps.Keys(c.Types))}
}

// A Package is a Go package to generate.
type Package struct {
	// Schemas lists the glob patterns of its event files.
	Schemas []Pattern
	// Out is the output directory of the Go types, joined to the configuration's directory. It is empty if only
	// TypeScript is generated. Server and Client are the output directories of the code for servers and for clients. If
	// one is empty, it is below Out.
	Out, Server, Client string
	// TypeScript is nil if no TypeScript is generated.
	TypeScript *TypeScript
	// Name is the package name. If it is empty, the event files or the directory determine the name.
	Name string
	// Emit lists the parts to generate.
	Emit []string
	// Import maps file paths, joined to the configuration's directory, to the import paths of the Go packages that
	// declare their types.
	Import map[string]string
}

// A Plugin is a program that generates files from the model. See PLUG-1.
type Plugin struct {
	Name string
	// Command is the program and its arguments. The program runs in the configuration's directory.
	Command []string
	// Out is the output directory, joined to the configuration's directory.
	Out string
	// Options is the value of the options key as JSON, or nil if absent.
	Options json.RawMessage
	// Timeout is the time limit of the program. Zero means the default.
	Timeout time.Duration
}

// A TypeScript describes the TypeScript output of a package. Emit lists the files to generate besides events.ts.
type TypeScript struct {
	// Out is the output directory, joined to the configuration's directory.
	Out  string
	Emit []string
}

// Place returns the output directory that identifies the package. It prefers the Go directory to the TypeScript
// directory.
func (p Package) Place() string {
	if p.Out == "" && p.TypeScript != nil {
		return p.TypeScript.Out
	}
	return p.Out
}

// A Pattern is a glob pattern with its position.
type Pattern struct {
	Text  string
	Range source.Range
}

// Find searches dir and its parents for a configuration file and returns the path of the first one. It returns false if
// no such file exists. The path is relative if dir is relative.
func Find(dir string) (string, bool) {
	for at := dir; ; at = filepath.Join(at, "..") {
		path := filepath.Join(at, Name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
		if abs, err := filepath.Abs(at); err != nil || filepath.Dir(abs) == abs {
			return "", false
		}
	}
}

// Load reads the configuration file at path. A nil readFile means [source.ReadFile]. The configuration is nil if the
// file is not valid YAML. It is complete only if no diagnostic has severity error.
func Load(path string, readFile func(string) ([]byte, error)) (*Config, []source.Diagnostic) {
	if readFile == nil {
		readFile = source.ReadFile
	}
	node, found := formOf().Read(path, readFile)
	if node == nil {
		return nil, found
	}
	l := &loader{config: &Config{Path: path, Dir: filepath.Dir(path), Types: make(map[string]string), Refs: make(map[string]string), Places: make(map[[2]string]source.Range)}, outs: make(map[string]source.Range)}
	l.Report(found...)
	l.load(node)
	return l.config, source.Sort(l.Found)
}

// A loader reads a configuration whose form has been checked. It skips values of the wrong type, and reports the faults
// that the JSON Schema cannot describe.
type loader struct {
	source.Collector
	config *Config
	outs   map[string]source.Range // of the output directories, by kind and directory
}

func (l *loader) load(n *source.Node) {
	l.config.Places[[2]string{"packages", ""}] = source.Range{Start: n.Range.Start, End: n.Range.Start}
	if m := n.Member("packages"); m != nil {
		l.config.Places[[2]string{"packages", ""}] = m.KeyRange
	}
	for _, p := range n.ItemsOf("packages", source.Object) {
		l.readPackage(p)
	}
	named := make(map[string]source.Range)
	for _, p := range n.ItemsOf("plugins", source.Object) {
		l.readPlugin(p, named)
	}
	for _, m := range n.Words("types") {
		if _, err := ir.ParseGoType(m.Value.Text); err != nil {
			l.ReportOnce(source.New("MCPE402", m.Value.Range, "the Go type of format %s: %v", m.Key, err).WithHint("as in github.com/google/uuid.UUID"))
		}
		l.config.Types[m.Key], l.config.Places[[2]string{"types", m.Key}] = m.Value.Text, m.Value.Range
		l.config.Places[[2]string{"format", m.Key}] = m.KeyRange
	}
	for _, m := range n.Words("refs") {
		if _, err := url.Parse(m.Key); err != nil {
			l.ReportOnce(source.New("MCPE405", m.KeyRange, "the key %q is not a URL", m.Key).WithHint("as in https://example.com/schemas/"))
		}
		l.config.Refs[m.Key] = l.path(m.Value.Text)
	}
	l.config.Dialect = n.Word("dialect")
	l.readOverrides(n)
	l.readSilences(n)
	l.readRules(n)
}

// path joins a path in the file to the configuration's directory. It returns "" for an empty path.
func (l *loader) path(text string) string {
	if text == "" {
		return ""
	}
	return filepath.Join(l.config.Dir, filepath.FromSlash(text))
}

func (l *loader) readPackage(n *source.Node) {
	p := Package{Emit: Emits[:3], Name: n.Word("package")}
	for _, s := range n.ItemsOf("schemas", source.String) {
		if l.checkPattern(s) {
			p.Schemas = append(p.Schemas, Pattern{Text: s.Text, Range: s.Range})
		}
	}
	p.Out = l.readOut(n, "packages")
	p.Server, p.Client = l.readOut(n.Get("server"), "packages"), l.readOut(n.Get("client"), "packages")
	if t := n.Get("typescript"); t != nil {
		p.TypeScript = &TypeScript{Out: l.readOut(t, "TypeScript packages"), Emit: t.Texts("emit")}
	}
	if p.Out == "" {
		p.Emit = []string{"types"} // no Go output is configured
	} else if emit := n.Texts("emit"); emit != nil {
		p.Emit = emit
	}
	if imports := n.Words("import"); len(imports) > 0 {
		p.Import = make(map[string]string, len(imports))
		for _, m := range imports {
			p.Import[l.path(m.Key)], l.config.Places[[2]string{"import", l.path(m.Key)}] = m.Value.Text, m.KeyRange
		}
	}
	l.config.Packages = append(l.config.Packages, p)
}

// maxTimeout is the maximum timeout of a plugin.
const maxTimeout = time.Hour

func (l *loader) readPlugin(n *source.Node, named map[string]source.Range) {
	p := Plugin{Name: n.Word("name"), Command: n.Texts("command"), Out: l.readOut(n, "plugins")}
	if at := n.Get("name"); at != nil {
		if first, taken := named[p.Name]; taken {
			l.ReportOnce(source.New("MCPE123", at.Range, "two plugins are called %q", p.Name).WithRelated(first, "first used here"))
		}
		named[p.Name] = at.Range
	}
	if v := n.Get("options"); v != nil {
		p.Options = v.JSON()
	}
	if at := n.Get("timeout"); at != nil {
		d, err := time.ParseDuration(at.Text)
		if err != nil || d <= 0 || d > maxTimeout {
			l.ReportOnce(source.New("MCPE123", at.Range, "timeout %q is not a duration of at most an hour", at.Text).WithHint("as in 10s or 2m"))
		}
		p.Timeout = d
	}
	l.config.Plugins = append(l.config.Plugins, p)
}

// readOut reads the output directory in a section. Outputs of the same kind must have different directories.
func (l *loader) readOut(n *source.Node, what string) string {
	dir := l.path(n.Word("out"))
	if dir == "" {
		return ""
	}
	at := n.Get("out")
	if first, ok := l.outs[what+" "+dir]; ok {
		l.ReportOnce(source.New("MCPE403", at.Range, "two %s are written to %q", what, at.Text).WithRelated(first, "first used here"))
	}
	l.outs[what+" "+dir] = at.Range
	return dir
}
