package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// adminTokenVariable is the environment variable with the operator's token, which differs from the token for listen.
const adminTokenVariable = childenv.AdminToken

const adminHelp = `Use the operator API of a server (package runtime/admin): list subscriptions,
connections and delivery attempts, and act on them. URL is that of the API's handler.

Without an ID, pause, unpause, resume, endreplay, replay --since and retry --since act on each
subscription that matches the filters, or on all with --all; retry resends each event that was abandoned
since then. They first count the subscriptions, skip any that the action would not change, and print a
summary. They stop after 20 consecutive failures, or at an interrupt after the current item, and the
summary says how to continue. --dry-run prints the actions without performing them.

Retry, resume, replay, endreplay and end store a request that the delivering process performs. They
wait for its result, at most --wait; with --wait 0 they print its number.

On a terminal, end, revoke, drop, a replay without a cursor and all verbs that act on many
subscriptions ask for confirmation; --yes skips it.

ID may be a unique prefix of the id.

The token comes from --token-file or the environment's ` + adminTokenVariable + `. It goes to
the URL's origin only: redirects are refused, and plain http reaches loopback only.`

func newAdmin(c *command) *cobra.Command {
	group := &cobra.Command{
		Use:   "admin",
		Short: "Operate a server: subscriptions, attempts, retries",
		Long:  adminHelp,
		Example: `  mcpe-gen admin subscriptions https://ops.example.com/events --state suspended
  mcpe-gen admin attempts https://ops.example.com/events sub_4f0c
  mcpe-gen admin events https://ops.example.com/events --event order.created --since 14:00 --until 14:10
  mcpe-gen admin why https://ops.example.com/events sub_4f0c
  mcpe-gen admin retry https://ops.example.com/events sub_4f0c evt_1 --token-file token
  mcpe-gen admin pause https://ops.example.com/events --host hooks.example.com --dry-run
  mcpe-gen admin retry https://ops.example.com/events --host hooks.example.com --since 90m`,
	}
	cli.Group(group)
	group.Args = checkAdminArgs
	tokenFile := group.PersistentFlags().String("token-file", "", "`file` that holds the operator's token (default: the environment's "+adminTokenVariable+")")
	_ = group.MarkPersistentFlagFilename("token-file")
	for _, v := range operate.Verbs {
		group.AddCommand(c.newAdminVerb(v, tokenFile))
	}
	return group
}

// checkAdminArgs rejects arguments before a verb of admin. It also reports a verb that follows the URL.
func checkAdminArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && peer.IsURL(args[0]) && operate.Find(args[1]) != nil {
		return cli.Usagef("the verb comes before the URL: %s", strings.Join(append([]string{cmd.CommandPath(), args[1], args[0]}, args[2:]...), " "))
	}
	return cli.UnknownVerb(cmd, args)
}

func (c *command) newAdminVerb(v operate.Verb, tokenFile *string) *cobra.Command {
	o, yes := operate.Options{Wait: operate.DefaultWait}, false
	cmd := &cobra.Command{
		Use:               v.Use,
		Short:             v.Short,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s needs the URL of the operator's API", cmd.Name())
			}
			if cmd.Flags().Changed("rate") && o.Rate == 0 {
				return cli.Usagef("--rate must be above 0")
			}
			o.URL, o.Verb, o.Args = args[0], cmd.Name(), args[1:]
			o.Filters, o.From = adminParameters(cmd.Flags())
			return c.runAdmin(cmd.Context(), o, *tokenFile, yes)
		},
	}
	cmd.Flags().SortFlags = false
	for _, name := range v.Flags {
		addAdminFlag(cmd, name, &o, &yes)
	}
	return cmd
}

// textFlags contains the help of flags whose value is passed to operate, as a filter or as a start or end position.
var textFlags = map[string]string{
	"principal":    "only this `principal`",
	"event":        "only this `event` type",
	"state":        "only this `state`: active, suspended, paused, unreadable or failing",
	"url":          "only callbacks whose URL contains this `part`",
	"host":         "only callbacks on this `host`",
	"late":         "only subscriptions whose oldest waiting event is at least this `time` old, such as 5m",
	"min-behind":   "only subscriptions at least this `number` of entries behind",
	"actor":        "only verbs of this `operator`",
	"subscription": "only verbs that acted on the subscription with this `id`",
	"mode":         "only this `mode`: push or poll",
	"since":        "start at this `time`, such as 2026-11-22T14:00:00Z, 14:00 (today in UTC) or 90m (ago)",
	"until":        "end before this `time`",
	"position":     "start at this `position` of the log (one subscription)",
	"event-id":     "start at the event with this `id` (one subscription)",
}

// positionFlags contains the text flags that set where a verb starts or ends. The others are filters.
var positionFlags = []string{"since", "until", "position", "event-id"}

// addAdminFlag adds a flag to a verb.
func addAdminFlag(cmd *cobra.Command, name string, o *operate.Options, yes *bool) {
	flags := cmd.Flags()
	switch name {
	case "failing":
		flags.Bool(name, false, "only failing subscriptions (last attempt failed, suspended or not, or unreadable record), longest-failing first")
	case "all":
		flags.Bool(name, false, "all subscriptions, instead of filters")
	case "yes":
		flags.BoolVarP(yes, name, "y", false, "do not ask for confirmation")
	case "dry-run":
		flags.BoolVar(&o.DryRun, name, false, "for many: print the actions without performing them")
	case "rate":
		flags.Float64Var(&o.Rate, name, 0, "for many: at most this `number` of subscriptions or events per second")
		flags.Lookup(name).DefValue = "100"
	case "wait":
		flags.DurationVar(&o.Wait, name, operate.DefaultWait, "wait at most this `time` for the result; 0 does not wait")
		flags.Lookup(name).DefValue = plain.Duration(operate.DefaultWait)
	case "after":
		flags.StringVar(&o.After, name, "", "for many: start after the subscription with this `id`")
	default:
		flags.String(name, "", textFlags[name])
	}
	switch name {
	case "state":
		cli.CompleteWords(cmd, name, "active", "suspended", "paused", "unreadable", "failing")
	case "mode":
		cli.CompleteWords(cmd, name, "push", "poll")
	}
}

// adminParameters returns the flags that are set and are filters, or where a verb starts or ends, by their API names.
func adminParameters(flags *pflag.FlagSet) (filters, from map[string]string) {
	filters, from = map[string]string{}, map[string]string{}
	flags.Visit(func(flag *pflag.Flag) {
		name, value := operate.Parameter(flag.Name), flag.Value.String()
		_, isText := textFlags[flag.Name]
		switch {
		case !isText && (flag.Name != "failing" && flag.Name != "all" || value == "false"), value == "":
		case slices.Contains(positionFlags, flag.Name):
			from[name] = value
		default:
			filters[name] = value
		}
	})
	return filters, from
}

// runAdmin sends the request and prints the response.
func (c *command) runAdmin(ctx context.Context, o operate.Options, tokenFile string, yes bool) error {
	o.Token = os.Getenv(adminTokenVariable)
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return cli.Refusef("--token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(b))
	}
	o.JSON, o.Stdout, o.Stderr, o.Terminal = c.Format == "json", c.Stdout, c.Stderr, cli.IsTerminal(c.Stderr)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if !yes && cli.IsTerminal(os.Stdin) && cli.IsTerminal(c.Stderr) {
		o.Confirm = c.askConfirmation
	}
	return operate.Run(ctx, o)
}
