package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

var servedAt = regexp.MustCompile(`at (http://[^ ]+)/mcp, for testing only`)

// startTrial is the script command "trial ARGS…": mcpe-gen serve in the background, whose address it puts
// into $TRIAL, and what it writes to standard error into the file trial.log when the script ends it.
func startTrial(ts *testscript.TestScript, neg bool, args []string) {
	var log clitest.Lines
	cmd := program(ts, append([]string{"serve"}, args...))
	cmd.Stderr = &log
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	for range 1000 {
		if m := servedAt.FindStringSubmatch(log.String()); m != nil {
			ts.Setenv("TRIAL", m[1])
			ts.Check(os.WriteFile(ts.MkAbs("trial.log"), []byte(log.String()), 0o666))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("serve does not listen: %s", log.String())
}

// program is mcpe-gen as scripts run it.
func program(ts *testscript.TestScript, args []string) *exec.Cmd {
	path := "mcpe-gen"
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "mcpe-gen")); err == nil {
			path = filepath.Join(dir, "mcpe-gen")
			break
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// post is the script command "post STATUS URL BODY [HEADER…]": it posts JSON, expects the status and puts
// the answer into the file answer.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: post STATUS URL BODY [HEADER…]")
	}
	req, err := http.NewRequest(http.MethodPost, args[1], strings.NewReader(args[2]))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range args[3:] {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), body, 0o666))
	if want := args[0]; strconv.Itoa(res.StatusCode) != want {
		ts.Fatalf("status %d, want %s: %s", res.StatusCode, want, body)
	}
}
