// Command bench compares the runtime and the generator with limits in plain Go, and prints a table of limit, ours and
// ratio.
//
// The limit of polling is net/http answering prebuilt bytes; that of streaming is net/http writing one prebuilt frame
// and flushing it; that of webhooks is signing and posting prebuilt bytes over keep-alive connections; that of emitting
// at replicas is inserting the same rows into PostgreSQL, those that wait in one statement; that of generating is
// go/format over the bytes we generate; that of compiling generated code is compiling only its types; that of a large
// input is the same work on an input of half or a quarter of its size; that of schemas that lead to each other is the
// time that people accept to wait. Limit and ours run alternately in one invocation, each server in a separate process,
// so that changes in the machine's speed affect both. Everything stays on the loopback interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A row is a line of the table. The target of a ratio starts with "≥" for a minimum and "≤" for a maximum.
type row struct {
	what, limit, ours string
	ratio             float64
	target            string
}

// settings contains the parameters of a run.
type settings struct {
	rounds   int
	duration time.Duration
	streams  int
	kills    int
}

var parts = []struct {
	name string
	run  func(context.Context, settings) ([]row, error)
}{
	{"poll", benchPoll},
	{"push", benchPush},
	{"private", benchPrivate},
	{"idle", benchIdle},
	{"webhook", benchWebhook},
	{"attempts", benchAttempts},
	{"subscriptions", benchSubscriptions},
	{"filters", benchFilters},
	{"restart", benchRestart},
	{"emits", benchEmits},
	{"cluster", benchCluster},
	{"balancer", benchBalance},
	{"generate", benchGenerate},
	{"compile", benchCompile},
	{"size", benchSize},
	{"graph", benchGraph},
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "serve" {
		if err := serve(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "bench serve:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	only := flag.String("only", "", "comma-separated parts to run: poll, push, private, idle, webhook, attempts, subscriptions, filters, restart, emits, cluster, balancer, generate, compile, size, graph; default all")
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds; the median is shown")
	flag.DurationVar(&s.duration, "duration", 3*time.Second, "length of one measurement")
	flag.IntVar(&s.streams, "streams", 1000, "open streams of push and idle")
	flag.IntVar(&s.kills, "kills", 10, "kills behind the balancer, each with 10 clients of a mode")
	page := flag.String("markdown", "", "write the rows of all parts into this `page`, and a chart of them beside it")
	flag.Parse()
	if *page != "" && *only != "" {
		fmt.Fprintln(os.Stderr, "bench: -markdown takes the rows of all parts: leave -only out")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, *only, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, only, page string) error {
	var rows []row
	var failed error
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.name) {
			continue
		}
		r, err := p.run(ctx, s)
		if err != nil {
			failed = fmt.Errorf("%s: %w", p.name, err)
			break // show the earlier measurements
		}
		rows = append(rows, r...)
	}
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "measurement\tlimit\tours\tratio\ttarget")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%s\n", r.what, r.limit, r.ours, r.ratio, r.target)
	}
	if err := errors.Join(tw.Flush(), failed); err != nil || page == "" {
		return err
	}
	about := fmt.Sprintf("Measured on %s with %s on %s/%s, %d cores, by `bench -rounds %d -duration %s -streams %d -kills %d`.",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds, s.duration, s.streams, s.kills)
	return writePage(page, about, rows)
}

// median sorts xs and returns its median.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return xs[len(xs)/2]
}
