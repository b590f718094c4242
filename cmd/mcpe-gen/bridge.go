package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
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
  subscriptions:
    - {server: ci, event: workflow_run.completed, arguments: {branch: main},
       coalesce: {quietSeconds: 20}}      # as the event type says when left out
  allow:                                  # what the agent may subscribe to beside these
    - {server: ci, event: "workflow_run.*"}
  wake:
    channel: true                         # notifications for Claude Code's channels
    exec: {command: [./on-event.sh], maxPerMinute: 6, timeoutSeconds: 60}
  catchUp: 24h                            # how old an event may be after a restart
  limits: {bytesPerEvent: 4096, eventsPerBatch: 20, batchesPerMinute: 60, inbox: 1000}

Events, cursors and the agent's subscriptions are kept in the --state directory, so a
restart loses nothing and shows nothing twice. Only one bridge at a time can use it.

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
  claude mcp add events -- mcpe-gen bridge --config ~/bridge.yaml`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := c.bridgeConfig(args, token)
			if err != nil {
				return err
			}
			conf.Channel = conf.Channel || channel
			return c.bridge(cmd.Context(), bridge.Options{Config: conf, State: state, Version: c.version.Text})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&state, "state", "", "`dir` for state that survives a restart (default: below the user's state directory)")
	flags.StringVar(&token, "token", os.Getenv(tokenVariable), tokenUsage)
	flags.BoolVar(&channel, "channel", false, "send notifications to Claude Code's channels (as wake.channel does)")
	hideDefault(cmd, "token")
	_ = cmd.MarkFlagDirname("state")
	return cmd
}

// bridgeConfig reads the configuration, which is the file of --config or made of a URL and events.
func (c *command) bridgeConfig(args []string, token string) (*config.Config, error) {
	switch {
	case c.config != "" && len(args) > 0:
		return nil, usagef("give --config, or a URL and events, not both")
	case c.config != "":
		conf, found := config.Load(c.config)
		return conf, c.judge(found, nil, exitUsage)
	case len(args) == 0:
		return nil, usagef("name a configuration with --config, or a URL and events")
	case !peer.IsURL(args[0]):
		return nil, usagef("%q is not the URL of a server: it begins with http:// or https://", args[0])
	case len(args) == 1:
		return nil, usagef("name the events of %s to subscribe to", peer.Target{URL: args[0]})
	}
	conf := config.New()
	conf.Servers = []config.Server{{Name: "server", Target: peer.Target{URL: args[0]}, Token: config.Token{Text: token}}}
	for _, event := range args[1:] {
		if err := conf.Add("server", event); err != nil {
			return nil, usagef("%w", err)
		}
	}
	return conf, nil
}

func (c *command) bridge(ctx context.Context, o bridge.Options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, should a server keep the first one waiting.
	context.AfterFunc(ctx, stop)
	o.Stdin, o.Stdout, o.Stderr, o.Quiet = os.Stdin, c.stdout, c.stderr, c.quiet
	return bridge.Run(ctx, o)
}
