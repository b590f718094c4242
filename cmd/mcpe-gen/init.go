package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

const initHelp = `Start a Go module with an MCP server that sends typed events.

The directory (default: the current one) gets an event file, mcpe.yaml, a server
on stdio or on Streamable HTTP, a test, a README, a CI workflow for GitHub Actions, a
Dockerfile, a go.mod, a tools/go.mod with the "tool" line for mcpe-gen, and the generated
code. All of it is written once and is yours to edit. Existing files are never
overwritten: if one is in the way, nothing is written.

On a terminal, init asks for the module's name, the transport and the source of events
unless flags give them; "mcpe-gen init DIR </dev/null" takes the defaults. It asks
nothing elsewhere, with -q, or with a --format other than text.

Use the source "emit" if your program reports each event, and "check" if the server
has to look for new ones in a table, a feed or another service.

--store chooses where events are kept: memory, a SQLite file, or PostgreSQL or NATS
JetStream, which several processes can share. --webhooks offers delivery by webhook.
--auth oauth adds the metadata by which connectors find the authorization server.
--console serves the operators' console. These three need --transport http, and
so does --metrics prometheus, which serves /metrics on a separate address. --metrics otlp
exports metrics and traces to an OpenTelemetry collector. Every server has tools to read
events and to wait for them, for clients that do not support events.

--typescript adds the types of the events for TypeScript and a small program that
follows them across restarts of the server, in web/, with a lock file. This also works
in an existing module.

With --from, the events are the webhooks of a service. The server receives them over
HTTP and verifies them. --events chooses the event types to start with. Those of GitHub
come from its own schemas (default push, issues and pull_request; issues.opened is one
action). Stripe, Slack and GitLab have a few written by hand; standard-webhooks, hmac
and cloudevents have an example each.

With --beside URL, the program is a gateway in front of an MCP server in any language,
which listens at URL. Clients connect to the gateway and see one server, with events.
The MCP server emits with POST /events/NAME and a token. init asks it once, without a
token, whether it answers everybody, and says how the gateway knows its callers:
either the MCP server refuses them, or --auth adds access tokens in front.

In a directory with a go.mod, init adds events to that module: events/, mcpe.yaml, the
generated packages, generate.go and tools/go.mod. The only existing files it changes are
go.mod and tools/go.mod, and it shows the changes. If events/ has event files, it generates
their packages, and adds an example to them only with --source.

It does not edit your server: it says which server it found, and prints the lines to paste
where it is created and served. A server of the official SDK sends the events. A server for
each request stays and gets them next to it, as does a server of mark3labs/mcp-go on
Streamable HTTP. An HTTP server without MCP gets an MCP server. For another server, init
writes nothing, and the exit code is 3; with --force, it prints a function that adds events
to an http.Handler. With --format json it prints the lines as a list of edits that a coding
agent applies: each has a file, the line before which "insert" goes, the lines that it
replaces, and the imports that it needs. The code for --store, --auth, --console and
--metrics goes into internal/eventsetup. Without --auth your program's own authentication
identifies callers.

No network is used, except to ask the server of --beside. The last lines of the output
are the commands to run next; the first of them, "go mod tidy" and "go mod tidy -C
tools", fetch the modules.

The new go.mod requires the version of this mcpe-gen. A mcpe-gen built from a
checkout has no released version; then --replace must name the checkout:

  mcpe-gen init demo --replace ~/src/mcpe-gen`

// goVersion is the Go version of a new module. It is the version of this module because the new module compiles its
// packages.
const goVersion = "1.26.0"

// initOptions holds the flags and answers of init.
type initOptions struct {
	dir, module, transport, source, replace string
	// service is the service whose webhooks become events, or "". events are the initial event types.
	service string
	events  []string
	// upstream is the URL of the MCP server to which a gateway adds events, or "".
	upstream string
	// store, auth, metrics, webhooks and console select the features of the new server.
	store, auth, metrics string
	webhooks, console    bool
	// typescript adds TypeScript code. It also works in an existing module.
	typescript bool
	// isExistingModule reports whether the module already exists, and existing are its event files, or nil. example
	// reports whether an option asks for the event file of the scaffold nevertheless.
	isExistingModule, example bool
	existing                  *templates.Existing
	// force adds events to a module with a server that init does not know.
	force bool
	// chosenEvents is the comma-separated answer to the question about event types, or "" if the question was not
	// asked.
	chosenEvents string
}

// generatedDir returns the out directory in the mcpe.yaml of the scaffold.
func generatedDir(t templates.Scaffold) string { return "internal/" + t.Package() }

// generatedDirs returns all directories of generated code, including the one for TypeScript.
func generatedDirs(t templates.Scaffold) []string {
	dirs := []string{generatedDir(t)}
	if t.TypeScript {
		dirs = append(dirs, typescriptDir(t))
	}
	return dirs
}

// webCommands returns the commands that install and run the program in web/.
func webCommands(t templates.Scaffold) []string {
	if !t.TypeScript {
		return nil
	}
	return []string{"npm --prefix web ci", "npm --prefix web run listen"}
}

// typescriptDir returns the out directory for TypeScript.
func typescriptDir(t templates.Scaffold) string { return "web/src/" + t.Package() }

func newInit(c *command) *cobra.Command {
	var s initOptions
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Start a module with an MCP server that sends events",
		Long:  initHelp,
		Example: `  mcpe-gen init demo --module example.com/demo
  mcpe-gen init demo --transport http --source check
  mcpe-gen init demo --transport http --store sqlite --webhooks --auth oauth --console
  mcpe-gen init demo --from github --events issues.opened,release
  mcpe-gen init demo --beside http://127.0.0.1:3000/mcp  # events for a server in TypeScript
  mcpe-gen init demo --replace ../mcpe-gen
  mcpe-gen init --store sqlite --auth bearer --webhooks  # in a module that has a server
  mcpe-gen init --format json  # the same, with the edits of the server for a coding agent`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("init takes one directory, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.dir = "."
			if len(args) == 1 {
				s.dir = args[0]
			}
			given := cmd.Flags().Changed
			if given("write") {
				return cli.Refuse(errors.New("init does not edit the server: paste the lines that it prints without --write, " +
					"or let a coding agent apply the list of {file, line, insert, imports} that --format json prints"))
			}
			if err := s.fromService(given); err != nil {
				return cli.Refuse(err)
			}
			s.example = s.service != "" || given("source")
			module, err := moduleIn(s.dir)
			if err != nil {
				return err
			}
			if module == nil && s.force {
				return cli.Refusef("--force is for an existing module, and %s has no go.mod; leave the flag out", s.dir)
			}
			if module != nil && given("transport") {
				return cli.Refuse(errors.New("--transport is for a new module, and the server of this one is there already; leave the flag out"))
			}
			all := initQuestions
			if given("beside") {
				if module != nil {
					return cli.Refuse(errors.New("--beside is for a new module: give init another directory, or leave the flag out to add events to a server in this one"))
				}
				if err := s.checkUpstream(given); err != nil {
					return cli.Refuse(err)
				}
				all = all[:1] // only the name of the module is open
			}
			if s.service != "" {
				all = fromQuestions(s.service)
			}
			if module != nil {
				// An existing go.mod names the module, and its server determines the transport.
				all = slices.DeleteFunc(slices.Clone(all), func(q question) bool {
					return q.flag == "module" || q.flag == "transport"
				})
				return c.adopt(cmd.Context(), s, module, c.questions(all, given))
			}
			return c.init(cmd.Context(), s, c.questions(all, given))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.module, "module", "", "module `path` of the new module (default example.com/ and the directory's name)")
	flags.StringVar(&s.transport, "transport", templates.Transports[0], "what the server speaks: `stdio|http`")
	flags.StringVar(&s.source, "source", templates.Sources[0], "where events come from: `emit|check`")
	flags.StringVar(&s.store, "store", templates.Stores[0], "where events are kept: `"+strings.Join(templates.Stores, "|")+"`")
	flags.BoolVar(&s.webhooks, "webhooks", false, "offer delivery by webhook")
	flags.StringVar(&s.auth, "auth", "", "how callers authenticate: `"+strings.Join(templates.Auths, "|")+"` (default bearer on HTTP)")
	flags.BoolVar(&s.console, "console", false, "serve the operators' console")
	flags.StringVar(&s.metrics, "metrics", templates.Exporters[0], "what exports metrics: `"+strings.Join(templates.Exporters, "|")+"`")
	flags.BoolVar(&s.typescript, "typescript", false, "also write TypeScript, and a program in web/ that follows the events")
	flags.StringVar(&s.service, "from", "", "service whose webhooks become events: `"+strings.Join(starter.Services, "|")+"`")
	flags.StringSliceVar(&s.events, "events", nil, "event types of the --from service to start with: `a,b`")
	flags.StringVar(&s.upstream, "beside", "", "`URL` of an MCP server in any language to which a gateway adds events")
	flags.StringVar(&s.replace, "replace", "", "`path` of a checkout of mcpe-gen to use instead of a released version")
	flags.BoolVar(&s.force, "force", false, "add files to a module whose server init does not know")
	flags.Bool("write", false, "")
	_ = flags.MarkHidden("write") // it is refused
	cli.CompleteWords(cmd, "transport", templates.Transports...)
	cli.CompleteWords(cmd, "source", templates.Sources...)
	cli.CompleteWords(cmd, "store", templates.Stores...)
	cli.CompleteWords(cmd, "auth", templates.Auths...)
	cli.CompleteWords(cmd, "metrics", templates.Exporters...)
	cli.CompleteWords(cmd, "from", starter.Services...)
	_ = cmd.MarkFlagDirname("replace")
	return cmd
}

// fromService sets the options that --from implies and rejects conflicting ones.
func (s *initOptions) fromService(given func(flag string) bool) error {
	switch {
	case s.service == "" && len(s.events) > 0:
		return errors.New("--events chooses among the event types of a service: name it with --from")
	case s.service == "":
		return nil
	case given("transport") && s.transport != "http":
		return fmt.Errorf("--from %s: webhooks come by HTTP, and --transport is %s", s.service, s.transport)
	case given("source") && s.source != "emit":
		return fmt.Errorf("--from %s: webhooks are emitted as they come, and --source is %s", s.service, s.source)
	}
	if _, err := starter.New(s.service, nil); err != nil {
		return fmt.Errorf("--from %s: %w", s.service, err)
	}
	s.transport, s.source = "http", "emit"
	s.chosenEvents = strings.Join(s.events, ",")
	if len(s.events) == 0 {
		s.chosenEvents = strings.Join(starter.Defaults(s.service), ",")
	}
	return nil
}

func (c *command) init(ctx context.Context, s initOptions, ask []question) error {
	// Report errors in the flags before asking questions.
	scaffold, err := s.scaffold(c.Version)
	if err == nil && len(ask) > 0 {
		if err = c.ask(ctx, &s, scaffold, ask); err == nil {
			scaffold, err = s.scaffold(c.Version)
		}
	}
	if err != nil {
		return cli.Refuse(err)
	}
	callers := learnCallers(ctx, &scaffold)
	files, err := templates.Render(scaffold)
	if err != nil {
		return err
	}
	m, err := adopt.ParseModule("go.mod", []byte("module "+scaffold.Module+"\n"))
	if err != nil {
		return err
	}
	mods, err := goMods(s.dir, scaffold.Tools, m, requirement(scaffold, c.Version))
	if err != nil {
		return cli.Refuse(err)
	}
	for _, f := range mods {
		files = append(files, templates.File{Path: f.Path, Content: f.Content})
	}
	files = append(files, templates.File{Path: "events/mcpe-events.schema.json", Content: schema.EventFileSchema()})
	var generated []string
	present, err := templates.Write(s.dir, files, func() (err error) {
		generated, err = c.generateIn(ctx, s.dir)
		return err
	}, generatedDirs(scaffold)...)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !slices.Contains(present.Kept, f.Path) && !slices.Contains(present.Extended, f.Path) {
			generated = append(generated, f.Path)
		}
	}
	return c.showStarted(ctx, s, scaffold, generated, present, callers)
}

// scaffold validates the options and returns the scaffold for this version of the binary.
func (s initOptions) scaffold(v cli.Version) (templates.Scaffold, error) {
	t := templates.Scaffold{Module: s.module, Transport: s.transport, Source: s.source, GoVersion: goVersion,
		Store: s.store, Auth: s.auth, Webhooks: s.webhooks, Console: s.console, Metrics: s.metrics, TypeScript: s.typescript,
		Adopted: s.isExistingModule, Existing: s.existing, Example: s.example, Tools: toolsDir(s.dir)}
	if s.upstream != "" {
		t.Upstream = &templates.Upstream{URL: s.upstream}
	}
	if err := t.Settle(); err != nil {
		return t, err
	}
	if t.Module == "" {
		abs, err := filepath.Abs(s.dir)
		if err != nil {
			return t, err
		}
		t.Module = "example.com/" + templates.ProgramName(filepath.ToSlash(abs))
	}
	if err := templates.CheckModule(t.Module); err != nil {
		return t, fmt.Errorf("--module: %w", err)
	}
	t.Name = templates.ProgramName(t.Module)
	if s.service != "" {
		var err error
		if t.From, err = serviceData(s.service, splitEvents(s.chosenEvents)); err != nil {
			return t, fmt.Errorf("--from %s: %w", s.service, err)
		}
	}
	if v.Devel && s.replace == "" {
		return t, fmt.Errorf("this mcpe-gen is a development build, %s, which no go.mod can require; name its checkout with --replace PATH", v.Text)
	}
	if s.replace != "" {
		var err error
		if t.Replace, err = templates.Replacement(s.dir, s.replace); err != nil {
			return t, fmt.Errorf("--replace: %w", err)
		}
	}
	return t, nil
}

// serviceData returns the template data for the service whose webhooks become events.
func serviceData(service string, events []string) (*templates.From, error) {
	st, err := starter.New(service, events)
	if err != nil {
		return nil, err
	}
	body, err := st.Sample()
	if err != nil {
		return nil, err
	}
	f := &templates.From{Service: service, Title: st.Provider.Title, GoName: st.Provider.GoName, Package: st.Package,
		EventFile: st.Content, Sample: body}
	if st.Provider.Eventless {
		f.Title = "your service" // any service that signs its bodies
	}
	for _, e := range st.Events {
		f.Events = append(f.Events, templates.FromEvent{Name: e.Name, GoName: e.GoName, Event: e.Event})
	}
	return f, nil
}

// generateIn generates the code for the config in dir. It returns the written files relative to dir.
func (c *command) generateIn(ctx context.Context, dir string) (written []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("generating the code of %s: %w", dir, err)
		}
	}()
	in := newCommand(c.Stdout, c.Stderr, c.Version)
	in.Format, in.Color, in.Quiet, in.config = c.Format, c.Color, true, filepath.Join(dir, "mcpe.yaml")
	requests, err := in.requests(nil, outputFlags{})
	if err != nil {
		return nil, err
	}
	plan, err := in.plan(ctx, requests)
	if err != nil {
		return nil, err
	}
	if err := plan.Apply(); err != nil {
		return nil, err
	}
	for _, f := range plan.Create {
		name, err := filepath.Rel(dir, f.Path)
		if err != nil {
			return nil, err
		}
		written = append(written, filepath.ToSlash(name))
	}
	return written, nil
}

// showStarted prints the written files, how a gateway knows its callers, and the commands to run next.
func (c *command) showStarted(ctx context.Context, s initOptions, scaffold templates.Scaffold, files []string, present templates.Present, callers string) error {
	slices.Sort(files)
	next := append(firstCommands(ctx, s.dir, scaffold.Tools), "go test ./...")
	next = append(append(next, scaffold.Exports()...), "go run .")
	next = append(next, webCommands(scaffold)...)
	from := s.source
	if s.service != "" {
		from = "from " + s.service
	}
	if s.upstream != "" {
		from = "in front of " + s.upstream
	}
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"from": s.service, "module": scaffold.Module, "directory": s.dir, "transport": s.transport, "source": s.source,
			"store": scaffold.Store, "auth": scaffold.Auth, "webhooks": scaffold.Webhooks, "console": scaffold.Console, "beside": s.upstream, "callers": callers, "metrics": scaffold.Metrics, "files": files,
			"kept": append([]string{}, present.Kept...), "extended": append([]string{}, present.Extended...), "edits": []adopt.Edit{}, "next": next})
	}
	theirs := ""
	if callers != "" {
		theirs = "\nCallers: " + callers
	}
	if len(present.Kept) > 0 {
		theirs += "\nKept as it was: " + strings.Join(present.Kept, ", ")
	}
	if len(present.Extended) > 0 {
		theirs += "\nLines were added to " + strings.Join(present.Extended, ", ")
	}
	if theirs != "" {
		theirs += "\n"
	}
	return c.Printf("Module %s in %s (%s, %s):\n  %s\n%s\nNext:\n  %s\n",
		scaffold.Module, s.dir, s.transport, from, strings.Join(files, "\n  "), theirs, strings.Join(next, "\n  "))
}
