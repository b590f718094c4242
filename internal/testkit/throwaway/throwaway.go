// Package throwaway runs the program of the same name, a PostgreSQL server that exits with its parent. It is used by
// the demo, the benchmarks and a test outside runtime, which cannot import the package that starts a server in runtime.
package throwaway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// ExitMissing is the program's exit code if PostgreSQL is not installed.
const ExitMissing = 3

// ErrMissing reports that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed")

// Start runs the built program with flags and returns the connection string of its server. stop stops the server.
func Start(program string, flags ...string) (address string, stop func() error, err error) {
	cmd := exec.Command(program, flags...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end := func() error {
		in.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, said.String())
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		return strings.TrimSpace(line), end, nil
	}
	ended := end()
	var exit *exec.ExitError
	if errors.As(ended, &exit) && exit.ExitCode() == ExitMissing {
		return "", nil, ErrMissing
	}
	return "", nil, fmt.Errorf("starting PostgreSQL: %w", errors.Join(err, ended))
}
