package wake

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// act makes the test binary the command of a test.
const act = "WAKE_TEST_ACT"

func TestMain(m *testing.M) {
	if a := os.Getenv(act); a != "" {
		os.Exit(command(a, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// A seen is what a command has seen of its surroundings.
type seen struct {
	Argv  []string
	Env   []string
	Stdin string
}

// command is the command of a test. Files that it writes appear whole.
func command(act string, args []string) int {
	put := func(path string, v any) {
		raw, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(path+".new", raw, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			panic(err)
		}
	}
	switch act {
	case "look": // FILE: writes down all that it can see
		stdin, _ := io.ReadAll(os.Stdin)
		var env []string
		for _, v := range os.Environ() {
			if strings.HasPrefix(v, "MCPE_") || strings.HasPrefix(v, "WAKE_TEST_SECRET") {
				env = append(env, v)
			}
		}
		put(args[0], seen{Argv: args, Env: env, Stdin: string(stdin)})
	case "exit": // CODE TEXT: prints and ends without reading
		fmt.Fprint(os.Stderr, args[1])
		code, _ := strconv.Atoi(args[0])
		return code
	case "flood": // BYTES: prints that much
		n, _ := strconv.Atoi(args[0])
		for line := strings.Repeat("é\x1b", 20_000); n > 0; n -= len(line) {
			os.Stdout.WriteString(line)
		}
		return 3
	case "leave": // FILE: leaves a process behind that holds the output
		child := exec.Command(os.Args[0], args[0])
		child.Env = append(os.Environ(), "WAKE_TEST_ACT=deaf")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		waitFor(args[0])
	case "deaf": // FILE: ignores being asked to end
		signal.Ignore(syscall.SIGTERM)
		put(args[0], os.Getpid())
		time.Sleep(time.Hour)
	case "both": // FILE CHILD: is deaf, as is its child
		command("leave", args[1:])
		command("deaf", args[:1])
	case "polite": // FILE: ends in order when it is asked to, with success
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		put(args[0], os.Getpid())
		<-asked
		put(args[0]+".asked", true)
	case "last": // READY GO: ends with success once the file GO is there
		put(args[0], true)
		waitFor(args[1])
	}
	return 0
}

// waitFor waits until a file is there, a minute at most.
func waitFor(path string) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}
