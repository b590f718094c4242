package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A log is what the program writes, while it runs.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) url(t *testing.T) string {
	t.Helper()
	for range 500 {
		l.mu.Lock()
		url := regexp.MustCompile(`http://[0-9.:]+`).FindString(l.b.String())
		l.mu.Unlock()
		if url != "" {
			return url
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not start")
	return ""
}

// E5: with -tools a client that knows no events waits for a CI run of its branch, by the recipe for agents in
// docs/clients.md: a cursor, the push, then the wait. The run ends before the wait begins, and is not missed.
func TestAgentWaitsForCI(t *testing.T) {
	ctx := t.Context()
	o, err := parse([]string{"-http", "127.0.0.1:0", "-tools"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var out log
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, o, &out) }()
	t.Cleanup(func() { // after ctx has ended
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	url := out.url(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	wait := func(arguments string) (answer struct {
		Events []struct {
			Name string
			Data struct{ Conclusion, Branch string }
		}
		Cursor string
	}) {
		t.Helper()
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "events_wait", Arguments: json.RawMessage(arguments)})
		if err != nil || res.IsError {
			t.Fatalf("%v %+v", err, res)
		}
		if err := json.Unmarshal([]byte(res.Content[0].(*mcp.TextContent).Text), &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	body, err := os.ReadFile("testdata/workflow_run.completed.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		WorkflowRun struct {
			HeadBranch string `json:"head_branch"`
		} `json:"workflow_run"`
	}
	if err := json.Unmarshal(body, &sample); err != nil {
		t.Fatal(err)
	}
	branch := sample.WorkflowRun.HeadBranch
	list := `{"events":[{"name":"workflow_run.completed","arguments":{"branch":"` + branch + `"}},{"name":"issue_comment.created"}],"waitSeconds":`
	cursor := wait(list + `0}`).Cursor
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/github", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-GitHub-Event", "workflow_run")
	r.Header.Set("X-GitHub-Delivery", "d-1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatal(resp.Status)
	}
	got := wait(list + `50,"cursor":"` + cursor + `"}`)
	if len(got.Events) != 1 || got.Events[0].Name != "workflow_run.completed" || got.Events[0].Data.Branch != branch {
		t.Errorf("%+v", got)
	}
	tools, err := session.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 7 {
		t.Fatalf("%v %+v", err, tools)
	}
	for _, tool := range tools.Tools {
		if tool.Name == "events_wait" && !strings.Contains(tool.Description, "\n- workflow_run.completed: A run of a GitHub Actions workflow ended. Arguments: {") {
			t.Errorf("%s", tool.Description)
		}
	}
}
