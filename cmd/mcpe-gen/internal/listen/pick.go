package listen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// chooseEvent returns the event type named in the options or prompts for one.
func (o Options) chooseEvent(ctx context.Context, catalog []client.Descriptor) (client.Descriptor, error) {
	if len(catalog) == 0 {
		return client.Descriptor{}, fmt.Errorf("%s has no event types", o.Target)
	}
	if o.Event != "" {
		i := slices.IndexFunc(catalog, func(d client.Descriptor) bool { return d.Name == o.Event })
		if i < 0 {
			return client.Descriptor{}, cli.Refusef("%s has no event type %q%s", o.Target, o.Event, suggest.EventTypes(o.Event, names(catalog)))
		}
		return catalog[i], nil
	}
	o.list(catalog)
	if o.Stdin == nil {
		return client.Descriptor{}, cli.Refusef("name one of the event types of %s: %s", o.Target, strings.Join(names(catalog), ", "))
	}
	if len(catalog) == 1 {
		return catalog[0], nil
	}
	return o.askEvent(ctx, catalog)
}

func names(catalog []client.Descriptor) []string {
	var list []string
	for _, d := range catalog {
		list = append(list, plain.Text(d.Name))
	}
	return list
}

// list prints the event types.
func (o Options) list(catalog []client.Descriptor) {
	width := 0
	for _, d := range catalog {
		width = max(width, len(plain.Text(d.Name)))
	}
	fmt.Fprintf(o.Stderr, "Event types of %s:\n", o.Target)
	for i, d := range catalog {
		fmt.Fprintf(o.Stderr, "%4d  %-*s  %s (%s)\n", i+1, width, plain.Text(d.Name), plain.Text(d.Description), plain.Text(strings.Join(d.Delivery, ", ")))
	}
}

// askEvent reads lines until one identifies an event type by number, name or unique prefix.
func (o Options) askEvent(ctx context.Context, catalog []client.Descriptor) (client.Descriptor, error) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		// A read of standard input cannot be cancelled; the process ends soon afterwards.
		in := bufio.NewScanner(o.Stdin)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		fmt.Fprintf(o.Stderr, "Listen to (1-%d or a name): ", len(catalog))
		select {
		case <-ctx.Done():
			fmt.Fprintln(o.Stderr)
			return client.Descriptor{}, ctx.Err()
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(o.Stderr)
				return client.Descriptor{}, cli.Refusef("no event type was chosen")
			}
			if d, ok := match(catalog, strings.TrimSpace(line)); ok {
				return d, nil
			}
			io.WriteString(o.Stderr, "There is no such event type.\n")
		}
	}
}

func match(catalog []client.Descriptor, answer string) (client.Descriptor, bool) {
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(catalog) {
		return catalog[n-1], true
	}
	var found []client.Descriptor
	for _, d := range catalog {
		if d.Name == answer {
			return d, true
		}
		if answer != "" && strings.HasPrefix(d.Name, answer) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return client.Descriptor{}, false
	}
	return found[0], true
}
