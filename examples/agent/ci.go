package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/ci"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/ci/ciserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A ciServer is a small CI system: an MCP server over HTTP with the event type run.completed and the tool rerun_job.
type ciServer struct {
	url     string
	es      *server.Server
	web     *http.Server
	emitter *ciserver.RunCompletedEmitter

	mu      sync.Mutex
	runs    map[string]ci.RunCompletedPayload
	started []ci.RunCompletedPayload // started by rerun_job
}

// startCI starts a server on a free port of the loopback interface.
func startCI(log *slog.Logger) (*ciServer, error) {
	s := &ciServer{runs: map[string]ci.RunCompletedPayload{}}
	srv := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "0.1.0"}, nil)
	var err error
	if s.es, err = server.New(srv, server.Options{Logger: log}); err != nil {
		return nil, err
	}
	if s.emitter, err = ciserver.RegisterRunCompleted(s.es, ciserver.RunCompletedHooks{}); err != nil {
		return nil, err
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "rerun_job", Description: "Run the job of a failed run again."}, s.rerun)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + ln.Addr().String() + "/mcp"
	mux := http.NewServeMux()
	mux.Handle("/mcp", transport.NewHandler(s.es, transport.HandlerOptions{}))
	s.web = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go s.web.Serve(ln)
	return s, nil
}

// close first shuts down the event server, so that no open stream delays closing the listener.
func (s *ciServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(s.es.Shutdown(ctx), s.web.Shutdown(ctx))
}

// complete completes a run and emits its event.
func (s *ciServer) complete(ctx context.Context, r ci.RunCompletedPayload) error {
	s.mu.Lock()
	s.runs[r.RunID] = r
	s.mu.Unlock()
	return s.emitter.Emit(ctx, r)
}

// finish completes the runs started by rerun_job.
func (s *ciServer) finish(ctx context.Context) error {
	s.mu.Lock()
	started := s.started
	s.started = nil
	s.mu.Unlock()
	for _, r := range started {
		if err := s.complete(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// rerunInput is the input of rerun_job.
type rerunInput struct {
	RunID string `json:"runId" jsonschema:"id of the failed run"`
}

// rerun implements rerun_job. The new run of the job will succeed.
func (s *ciServer) rerun(_ context.Context, _ *mcp.CallToolRequest, in rerunInput) (*mcp.CallToolResult, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runs[in.RunID]
	if !ok || r.Conclusion != ci.RunCompletedPayloadConclusionFailure {
		return nil, nil, fmt.Errorf("runId: %q is not a failed run", in.RunID)
	}
	r.RunID += "-again"
	r.Conclusion = ci.RunCompletedPayloadConclusionSuccess
	s.started = append(s.started, r)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "started " + r.RunID}}}, nil, nil
}
