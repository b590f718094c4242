package config

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// Name is the name of the configuration file.
const Name = "mcpe.yaml"

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
	// Lint and Breaking select rules. The defaults are STANDARD for Lint and WIRE for Breaking.
	Lint, Breaking rule.Selection
}

// Reading returns the options for reading the event files of the configuration.
func (c *Config) Reading() schema.Options {
	return schema.Options{Refs: c.Refs, Dialect: c.Dialect, Overrides: c.Overrides}
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
	Range  source.Range
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
	Range   source.Range
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
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for at := dir; ; {
		path := filepath.Join(at, Name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
		parent := filepath.Dir(abs)
		if parent == abs {
			return "", false
		}
		abs = parent
		if filepath.IsAbs(at) {
			at = parent
		} else {
			at = filepath.Join(at, "..")
		}
	}
}

// Load reads the configuration file at path. A nil readFile means [source.ReadFile]. The configuration is nil if the
// file is not valid YAML. It is complete only if no diagnostic has severity error.
func Load(path string, readFile func(string) ([]byte, error)) (*Config, []source.Diagnostic) {
	if readFile == nil {
		readFile = source.ReadFile
	}
	content, err := readFile(path)
	if err != nil {
		return nil, []source.Diagnostic{schema.Unreadable(path, err)}
	}
	node, found := source.Parse(path, content)
	if node == nil {
		return nil, found
	}
	l := &loader{config: &Config{Path: path, Dir: filepath.Dir(path), Types: make(map[string]string), Refs: make(map[string]string)}}
	l.Report(found...)
	l.load(node)
	return l.config, source.Sort(l.Found)
}

type loader struct {
	source.Reader
	config *Config
}

func (l *loader) load(n *source.Node) {
	o := l.Object(n, "the configuration", []string{"version"}, []string{"packages", "plugins", "dialect", "types", "refs", "overrides", "silence", "lint", "breaking"})
	if o == nil {
		return
	}
	if v := n.Get("version"); v != nil && (v.Kind != source.Number || v.Text != "1") {
		l.Report(source.New("MCPE400", v.Range, "version %s of the configuration is not known", v.JSON()).WithHint("write version: 1"))
	}
	outs := make(map[string]source.Range)
	for _, p := range o.List("packages") {
		l.readPackage(p, outs)
	}
	named := make(map[string]source.Range)
	for _, p := range o.List("plugins") {
		l.readPlugin(p, named, outs)
	}
	if t := n.Get("types"); t != nil && l.Is(t, source.Object, "types") {
		for _, m := range t.Members {
			l.readType(m)
		}
	}
	if r := n.Get("refs"); r != nil && l.Is(r, source.Object, "refs") {
		for _, m := range r.Members {
			l.readRef(m)
		}
	}
	if text, at := o.Text("dialect"); at != nil {
		if !schema.ValidDialect(text) {
			l.Report(schema.BadDialect(at))
		}
		l.config.Dialect = text
	}
	l.readOverrides(o)
	l.readSilences(o)
	l.readRules(n)
}

// readRef reads an entry of refs: a URL prefix and the path for it.
func (l *loader) readRef(m source.Member) {
	if !l.Is(m.Value, source.String, "the path of a remote schema") || !l.checkRelative(m.Value, "the path of a remote schema") {
		return
	}
	u, err := url.Parse(m.Key)
	switch {
	case err != nil || !u.IsAbs() || u.Fragment != "":
		l.Report(source.New("MCPE405", m.KeyRange, "%q is not a URL without a fragment", m.Key).WithHint("as in https://example.com/schemas/"))
	case strings.HasSuffix(m.Key, "/") != strings.HasSuffix(m.Value.Text, "/"):
		l.Report(source.New("MCPE405", m.Value.Range, "a URL that ends in a slash stands for a directory, whose path must end in a slash too"))
	default:
		l.config.Refs[m.Key] = filepath.Join(l.config.Dir, filepath.FromSlash(m.Value.Text))
	}
}

func (l *loader) readType(m source.Member) {
	if !l.Is(m.Value, source.String, "the Go type of a format") {
		return
	}
	switch {
	case m.Key == "":
		l.Report(source.New("MCPE402", m.KeyRange, "the name of a format is empty"))
	case !schema.ValidGoType(m.Value.Text):
		l.Report(source.New("MCPE402", m.Value.Range, "%q is not an import path and a type", m.Value.Text).
			WithHint("as in github.com/google/uuid.UUID"))
	default:
		l.config.Types[m.Key] = m.Value.Text
	}
}

func (l *loader) readPackage(n *source.Node, outs map[string]source.Range) {
	o := l.Object(n, "a package", []string{"schemas"}, []string{"out", "server", "client", "typescript", "package", "emit", "import"})
	if o == nil {
		return
	}
	p := Package{Emit: Emits[:3], Range: n.Range}
	for _, s := range o.Texts("schemas") {
		if l.checkRelative(s, "a pattern") && l.checkPattern(s) {
			p.Schemas = append(p.Schemas, Pattern{Text: s.Text, Range: s.Range})
		}
	}
	if s := n.Get("schemas"); s != nil && s.Kind == source.Array && len(s.Items) == 0 {
		l.Report(source.New("MCPE123", s.Range, "schemas is empty: there is nothing to generate from"))
	}
	p.Out = l.readOut(o, "packages", outs)
	p.Server, p.Client = l.readPart(n, "server", outs), l.readPart(n, "client", outs)
	if t := n.Get("typescript"); t != nil {
		p.TypeScript = l.readTypeScript(t, outs)
	}
	switch emit := n.Member("emit"); {
	case n.Get("out") == nil && n.Get("typescript") == nil:
		l.Report(source.New("MCPE122", n.Range, "a package needs \"out\" or \"typescript\"").WithHint("out: DIR is where the Go package goes, typescript: {out: DIR} where TypeScript does"))
	case n.Get("out") == nil && emit != nil:
		l.Report(source.New("MCPE123", emit.KeyRange, "emit configures the Go package, which has no out"))
	}
	if p.Out == "" {
		p.Emit = []string{"types"} // no Go output is configured
	}
	if name, at := o.Text("package"); at != nil {
		if d := schema.PackageFault(name, at.Range); d != nil {
			l.Report(*d)
		}
		p.Name = name
	}
	if n.Get("emit") != nil {
		p.Emit = l.readWords(o, "emit", "an element of emit", Emits)
	}
	if m := n.Member("import"); m != nil && l.Is(m.Value, source.Object, "import") {
		p.Import = l.readImports(m.Value)
		if n.Get("out") == nil {
			l.Report(source.New("MCPE123", m.KeyRange, "import configures the Go package, which has no out"))
		}
	}
	l.config.Packages = append(l.config.Packages, p)
}

// importPath matches a Go import path. dotElement matches a path that contains the element . or ..
var (
	importPath = regexp.MustCompile(`^[A-Za-z0-9_.~-]+(/[A-Za-z0-9_.~-]+)*$`)
	dotElement = regexp.MustCompile(`(^|/)\.\.?(/|$)`)
)

// readImports reads the import paths of the Go packages that declare the types of files.
func (l *loader) readImports(n *source.Node) map[string]string {
	paths := make(map[string]string, len(n.Members))
	for _, m := range n.Members {
		file := &source.Node{Kind: source.String, Text: m.Key, Range: m.KeyRange}
		switch {
		case !l.checkRelative(file, "a file of import") || !l.Is(m.Value, source.String, "an import path"):
		case !importPath.MatchString(m.Value.Text) || dotElement.MatchString(m.Value.Text):
			l.Report(source.New("MCPE408", m.Value.Range, "%q is not the import path of a Go package", m.Value.Text).
				WithHint("as in example.com/shop/internal/common"))
		default:
			paths[filepath.Join(l.config.Dir, filepath.FromSlash(m.Key))] = m.Value.Text
		}
	}
	return paths
}

// maxTimeout is the maximum timeout of a plugin.
const maxTimeout = time.Hour

func (l *loader) readPlugin(n *source.Node, named, outs map[string]source.Range) {
	o := l.Object(n, "a plugin", []string{"name", "command", "out"}, []string{"options", "timeout"})
	if o == nil {
		return
	}
	p := Plugin{Range: n.Range}
	name, at := o.Text("name")
	if first, taken := named[name]; at != nil && taken {
		l.Report(source.New("MCPE123", at.Range, "two plugins are called %q", name).WithRelated(first, "first used here"))
	} else if at != nil && name == "" {
		l.Report(source.New("MCPE123", at.Range, "name is empty"))
	} else if at != nil {
		p.Name, named[name] = name, at.Range
	}
	for i, c := range o.Texts("command") {
		if i == 0 && c.Text == "" {
			l.Report(source.New("MCPE123", c.Range, "the program is empty"))
		}
		p.Command = append(p.Command, c.Text)
	}
	if c := n.Get("command"); c != nil && c.Kind == source.Array && len(c.Items) == 0 {
		l.Report(source.New("MCPE123", c.Range, "command is empty").WithHint("it holds the program and its arguments"))
	}
	p.Out = l.readOut(o, "plugins", outs)
	if v := n.Get("options"); v != nil {
		p.Options = v.JSON()
	}
	if text, at := o.Text("timeout"); at != nil {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > maxTimeout {
			l.Report(source.New("MCPE123", at.Range, "timeout %q is not a duration of at most an hour", text).WithHint("as in 10s or 2m"))
		}
		p.Timeout = d
	}
	l.config.Plugins = append(l.config.Plugins, p)
}

// readOut reads an output directory. Outputs of the same kind must have different directories.
func (l *loader) readOut(o *source.ObjectReader, what string, outs map[string]source.Range) string {
	text, at := o.Text("out")
	if at == nil || !l.checkRelative(at, "out") {
		return ""
	}
	dir := filepath.Join(l.config.Dir, filepath.FromSlash(text))
	key := what + " " + dir
	if first, ok := outs[key]; ok {
		l.Report(source.New("MCPE403", at.Range, "two %s are written to %q", what, text).WithRelated(first, "first used here"))
	}
	outs[key] = at.Range
	return dir
}

// readPart reads the output directory of the code for servers or for clients, which is "" if the key is absent.
func (l *loader) readPart(n *source.Node, key string, outs map[string]source.Range) string {
	m := n.Member(key)
	if m == nil {
		return ""
	}
	if n.Get("out") == nil {
		l.Report(source.New("MCPE123", m.KeyRange, "%s configures the Go package, which has no out", key))
	}
	o := l.Object(m.Value, key, []string{"out"}, nil)
	if o == nil {
		return ""
	}
	return l.readOut(o, "packages", outs)
}

func (l *loader) readTypeScript(n *source.Node, outs map[string]source.Range) *TypeScript {
	o := l.Object(n, "typescript", []string{"out"}, []string{"emit"})
	if o == nil {
		return nil
	}
	t := &TypeScript{Out: l.readOut(o, "TypeScript packages", outs)}
	if n.Get("emit") != nil {
		t.Emit = l.readWords(o, "emit", "an element of emit", typescript.Parts)
	}
	return t
}

// readWords reads a nonempty array of strings from the known list.
func (l *loader) readWords(o *source.ObjectReader, key, what string, known []string) []string {
	var list []string
	for _, n := range o.Texts(key) {
		if l.Among(n, what, known) {
			list = append(list, n.Text)
		}
	}
	if n := o.Node.Get(key); n.Kind == source.Array && len(n.Items) == 0 {
		l.Report(source.New("MCPE123", n.Range, "%s is empty", key).WithHint("it holds some of %s", strings.Join(known, ", ")))
	}
	return list
}

func (l *loader) checkRelative(n *source.Node, what string) bool {
	switch {
	case n.Text == "":
		l.Report(source.New("MCPE123", n.Range, "%s is empty", what))
	case filepath.IsAbs(n.Text) || strings.HasPrefix(n.Text, "/"):
		l.Report(source.New("MCPE123", n.Range, "%s %q is an absolute path", what, n.Text).
			WithHint("write it relative to the directory of %s", l.config.Path))
	default:
		return true
	}
	return false
}
