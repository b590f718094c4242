package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

func init() { programs["onterminal"] = onTerminal }

// onTerminal runs the command of its arguments with a pseudo-terminal as its standard input and standard error. The
// first argument is the file of what is typed, which the terminal's end of input follows. What the terminal shows
// is written to standard error. The commands ttyin and ttyout of testscript do nearly the same, but close the
// terminal before everything that it shows has been read.
func onTerminal() {
	code, err := terminal(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "onterminal:", err)
		os.Exit(99)
	}
	os.Exit(code)
}

func terminal(answers string, command []string) (code int, err error) {
	typed, err := os.ReadFile(answers)
	if err != nil {
		return 0, err
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return 0, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return 0, err
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	if _, err := master.Write(append(typed, 4 /* EOT */)); err != nil {
		return 0, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, os.Stdout, tty
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	tty.Close()
	// Once nobody has the terminal open, reading fails with EIO after the last byte.
	if _, err := io.Copy(os.Stderr, master); err != nil && !errors.Is(err, unix.EIO) {
		return 0, err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
