// Command throwaway starts a PostgreSQL of its own from local binaries, prints its connection string and
// stops it again when its standard input ends. Without binaries it says so and exits with 3. It is for
// programs that are not tests: `make demo` and `make bench`.
//
// With a command, as in `throwaway go test ./...`, it runs that instead, with one PostgreSQL for all its tests, and
// exits with its code.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/mcpe-gen/mcpe-gen/internal/throwaway"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
)

func main() {
	durable := flag.Bool("durable", false, "commits reach the disk, as PostgreSQL comes")
	flag.Parse()
	if flag.NArg() > 0 {
		code, err := pgtest.Run(flag.Args())
		if err != nil {
			fmt.Fprintln(os.Stderr, "throwaway:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	settings := pgtest.Fast
	if *durable {
		settings = pgtest.Durable
	}
	c, err := pgtest.Start(settings)
	if err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		if errors.Is(err, pgtest.ErrMissing) {
			os.Exit(throwaway.ExitMissing)
		}
		os.Exit(1)
	}
	fmt.Println(c.URL())
	io.Copy(io.Discard, os.Stdin)
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		os.Exit(1)
	}
}
