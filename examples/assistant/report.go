package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/assistant/report"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
)

// step is the time that each incident takes in a report.
const step = 150 * time.Millisecond

// write implements write_report. It takes at least three steps, so that progress is visible even without incidents.
func (d *desk) write(ctx context.Context, args report.Arguments, t *mcpc.Task[report.Progress]) (r report.Report, err error) {
	all := d.list(args.Service)
	of := max(len(all), 3)
	var text strings.Builder
	for n := range of {
		select {
		case <-ctx.Done(): // the caller has disconnected, or the task was stopped
			return r, context.Cause(ctx)
		case <-time.After(step):
		}
		if n < len(all) {
			state := "open"
			if all[n].over {
				state = "resolved"
			}
			fmt.Fprintf(&text, "%s %s %s: %s (%s)\n", all[n].IncidentID, all[n].Severity, all[n].Service, all[n].Title, state)
		}
		if err := t.Update(report.Progress{Done: n + 1, Of: of}); err != nil {
			return r, err
		}
	}
	r = report.Report{Title: "Incidents", Incidents: len(all), Text: text.String()}
	if args.Service != "" {
		r.Title += " of " + args.Service
	}
	return r, nil
}
