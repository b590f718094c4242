package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// replaceFailing replaces the state failing with the equivalent filter.
func (o *Options) replaceFailing() {
	if o.Filters["state"] == "failing" {
		o.Filters = maps.Clone(o.Filters)
		delete(o.Filters, "state")
		o.Filters["failing"] = "true"
	}
}

// notOperatorAPI returns the error for a URL that does not serve the operator API. answered describes the response.
func notOperatorAPI(target, answered string) error {
	return fmt.Errorf("%s answered %s, so it is not the operator API, and may be the MCP endpoint: give the URL of the console (admin.NewHandler), "+
		"such as https://ops.example.com/events; a server made by init prints it at its start, by default http://127.0.0.1:8081/",
		plain.Text(target), answered)
}

// checkFound returns an error if a search for an event found nothing.
func (o *Options) checkFound(v *Verb, n int) error {
	if v.query == "" || n > 0 {
		return nil
	}
	return fmt.Errorf("no event has the id %s among the latest 100,000 entries of each log", plain.Text(o.Args[0]))
}

// printText prints the last page of a response with the rows of all pages.
func (o *Options) printText(ctx context.Context, v *Verb, page map[string]any, rows []map[string]any) error {
	switch {
	case v.print != nil:
		return v.print(o, ctx, v, page, rows)
	case v.list == "":
		return printOne(o.Stdout, firstMembers, page)
	}
	return o.printList(v, page, rows)
}

// printList prints a list and which processes it lacks.
func (o *Options) printList(v *Verb, page map[string]any, rows []map[string]any) error {
	if len(v.sum) > 0 {
		if err := printOne(o.Stdout, v.sum, page); err != nil {
			return err
		}
	}
	if one, ok := page[v.head].(map[string]any); ok {
		if err := printOne(o.Stdout, firstMembers, one); err != nil {
			return err
		}
	}
	if err := printAll(o.Stdout, v.columns, rows); err != nil {
		return err
	}
	if missing, _ := page["missing"].([]any); len(missing) > 0 {
		for _, text := range missing {
			if _, err := fmt.Fprintln(o.Stdout, valueText(text)); err != nil {
				return err
			}
		}
	} else if at, _ := page["asOf"].(string); at != "" {
		if _, err := fmt.Fprintf(o.Stdout, "The figures of other processes are from %s.\n", at); err != nil {
			return err
		}
	}
	return nil
}

// printLatencies prints the list of latencies and the number of attempts that they are based on.
func (o *Options) printLatencies(_ context.Context, v *Verb, page map[string]any, rows []map[string]any) error {
	if err := o.printList(v, page, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.Stdout, "Based on %s recorded attempts at %s subscriptions%s.\n", valueText(page["attempts"]), valueText(page["subscriptions"]), sampleNote(page))
	return err
}

// printFound prints the locations of an event. If there is exactly one location, it also prints the deliveries.
func (o *Options) printFound(ctx context.Context, v *Verb, _ map[string]any, rows []map[string]any) error {
	if err := o.checkFound(v, len(rows)); err != nil {
		return err
	}
	if len(rows) > 1 {
		return printAll(o.Stdout, v.columns, rows)
	}
	next := *o
	next.Filters = nil
	next.Args = []string{fmt.Sprint(rows[0]["event"]), valueText(rows[0]["position"])}
	return next.perform(ctx, &occurrence)
}

// dropOldError removes the error of a subscription that has recovered.
func dropOldError(row map[string]any) {
	if row["failedSince"] == nil && row["state"] != "suspended" {
		delete(row, "lastError")
	}
}

// setResult sets the column for the result of an attempt, which is its failure or the status of the response.
func setResult(row map[string]any) {
	if row["result"] = row["category"]; row["category"] == nil && row["status"] != nil {
		row["result"] = "HTTP " + valueText(row["status"])
	}
}

// setLastAttempt sets the columns for the latest attempt of a delivery.
func setLastAttempt(row map[string]any) {
	made, _ := row["attempts"].([]any)
	if len(made) == 0 {
		return
	}
	if last, ok := made[0].(map[string]any); ok {
		setResult(last)
		row["at"], row["result"] = last["at"], last["result"]
	}
}

// setTermination replaces who terminated an event type, and when, by the time.
func setTermination(row map[string]any) {
	if t, ok := row["terminated"].(map[string]any); ok {
		row["terminated"] = t["at"]
	}
}

// setEndpoint sets the columns for the name of an endpoint and its number of subscriptions.
func setEndpoint(row map[string]any) {
	row["total"], row["endpoint"] = row["subscriptions"], cmp.Or(row["url"], row["host"])
}

// setTarget sets the column for the target of an action.
func setTarget(row map[string]any) {
	id, _ := row["subscription"].(string)
	target := plain.Cut(id, shortID)
	for _, name := range []string{"connection", "rejected", "principal", "event", "eventId"} {
		if text, _ := row[name].(string); text != "" {
			target += " " + text
		}
	}
	row["target"] = strings.TrimSpace(target)
}

// dropUnknownOutcomes removes the outcomes of an event without recorded attempts because they are unknown.
func dropUnknownOutcomes(row map[string]any) {
	if row["attempts"] == float64(0) {
		for _, name := range []string{"accepted", "waiting", "failed"} {
			delete(row, name)
		}
	}
}

// printWindow prints the events between two times, or a message if nothing happened.
func (o *Options) printWindow(_ context.Context, v *Verb, page map[string]any, rows []map[string]any) error {
	of := ""
	if event := o.Filters["event"]; event != "" {
		of = " of " + plain.Text(event)
	}
	during := fmt.Sprintf("from %s to %s", valueText(page["since"]), valueText(page["until"]))
	if len(rows) == 0 {
		fmt.Fprintf(o.Stdout, "No events%s happened %s.\n", of, during)
	} else {
		fmt.Fprintf(o.Stdout, "Events%s %s:\n", of, during)
		if err := printAll(o.Stdout, v.columns, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(o.Stdout, "%s attempts in this time, %s failed, at %s subscriptions%s.\n", valueText(page["attempts"]), valueText(page["failures"]),
		valueText(page["subscriptions"]), sampleNote(page))
	return err
}

// sampleNote returns a note if a response covers only a sample of the subscriptions.
func sampleNote(page map[string]any) string {
	if page["whole"] == true {
		return ""
	}
	return "; the others were not examined"
}

// mergeLatencies merges the latency lists of a response into one.
func mergeLatencies(page map[string]any) {
	var all []any
	for _, of := range []string{"endpoint", "type"} {
		rows, _ := page[of+"s"].([]any)
		for _, r := range rows {
			row, ok := r.(map[string]any)
			if !ok {
				continue
			}
			row["of"] = of
			for _, name := range []string{"event", "host", "url"} {
				if row[name] != nil {
					row["name"] = row[name]
				}
			}
			all = append(all, row)
		}
	}
	page["rows"] = all
}

// printWhy prints why a subscription is late and which command helps.
func (o *Options) printWhy(_ context.Context, _ *Verb, page map[string]any, _ []map[string]any) error {
	if page["text"] == nil {
		return errors.New("the response has no text")
	}
	if _, err := fmt.Fprintln(o.Stdout, valueText(page["text"])); err != nil {
		return err
	}
	help, _ := page["help"].(string)
	if help == "" {
		return nil
	}
	verb, event := help, ""
	if help == "send" {
		verb, event = "retry", " "+quoteWord(valueText(page["eventId"]))
	}
	_, err := fmt.Fprintf(o.Stdout, "Try: mcpe-gen admin %s %s %s%s\n", plain.Text(verb), quoteWord(o.URL), quoteWord(o.Args[0]), event)
	return err
}
