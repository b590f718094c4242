package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

const bridgeHelp = `Bring the events of MCP servers to a coding agent that does not support events itself.
The bridge is a local MCP server on standard input and output. It subscribes to servers
that speak the Events extension. Add it to the agent's configuration like any other server.

The agent gets tools: events_wait returns unread events as soon as there are any,
events_inbox shows them, and events_list, events_subscribe, events_unsubscribe and
events_subscriptions manage its subscriptions.

Subscriptions are listed in a file, bridge.yaml. For one server, give its URL and event
names instead:

  servers:
    ci:
      url: https://ci.example.com/mcp     # or command: [program, argument]
      token: {env: CI_TOKEN}              # or {file: PATH}, {command: [program]}
      me: ci-bot                          # or a list: events that the agent itself causes are left out
  subscriptions:
    - {server: ci, event: workflow_run.completed, arguments: {branch: main},
       coalesce: {quietSeconds: 20}}      # as the event type says when left out
  allow:                                  # other types that the agent may subscribe to
    - {server: ci, event: "workflow_run.*"}
  wake:
    channel: true                         # notifications for Claude Code's channels
    exec: {command: [./on-event.sh], maxPerMinute: 6, timeoutSeconds: 60}
    loop: {wakes: 30, minutes: 10, quietMinutes: 10}  # when wakes pause; false for never
  catchUp: 24h                            # how old an event may be after a restart
  limits: {bytesPerEvent: 4096, eventsPerBatch: 20, batchesPerMinute: 60, inbox: 1000}

Events, cursors and the agent's subscriptions are kept in the --state directory, so a
restart loses nothing and shows nothing twice. Several agents can run the same bridge: the
first serves the others over a socket in that directory, each has its own reading position,
and when the first ends another one takes over.

Everything from servers is bounded, marked as third-party text, and shown without
control characters. The bridge shuts down cleanly on SIGTERM or at the end of standard input.`

func newBridge(c *command) *cobra.Command {
	var state, token string
	var channel bool
	cmd := &cobra.Command{
		Use:   "bridge --config FILE | URL EVENT...",
		Short: "Bring events to a coding agent, as an MCP server on standard input and output",
		Long:  bridgeHelp,
		Example: `  mcpe-gen bridge --config bridge.yaml
  mcpe-gen bridge https://ci.example.com/mcp workflow_run.completed --channel
  mcpe-gen bridge install claude --config ~/bridge.yaml --write`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := c.bridgeConfig(args, token)
			if err != nil {
				return err
			}
			conf.Channel = conf.Channel || channel
			return c.bridge(cmd.Context(), bridge.Options{Config: conf, State: state, Version: c.Version.Text})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&state, "state", "", "`dir` for state that survives a restart (default: below the user's state directory)")
	peer.TokenFlag(cmd, &token)
	flags.BoolVar(&channel, "channel", false, "send notifications to Claude Code's channels (as wake.channel does)")
	_ = cmd.MarkFlagDirname("state")
	cmd.AddCommand(newBridgeInstall(c), newBridgeResume(c))
	return cmd
}

const bridgeResumeHelp = `Let the wakes of a running bridge go on after it has paused them because they seemed to
be a loop: the agent or the command does something, and the event of that wakes it once
more. Name the bridge as it was started.`

func newBridgeResume(c *command) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "resume --config FILE | URL EVENT...",
		Short: "Let wakes go on that the bridge has paused as a loop",
		Long:  bridgeResumeHelp,
		Example: `  mcpe-gen bridge resume --config bridge.yaml
  mcpe-gen bridge resume https://ci.example.com/mcp workflow_run.completed`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := c.bridgeConfig(args, "")
			if err != nil {
				return err
			}
			resumed, err := bridge.Resume(cmd.Context(), bridge.Options{Config: conf, State: state, Version: c.Version.Text})
			if err != nil {
				return err
			}
			for _, name := range resumed {
				fmt.Fprintln(c.Stdout, plain.Text(name))
			}
			if len(resumed) == 0 && !c.Quiet {
				fmt.Fprintln(c.Stderr, "no wakes pause")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "the bridge's --state `dir`")
	_ = cmd.MarkFlagDirname("state")
	return cmd
}

// bridgeConfig reads the configuration from the file of --config or builds it from a URL and events.
func (c *command) bridgeConfig(args []string, token string) (*config.Config, error) {
	switch {
	case c.config != "" && len(args) > 0:
		return nil, cli.Usagef("give --config, or a URL and events, not both")
	case c.config != "":
		conf, found := config.Load(c.config)
		return conf, c.reportAll(found, nil, cli.Usage)
	case len(args) == 0:
		return nil, cli.Usagef("name a configuration with --config, or a URL and events")
	case !peer.IsURL(args[0]):
		return nil, cli.Usagef("%q is not the URL of a server: it begins with http:// or https://", args[0])
	case len(args) == 1:
		return nil, cli.Usagef("name the events of %s to subscribe to", peer.Target{URL: args[0]})
	}
	conf := config.New()
	conf.Servers = []config.Server{{Name: "server", Target: peer.Target{URL: args[0]}, Token: config.Token{Text: token}}}
	for _, event := range args[1:] {
		if err := conf.Add("server", event); err != nil {
			return nil, cli.Usagef("%w", err)
		}
	}
	return conf, nil
}

func (c *command) bridge(ctx context.Context, o bridge.Options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process immediately, in case a server delays the shutdown.
	context.AfterFunc(ctx, stop)
	o.Stdin, o.Stdout, o.Stderr, o.Quiet = os.Stdin, c.Stdout, c.Stderr, c.Quiet
	return bridge.Run(ctx, o)
}
