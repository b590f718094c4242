package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// adminTokenVariable is where the operator's token stands. It is never the token of listen.
const adminTokenVariable = childenv.AdminToken

const adminHelp = `Use the operator API of a server (package runtime/admin): list subscriptions,
connections and delivery attempts, and act on them.

  types                     the event types
  subscriptions             webhook subscriptions, by the filters below
  endpoints                 totals per host, or per URL of one --host
  activity                  results of this process's attempts in the last hour, per minute,
                            for one --event or --host or for all
  show ID                   one subscription
  attempts ID               what was sent to it, and what came back
  connections               open streams and pollers
  tail                      occurrences as they happen, of one --event or of all
  event EVENT-ID            where an event is, in the log of one --event or in all logs
  occurrence TYPE POSITION  one occurrence, and its delivery to each subscription
  test ID PAYLOAD           emit an event with this JSON for one subscription alone
  retry ID EVENT-ID         send one event again
  pause ID, unpause ID      pause deliveries, and continue them
  resume ID                 end a suspension
  replay ID [CURSOR]        deliver everything after a cursor again, or everything from --since,
                            --position or --event-id on; --until a time
  endreplay ID              end a running replay
  bulk VERB                 pause, unpause, resume or endreplay every subscription that matches the
                            filters, in the background; replay, or resend failed events, --since a time
  tasks, cancel TASK        running bulk tasks, and cancel one
  audit                     who did what, newest first, --since a time, by one --actor or by all
  cluster                   the processes that share the store, and their problems
  end ID                    end a subscription, for good
  disconnect ID             end a stream or a poller's lease
  revoke PRINCIPAL          end everything that a principal has; Authorize decides whether it may come back
  outbox                    events from transactions that were put aside as invalid
  putback ID, drop ID       try one of those again, or delete it

On a terminal bulk, end, revoke, drop and a replay without a cursor ask first; --yes does not.

The token comes from --token-file or the environment's ` + adminTokenVariable + `. It goes to
the URL's origin only: redirects are refused, and plain http reaches loopback only.`

func newAdmin(c *command) *cobra.Command {
	var o operate.Options
	var tokenFile string
	var yes, failing, all bool
	filters, from := map[string]*string{}, map[string]*string{}
	cmd := &cobra.Command{
		Use:   "admin URL VERB [ARGUMENT...]",
		Short: "Operate a server: subscriptions, attempts, retries",
		Long:  adminHelp,
		Example: `  mcpe-gen admin https://ops.example.com/events subscriptions --state suspended
  mcpe-gen admin https://ops.example.com/events subscriptions --failing
  mcpe-gen admin https://ops.example.com/events attempts sub_4f0c
  mcpe-gen admin https://ops.example.com/events retry sub_4f0c evt_1 --token-file token`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("admin needs a URL and a verb: %s", strings.Join(operate.Verbs, ", "))
			}
			o.URL, o.Verb, o.Args = args[0], args[1], args[2:]
			o.Token = os.Getenv(adminTokenVariable)
			if tokenFile != "" {
				b, err := os.ReadFile(tokenFile)
				if err != nil {
					return refuse(fmt.Errorf("--token-file: %w", err))
				}
				o.Token = strings.TrimSpace(string(b))
			}
			o.Filters = map[string]string{}
			for name, value := range filters {
				if *value != "" {
					o.Filters[name] = *value
				}
			}
			o.From = map[string]string{}
			for name, value := range from {
				if *value != "" {
					o.From[name] = *value
				}
			}
			for name, set := range map[string]bool{"failing": failing, "all": all} {
				if set {
					o.Filters[name] = "true"
				}
			}
			o.JSON, o.Stdout = c.format == "json", c.stdout
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop)
			if !yes && isTerminal(os.Stdin) && isTerminal(c.stderr) {
				o.Confirm = c.confirm
			}
			err := operate.Run(ctx, o)
			if wrong, ok := errors.AsType[*operate.UsageError](err); ok {
				return refuse(wrong)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&tokenFile, "token-file", "", "`file` that holds the operator's token (default: the environment's "+adminTokenVariable+")")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation before bulk, drop, end, revoke and replay")
	for _, f := range []struct{ flag, name, usage string }{
		{"principal", "principal", "of this `principal` only"},
		{"event", "event", "to this `event` type only"},
		{"state", "state", "in this `state` only: active, suspended, paused or unreadable"},
		{"url", "url", "with a callback whose URL has this `part`"},
		{"host", "host", "with a callback on this `host`"},
		{"late", "late", "of the asked process, with an entry that has waited for this `time`, such as 5m"},
		{"min-behind", "minBehind", "at least this `number` of entries behind"},
		{"actor", "actor", "audit: what this `operator` did"},
		{"subscription", "subscription", "audit: what was done to the subscription of this `id`"},
		{"mode", "mode", "connections of this `mode` only: push or poll"},
	} {
		filters[f.name] = flags.String(f.flag, "", f.usage)
	}
	for _, f := range []struct{ flag, name, usage string }{
		{"since", "since", "replay, bulk and audit: from this `time` on, such as 2026-11-22T14:00:00Z, or how long ago it was, such as 90m"},
		{"until", "until", "replay and bulk: leave out what happened from this `time` on"},
		{"position", "position", "replay: from this `position` of the log on"},
		{"event-id", "eventId", "replay: from the event of this `id` on"},
	} {
		from[f.name] = flags.String(f.flag, "", f.usage)
	}
	flags.BoolVar(&failing, "failing", false, "whose last attempt failed, suspended or not, or whose record cannot be read; those that have failed for longest first")
	flags.BoolVar(&all, "all", false, "bulk without a filter: all subscriptions")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}
