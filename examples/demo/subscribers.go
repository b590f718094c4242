package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/github"
)

// deliveries lists the webhooks that GitHub sends, in order. The last webhook repeats an earlier delivery, as GitHub
// does if a response was lost.
var deliveries = []struct{ id, event, file string }{
	{"d-pr-1", "pull_request", "pull_request.opened.json"},
	{"d-pr-2", "pull_request", "pull_request.opened.2.json"},
	{"d-issue-1", "issues", "issues.opened.json"},
	{"d-issue-2", "issues", "issues.opened.2.json"},
	{"d-comment-1", "issue_comment", "issue_comment.created.json"},
	{"d-push-1", "push", "push.json"},
	{"d-push-2", "push", "push.2.json"},
	{"d-run-1", "workflow_run", "workflow_run.completed.json"},
	{"d-release-1", "release", "release.published.json"},
	{"d-pr-2", "pull_request", "pull_request.opened.2.json"},
}

// quiet is how long the demo waits for unexpected events: two poll intervals.
const quiet = 2500 * time.Millisecond

// A subscriber is a watch process, its subscription, and the delivery ids that it must receive.
type subscriber struct {
	mode, event string
	args        []string
	connect     []string // the command-line arguments for the server
	ownServer   bool     // the server is a child of the subscriber, on stdio
	want        []string
	process     *process
}

// subscribers shows that each subscriber receives exactly the events that it subscribed to, by poll and push, over HTTP
// and stdio.
func subscribers(ctx context.Context, w io.Writer, bin, github, bodies, tokens string) error {
	server, base, err := startServer(ctx, github, []string{"-http", "127.0.0.1:0", "-github-secret", secret, "-tokens", tokens})
	if err != nil {
		return err
	}
	defer server.kill()
	fmt.Fprintf(w, "The GitHub events server listens on %s.\n", base)

	all := append(overHTTP(base), overStdio(github)...)
	endpoints := []string{base}
	for _, s := range all {
		if s.process, err = spawn(filepath.Join(bin, "watch"), s.argv()...); err != nil {
			return err
		}
		defer s.process.kill()
	}
	for _, s := range all {
		if s.ownServer {
			url, err := s.process.waitFor(ctx, "listening on ")
			if err != nil {
				return err
			}
			endpoints = append(endpoints, url)
		}
		if _, err := s.process.waitFor(ctx, "subscribed to "); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%d subscribers wait.\n", len(all))

	for _, d := range deliveries {
		for _, e := range endpoints {
			if err := post(ctx, e+"/github", filepath.Join(bodies, d.file), d.event, d.id); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(w, "GitHub sent %d webhooks, one of them twice under one delivery id.\n", len(deliveries))

	failures := []error{await(ctx, all)}
	for _, s := range all {
		failures = append(failures, s.process.end(), s.report(w))
	}
	return errors.Join(append(failures, server.end())...)
}

// await waits until every subscriber has received the expected events. It then waits for the time quiet, in which
// unexpected events would arrive.
func await(ctx context.Context, all []*subscriber) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for complete := false; !complete; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not everything arrived: %w", ctx.Err())
		case <-tick.C:
		}
		complete = true
		for _, s := range all {
			complete = complete && s.process.count() >= len(s.want)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(quiet):
		return nil
	}
}

func overHTTP(base string) []*subscriber {
	connect := []string{"-url", base + "/mcp", "-token", token}
	return []*subscriber{
		{mode: "poll", event: "issues.opened", args: []string{"repo=Codertocat/Hello-World", "label=bug"}, connect: connect, want: []string{"d-issue-1", "d-issue-2"}},
		{mode: "push", event: "pull_request.opened", args: []string{"label=bug", "branch=master"}, connect: connect, want: []string{"d-pr-2"}},
		{mode: "push", event: "workflow_run.completed", args: []string{"branch=main"}, connect: connect, want: []string{"d-run-1"}},
		{mode: "poll", event: "release.published", args: []string{"branch=develop"}, connect: connect},
	}
}

func overStdio(program string) []*subscriber {
	return []*subscriber{{
		mode: "push", event: "push", args: []string{"repo=Codertocat/Hello-World"}, ownServer: true,
		connect: []string{"--", program, "-stdio", "-http", "127.0.0.1:0", "-github-secret", secret},
		want:    []string{"d-push-1", "d-push-2"},
	}}
}

func (s *subscriber) argv() []string {
	argv := []string{"-mode", s.mode, "-event", s.event}
	for _, a := range s.args {
		argv = append(argv, "-arg", a)
	}
	return append(argv, s.connect...)
}

// report prints the received events of s, and the missing, duplicate and unexpected events.
func (s *subscriber) report(w io.Writer) error {
	carrier := "HTTP"
	if s.ownServer {
		carrier = "stdio"
	}
	fmt.Fprintf(w, "\n%s by %s over %s, %s\n", s.event, s.mode, carrier, strings.Join(s.args, " "))
	var got []string
	for _, l := range s.process.lines() {
		var line struct {
			Mode    string          `json:"mode"`
			EventID string          `json:"eventId"`
			Data    json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(l), &line); err != nil {
			return fmt.Errorf("watch printed %q: %w", l, err)
		}
		text, err := describe(s.event, line.Data)
		if err != nil {
			return err
		}
		if line.Mode != s.mode {
			return fmt.Errorf("%s came by %s instead of %s", line.EventID, line.Mode, s.mode)
		}
		fmt.Fprintf(w, "  %-12s %s\n", line.EventID, text)
		got = append(got, line.EventID)
	}
	if len(got) == 0 {
		fmt.Fprintln(w, "  nothing, because of the filter")
	}
	var errs []error
	for _, id := range s.want {
		if n := count(got, id); n != 1 {
			errs = append(errs, fmt.Errorf("%s: %s came %d times", s.event, id, n))
		}
	}
	for _, id := range got {
		if !slices.Contains(s.want, id) {
			errs = append(errs, fmt.Errorf("%s: %s came though the filter rules it out", s.event, id))
		}
	}
	return errors.Join(errs...)
}

func count(ids []string, id string) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

// describe decodes a payload into its generated type and returns a short description.
func describe(event string, data []byte) (string, error) {
	switch event {
	case "issues.opened":
		var p github.IssuesOpenedPayload
		err := json.Unmarshal(data, &p)
		return fmt.Sprintf("issue #%d %q by %s, labels %v", p.Number, p.Title, p.Author.Login, p.Labels), err
	case "pull_request.opened":
		var p github.PullRequestOpenedPayload
		err := json.Unmarshal(data, &p)
		return fmt.Sprintf("pull request #%d %q, %s into %s, labels %v", p.Number, p.Title, p.Head, p.Base, p.Labels), err
	case "workflow_run.completed":
		var p github.WorkflowRunCompletedPayload
		err := json.Unmarshal(data, &p)
		return fmt.Sprintf("run %d of %q on %s, started by %s", p.RunID, p.Workflow, p.Branch, p.Trigger), err
	case "push":
		var p github.PushPayload
		err := json.Unmarshal(data, &p)
		return fmt.Sprintf("%s of %s moved from %.7s to %.7s", p.Ref, p.Repo, p.Before, p.After), err
	}
	return "", fmt.Errorf("no words for %s", event)
}

// post sends a webhook with GitHub's signature.
func post(ctx context.Context, url, file, event, id string) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-GitHub-Delivery", id)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: the server answered %s", file, resp.Status)
	}
	return nil
}
