package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// outputFlags holds the flags that select the directory and the emitted parts of a package.
type outputFlags struct {
	out, pkg string
	emit     []string
	// typescript is the directory for TypeScript. emitTypeScript lists the parts to write in addition to events.ts.
	typescript     string
	emitTypeScript []string
}

// forTypeScript returns the TypeScript options, or nil if no flag sets any.
func (o outputFlags) forTypeScript() *gen.TypeScript {
	if o.typescript == "" {
		return nil
	}
	return &gen.TypeScript{Out: o.typescript, Emit: o.emitTypeScript}
}

// requests returns one request per package, from the FILE arguments or the config. If there are FILE arguments, it
// reads the config only if -c is set. The types of the config then apply. The package that contains all the files
// provides the values that the flags do not set.
func (c *command) requests(files []string, o outputFlags) ([]gen.Request, error) {
	rs, err := c.resolve(files, o)
	if c.ownFiles == nil {
		c.ownFiles = map[string]bool{}
	}
	for _, r := range rs {
		for _, f := range r.Files {
			c.ownFiles[absolute(f)] = true
		}
	}
	return rs, err
}

func (c *command) resolve(files []string, o outputFlags) ([]gen.Request, error) {
	c.isPartial = len(files) > 0
	if len(files) == 0 {
		return c.configRequests(o)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return nil, err
		}
	}
	r := gen.Request{Files: files, Out: o.out, Package: o.pkg, Emit: o.emit, TypeScript: o.forTypeScript()}
	if c.config != "" {
		cfg, err := c.loadConfig(c.config)
		if err != nil {
			return nil, err
		}
		applyConfig(&r, cfg)
		if p := findPackage(cfg, files); p != nil {
			fillFromConfig(&r, *p)
		}
	}
	if r.Place() == "" {
		r.Out = "."
	}
	return []gen.Request{r}, nil
}

// configRequests returns a request for each package of the config.
func (c *command) configRequests(o outputFlags) ([]gen.Request, error) {
	path := c.config
	if path == "" {
		found, ok := config.Find(".")
		if !ok {
			dir, err := os.Getwd()
			if err != nil {
				return nil, err
			}
			remedy := "name files or run \"mcpe-gen init\""
			if _, err := os.Stat(config.Misnamed); err == nil {
				remedy = fmt.Sprintf("%s is there: rename it", config.Misnamed)
			} else if below := configsBelow(); len(below) > 0 {
				remedy = "run the command in each of these directories with -C: " + strings.Join(below, ", ")
			}
			return nil, cli.Refusef("no event files given, and no %s in %s or above; %s", config.Name, dir, remedy)
		}
		path = found
	}
	cfg, members, err := c.loadPackages(path)
	if err != nil {
		return nil, err
	}
	switch {
	case len(cfg.Packages) == 0:
		return nil, c.reportAll([]source.Diagnostic{source.New("MCPE122", cfg.Places[[2]string{"packages", ""}], "%s has no packages, and no event files are given", cfg.Path).
			WithHint("write packages: [{schemas: [events/*.yaml], out: DIR}]")}, nil, cli.Usage)
	case len(cfg.Packages) > 1 && (o.out != "" || o.pkg != "" || o.typescript != ""):
		return nil, cli.Refusef("-o, --typescript and --package need event files or a config with one package; %s has %d", cfg.Path, len(cfg.Packages))
	}
	var rs []gen.Request
	for i, p := range cfg.Packages {
		r := gen.Request{Files: members[i], Out: o.out, Package: o.pkg, Emit: o.emit, TypeScript: o.forTypeScript()}
		applyConfig(&r, cfg)
		fillFromConfig(&r, p)
		rs = append(rs, r)
	}
	return rs, nil
}

// configsBelow returns the directories that have a configuration file, at most three levels below the current directory.
func configsBelow() (dirs []string) {
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		found, _ := fs.Glob(os.DirFS("."), pattern+"/"+config.Name) // the pattern is valid
		for _, name := range found {
			dirs = append(dirs, path.Dir(name))
		}
	}
	return dirs
}

func (c *command) loadConfig(path string) (*config.Config, error) {
	cfg, ds := config.Load(path, nil)
	if err := c.reportAll(ds, nil, cli.Usage); err != nil {
		return nil, err
	}
	c.runConfigFile = cfg
	return cfg, nil
}

// loadPackages loads the config and the event files of each package. A single run therefore reports errors in both its
// keys and its patterns.
func (c *command) loadPackages(path string) (*config.Config, [][]string, error) {
	cfg, ds := config.Load(path, nil)
	var members [][]string
	if cfg != nil {
		for _, p := range cfg.Packages {
			files, found := cfg.Files(p)
			members, ds = append(members, files), append(ds, found...)
		}
	}
	if err := c.reportAll(source.Sort(ds), nil, cli.Usage); err != nil {
		return nil, nil, err
	}
	c.runConfigFile = cfg
	return cfg, members, nil
}

// applyConfig copies the options for reading and typing event files from the config.
func applyConfig(r *gen.Request, cfg *config.Config) {
	r.Types, r.Refs, r.Dialect, r.Overrides = cfg.Types, cfg.Refs, cfg.Dialect, cfg
}

// fillFromConfig sets values that no flag has set to those of the config.
func fillFromConfig(r *gen.Request, p config.Package) {
	if r.Out == "" {
		r.Out, r.ServerOut, r.ClientOut = p.Out, p.Server, p.Client
	}
	if r.Package == "" {
		r.Package = p.Name
	}
	if len(r.Emit) == 0 && p.Out != "" {
		r.Emit = p.Emit
	}
	r.Imports = p.Import
	if r.TypeScript == nil && p.TypeScript != nil {
		r.TypeScript = &gen.TypeScript{Out: p.TypeScript.Out, Emit: p.TypeScript.Emit}
	}
}

// findPackage returns the package of cfg that contains all the files, or nil.
func findPackage(cfg *config.Config, files []string) *config.Package {
	for i, p := range cfg.Packages {
		// An invalid pattern matters only to a run that depends on it.
		members, _ := cfg.Files(p)
		foreign := func(f string) bool {
			return !slices.ContainsFunc(members, func(m string) bool { return absolute(m) == absolute(f) })
		}
		if !slices.ContainsFunc(files, foreign) {
			return &cfg.Packages[i]
		}
	}
	return nil
}
