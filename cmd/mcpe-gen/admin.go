package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

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

// An adminVerb is a subcommand of admin. Package operate implements it.
type adminVerb struct {
	use, short string
	flags      [][]string
}

// The flags of admin verbs.
var (
	ofSubscriptions = []string{"principal", "event", "state", "url", "host", "late", "min-behind", "failing"}
	ofRequest       = []string{"wait"}
	ofMany          = append([]string{"all", "dry-run", "rate", "after", "yes"}, ofSubscriptions...)
)

var adminVerbs = []adminVerb{
	{"types URL", "List the event types", nil},
	{"subscriptions URL", "List webhook subscriptions", [][]string{ofSubscriptions}},
	{"endpoints URL", "List totals for each host, or for each URL of one --host", [][]string{ofSubscriptions}},
	{"show URL ID", "Show a subscription", nil},
	{"attempts URL ID", "List the delivery attempts of a subscription", nil},
	{"connections URL", "List open streams and pollers", [][]string{{"principal", "event", "mode"}}},
	{"tail URL", "Show occurrences as they happen", [][]string{{"event"}}},
	{"events URL", "List the events between two times, and the results of their deliveries", [][]string{{"event", "since", "until"}}},
	{"latency URL", "List the latencies of endpoints and event types, slowest first", [][]string{ofSubscriptions}},
	{"why URL ID", "Explain why a subscription is late, and which command helps", nil},
	{"event URL EVENT-ID", "Find an event by its id, and show its deliveries", [][]string{{"event"}}},
	{"occurrence URL TYPE POSITION", "Show an occurrence, and its delivery to each subscription", nil},
	{"test URL ID PAYLOAD", "Send a test event with this JSON to one subscription", nil},
	{"retry URL [ID EVENT-ID]", "Resend an event, or all events that were abandoned since a time", [][]string{ofMany, ofRequest, {"since", "until"}}},
	{"pause URL [ID]", "Pause deliveries", [][]string{ofMany}},
	{"unpause URL [ID]", "Continue paused deliveries", [][]string{ofMany}},
	{"resume URL [ID]", "End a suspension; an endpoint that keeps failing is suspended again", [][]string{ofMany, ofRequest}},
	{"replay URL [ID [CURSOR]]", "Redeliver the events after a cursor, or from --since, --position or --event-id",
		[][]string{ofMany, ofRequest, {"since", "until", "position", "event-id"}}},
	{"endreplay URL [ID]", "End a running replay", [][]string{ofMany, ofRequest}},
	{"audit URL", "List who did what, newest first", [][]string{{"since", "actor", "subscription", "principal", "event"}}},
	{"cluster URL", "List the processes that share the store, and their problems", nil},
	{"end URL ID", "End a subscription; its client may subscribe again unless server.Options.Authorize rejects it", [][]string{ofRequest, {"yes"}}},
	{"disconnect URL ID", "End a stream, or the lease of a poller; its client may connect again", nil},
	{"revoke URL PRINCIPAL", "End all that a principal has; it may subscribe again unless server.Options.Authorize rejects it", [][]string{{"yes"}}},
	{"reopen URL TYPE", "End the termination of an event type", nil},
	{"outbox URL", "List rejected events, which are invalid events from transactions", nil},
	{"putback URL ID", "Return a rejected event to the outbox", nil},
	{"drop URL ID", "Delete a rejected event", [][]string{{"yes"}}},
}

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
	for _, v := range adminVerbs {
		group.AddCommand(c.newAdminVerb(v, tokenFile))
	}
	return group
}

// checkAdminArgs rejects arguments before a verb of admin. It also reports a verb that follows the URL.
func checkAdminArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && peer.IsURL(args[0]) && slices.Contains(operate.Verbs, args[1]) {
		return cli.Usagef("the verb comes before the URL: %s", strings.Join(append([]string{cmd.CommandPath(), args[1], args[0]}, args[2:]...), " "))
	}
	return cli.UnknownVerb(cmd, args)
}

func (c *command) newAdminVerb(v adminVerb, tokenFile *string) *cobra.Command {
	f := &adminFlags{command: c, options: operate.Options{Wait: operate.DefaultWait}, values: map[string]*string{}}
	cmd := &cobra.Command{
		Use:               v.use,
		Short:             v.short,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s needs the URL of the operator's API", cmd.Name())
			}
			if cmd.Flags().Changed("rate") && f.options.Rate == 0 {
				return cli.Usagef("--rate must be above 0")
			}
			o := f.options
			o.URL, o.Verb, o.Args = args[0], cmd.Name(), args[1:]
			if !cmd.Flags().Changed("rate") {
				o.Rate = 0
			}
			return f.runRequest(cmd.Context(), o, *tokenFile)
		},
	}
	cmd.Flags().SortFlags = false
	for _, names := range v.flags {
		for _, name := range names {
			f.addFlag(cmd, name)
		}
	}
	return cmd
}

// adminFlags holds the flag values of a subcommand of admin.
type adminFlags struct {
	*command
	options operate.Options
	values  map[string]*string // values of text flags, by operate's names
	failing bool
	all     bool
	yes     bool
}

// A textFlag is a flag whose value is passed to operate by name, as a filter or as a start or end position.
type textFlag struct{ name, usage string }

var textFlags = map[string]textFlag{
	"principal":    {"principal", "only this `principal`"},
	"event":        {"event", "only this `event` type"},
	"state":        {"state", "only this `state`: active, suspended, paused, unreadable or failing"},
	"url":          {"url", "only callbacks whose URL contains this `part`"},
	"host":         {"host", "only callbacks on this `host`"},
	"late":         {"late", "only subscriptions whose oldest waiting event is at least this `time` old, such as 5m"},
	"min-behind":   {"minBehind", "only subscriptions at least this `number` of entries behind"},
	"actor":        {"actor", "only verbs of this `operator`"},
	"subscription": {"subscription", "only verbs that acted on the subscription with this `id`"},
	"mode":         {"mode", "only this `mode`: push or poll"},
	"since":        {"since", "start at this `time`, such as 2026-11-22T14:00:00Z, 14:00 (today in UTC) or 90m (ago)"},
	"until":        {"until", "end before this `time`"},
	"position":     {"position", "start at this `position` of the log (one subscription)"},
	"event-id":     {"eventId", "start at the event with this `id` (one subscription)"},
}

// positionFlags contains the text flags that set where a verb starts or ends. The others are filters.
var positionFlags = []string{"since", "until", "position", "eventId"}

// addFlag adds a flag to a verb.
func (f *adminFlags) addFlag(cmd *cobra.Command, name string) {
	flags := cmd.Flags()
	switch name {
	case "failing":
		flags.BoolVar(&f.failing, name, false, "only failing subscriptions (last attempt failed, suspended or not, or unreadable record), longest-failing first")
	case "all":
		flags.BoolVar(&f.all, name, false, "all subscriptions, instead of filters")
	case "yes":
		flags.BoolVarP(&f.yes, name, "y", false, "do not ask for confirmation")
	case "dry-run":
		flags.BoolVar(&f.options.DryRun, name, false, "for many: print the actions without performing them")
	case "rate":
		flags.Float64Var(&f.options.Rate, name, 100, "for many: at most this `number` of subscriptions or events per second")
	case "wait":
		flags.DurationVar(&f.options.Wait, name, operate.DefaultWait, "wait at most this `time` for the result; 0 does not wait")
		flags.Lookup(name).DefValue = plain.Duration(operate.DefaultWait)
	case "after":
		flags.StringVar(&f.options.After, name, "", "for many: start after the subscription with this `id`")
	default:
		f.values[textFlags[name].name] = flags.String(name, "", textFlags[name].usage)
	}
	switch name {
	case "state":
		cli.CompleteWords(cmd, name, "active", "suspended", "paused", "unreadable", "failing")
	case "mode":
		cli.CompleteWords(cmd, name, "push", "poll")
	}
}

// runRequest sends the request and prints the response.
func (f *adminFlags) runRequest(ctx context.Context, o operate.Options, tokenFile string) error {
	o.Token = os.Getenv(adminTokenVariable)
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return cli.Refuse(fmt.Errorf("--token-file: %w", err))
		}
		o.Token = strings.TrimSpace(string(b))
	}
	o.Filters, o.From = map[string]string{}, map[string]string{}
	for name, value := range f.values {
		switch {
		case *value == "":
		case slices.Contains(positionFlags, name):
			o.From[name] = *value
		default:
			o.Filters[name] = *value
		}
	}
	for name, set := range map[string]bool{"failing": f.failing, "all": f.all} {
		if set {
			o.Filters[name] = "true"
		}
	}
	o.JSON, o.Stdout, o.Stderr, o.Terminal = f.Format == "json", f.Stdout, f.Stderr, cli.IsTerminal(f.Stderr)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if !f.yes && cli.IsTerminal(os.Stdin) && cli.IsTerminal(f.Stderr) {
		o.Confirm = f.askConfirmation
	}
	err := operate.Run(ctx, o)
	if wrong, ok := errors.AsType[*operate.UsageError](err); ok {
		return cli.Refuse(wrong)
	}
	return err
}
