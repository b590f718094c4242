package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/install"
)

const bridgeInstallHelp = `Add the bridge to the configuration of a coding agent: Claude Code (claude), Codex CLI
(codex) or Cursor (cursor). Without --write nothing is written: the file and the entry are
printed.

The file is the user's own: ~/.claude.json, ~/.codex/config.toml or ~/.cursor/mcp.json
(CLAUDE_CONFIG_DIR and CODEX_HOME count). With --project it is .mcp.json,
.codex/config.toml or .cursor/mcp.json in the current directory.

Everything else in the file stays as it is. If an entry of the same name starts mcpe-gen
bridge, it gets the new command and arguments. The entry of another program is refused;
choose another name with --name. A file that cannot be parsed is refused with line and
column.

Before the first change, the file is copied to FILE.before-mcpe-gen. A symbolic link stays
a link; a link without a target is refused. Installs wait for each other, but agents do not
wait for them: close the agent first, because the command overwrites changes that the agent
makes while the file is replaced.`

func newBridgeInstall(c *command) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install AGENT --config FILE | AGENT URL EVENT...",
		Short: "Add the bridge to the configuration of Claude Code, Codex CLI or Cursor",
		Long:  bridgeInstallHelp,
		Example: `  mcpe-gen bridge install claude --config bridge.yaml
  mcpe-gen bridge install codex --config bridge.yaml --write
  mcpe-gen bridge install cursor https://ci.example.com/mcp workflow_run.completed --project --write`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("name the agent: %s", agentNames())
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var all []string
			for _, a := range install.Agents {
				all = append(all, a.Name+"\t"+a.Title)
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.bridgeInstall(cmd.Context(), o, args[0], args[1:])
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.write, "write", false, "write the file instead of printing the entry")
	flags.BoolVar(&o.project, "project", false, "use the file of the project in the current directory, not the user's")
	flags.StringVar(&o.name, "name", "events", "`name` of the entry")
	flags.StringVar(&o.state, "state", "", "the bridge gets --state `dir`")
	flags.BoolVar(&o.channel, "channel", false, "the bridge gets --channel")
	_ = cmd.MarkFlagDirname("state")
	return cmd
}

// installOptions holds the flags of bridge install.
type installOptions struct {
	write, project, channel bool
	name, state             string
}

func agentNames() string {
	var all []string
	for _, a := range install.Agents {
		all = append(all, a.Name)
	}
	return strings.Join(all, ", ")
}

func (c *command) bridgeInstall(ctx context.Context, o installOptions, name string, args []string) error {
	agent, err := install.Find(name)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	// Reject a configuration that the bridge would reject.
	if _, err := c.bridgeConfig(args, ""); err != nil {
		return err
	}
	e := install.Entry{Name: o.name, Args: []string{"bridge"}}
	if e.Command, err = installedProgram(); err != nil {
		return err
	}
	if c.config != "" {
		path, err := filepath.Abs(c.config)
		if err != nil {
			return err
		}
		e.Args = append(e.Args, "--config", path)
	}
	if o.state != "" {
		path, err := filepath.Abs(o.state)
		if err != nil {
			return err
		}
		e.Args = append(e.Args, "--state", path)
	}
	if o.channel {
		e.Args = append(e.Args, "--channel")
	}
	e.Args = append(e.Args, args...)
	project := ""
	if o.project {
		project = "."
	}
	if o.write {
		lock, err := bridge.LockInstalls(ctx)
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	change, err := agent.Plan(project, e)
	if err != nil {
		return cli.Refuse(err)
	}
	return c.bridgeChange(change, o.write)
}

// bridgeChange prints or writes a change.
func (c *command) bridgeChange(change *install.Change, write bool) error {
	backup := ""
	if write {
		var err error
		if backup, err = change.Write(); err != nil {
			return err
		}
	}
	said := "nothing is written; --write adds this to " + change.Path
	switch {
	case change.Current:
		said = change.Path + " already contains this"
	case write:
		said = "wrote " + change.Path
		if backup != "" {
			said += "; the previous file is " + backup
		}
	case !change.Exists:
		said = "nothing is written; --write creates " + change.Path
	}
	fmt.Fprint(c.Stdout, change.Shown)
	if !c.Quiet {
		fmt.Fprintln(c.Stderr, said)
	}
	return nil
}

// installedProgram returns the program that an agent should start. This is the mcpe-gen in PATH, which an update
// replaces, or else this binary.
func installedProgram() (string, error) {
	if path, err := exec.LookPath("mcpe-gen"); err == nil {
		return filepath.Abs(path)
	}
	return os.Executable()
}
