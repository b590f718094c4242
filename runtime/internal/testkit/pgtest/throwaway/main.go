// Command throwaway starts a PostgreSQL cluster from local binaries and prints its connection string. It stops the
// cluster when its standard input is closed. If it is executed by another throwaway command, it creates a database in
// the cluster of that command instead. If the binaries are missing, it prints an error and exits with status 3. It is
// intended for programs that are not tests, such as `make demo` and `make bench`.
//
// If a command is given, as in `throwaway go test ./...`, throwaway executes it with one PostgreSQL cluster for all its
// tests. It exits with the status of the command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
)

func main() {
	durable := flag.Bool("durable", false, "sync commits to disk, as PostgreSQL does by default")
	flag.Parse()
	if flag.NArg() > 0 {
		code, err := pgtest.Run(flag.Args())
		if err != nil {
			fmt.Fprintln(os.Stderr, "throwaway:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	address, stop, err := start(*durable)
	if err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		if errors.Is(err, pgtest.ErrMissing) {
			os.Exit(throwaway.ExitMissing)
		}
		os.Exit(1)
	}
	fmt.Println(address)
	io.Copy(io.Discard, os.Stdin)
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		os.Exit(1)
	}
}

// start creates a database in the cluster of an outer throwaway command, or starts a new cluster.
func start(durable bool) (address string, stop func() error, err error) {
	if durable {
		return startCluster(pgtest.Durable)
	}
	if address, stop, err = pgtest.Database(); address != "" || err != nil {
		return address, stop, err
	}
	return startCluster(pgtest.Fast)
}

func startCluster(settings []string) (address string, stop func() error, err error) {
	c, err := pgtest.Start(settings)
	if err != nil {
		return "", nil, err
	}
	return c.URL(), c.Stop, nil
}
