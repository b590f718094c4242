package behaviour

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	memory "github.com/mcpe-gen/mcpe-gen/golden/conversation/want"
	"github.com/mcpe-gen/mcpe-gen/golden/conversation/want/memoryclient"
	"github.com/mcpe-gen/mcpe-gen/golden/conversation/want/memoryserver"
	reports "github.com/mcpe-gen/mcpe-gen/golden/tasks/want"
	"github.com/mcpe-gen/mcpe-gen/golden/tasks/want/reportsclient"
	"github.com/mcpe-gen/mcpe-gen/golden/tasks/want/reportsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// assistant has a generated task and a generated part in the conversation.
type assistant struct{}

func (assistant) OnUserMessage(_ context.Context, m conversation.Message) (memoryserver.ConversationAnswer, error) {
	return memoryserver.ConversationAnswer{Structured: &memory.ConversationContext{
		Topic:    memory.ConversationContextTopicWork,
		People:   []string{"Ann"},
		Memories: []memory.ConversationContextMemoriesItem{{Content: m.Content, Relevance: 0.5}},
	}}, nil
}

func (assistant) OnAssistantResponse(context.Context, conversation.Message) (memoryserver.ConversationAnswer, error) {
	return memoryserver.ConversationAnswer{}, nil
}

func writeReport(_ context.Context, args reports.WriteReportTaskArguments, t *reportsserver.WriteReportTask) (reports.WriteReportTaskResult, error) {
	if args.Team.Name == "" {
		return reports.WriteReportTaskResult{}, mcpc.Fail("Which team?", nil)
	}
	for _, u := range []reports.WriteReportTaskUpdateVariant{&reports.WriteReportTaskUpdateProgress{Percent: 50}, &reports.WriteReportTaskUpdateNote{Text: "almost"}} {
		if err := t.Update(reports.WriteReportTaskUpdate{Value: u}); err != nil {
			return reports.WriteReportTaskResult{}, err
		}
	}
	pages := args.DepthOrDefault() * 10
	return reports.WriteReportTaskResult{URL: "https://example.com/" + args.Team.Name, Pages: &pages}, nil
}

func start(t *testing.T) mcp.Transport {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := mcpc.New(es, mcpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reportsserver.RegisterWriteReportTask(a, writeReport); err != nil {
		t.Fatal(err)
	}
	if err := reportsserver.RegisterWatchTask(a, func(ctx context.Context, args reports.WatchTaskArguments, t *reportsserver.WatchTask) (reports.WatchTaskResult, error) {
		return args, t.Update("watching " + args.Name)
	}); err != nil {
		t.Fatal(err)
	}
	if err := memoryserver.RegisterConversation(es, assistant{}, conversation.Options{}); err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = transport.Run(ctx, es, near)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := a.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return far
}

// MCPC-SRV-1, MCPC-CLI-1: a task from the event file to the client's typed listener.
func TestGeneratedTask(t *testing.T) {
	c, err := mcpcclient.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil), start(t), mcpcclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Shutdown(context.Background())
	var heard []string
	stop := reportsclient.ListenWriteReportTask(c, mcpcclient.Listener[reports.WriteReportTaskUpdate, reports.WriteReportTaskResult]{
		Created: func(context.Context, task.Message) { heard = append(heard, "created") },
		Update: func(_ context.Context, _ task.Message, u reports.WriteReportTaskUpdate) {
			switch u := u.Value.(type) {
			case *reports.WriteReportTaskUpdateProgress:
				heard = append(heard, "progress")
			case *reports.WriteReportTaskUpdateNote:
				heard = append(heard, u.Text)
			}
		},
		Complete: func(_ context.Context, _ task.Message, r reports.WriteReportTaskResult) { heard = append(heard, r.URL) },
		Failed:   func(_ context.Context, _ task.Message, message string) { heard = append(heard, message) },
		Invalid:  func(_ context.Context, _ task.Message, err error) { t.Error(err) },
	})
	running, err := reportsclient.CallWriteReportTask(t.Context(), c, reports.WriteReportTaskArguments{Team: reports.Team{Name: "ops"}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := running.Wait(t.Context())
	if err != nil || result.URL != "https://example.com/ops" || result.Pages == nil || *result.Pages != 20 {
		t.Fatalf("%+v, %v", result, err)
	}
	if want := []string{"created", "progress", "almost", "https://example.com/ops"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	if running, err = reportsclient.CallWriteReportTask(t.Context(), c, reports.WriteReportTaskArguments{}); err != nil {
		t.Fatal(err)
	}
	var failed *mcpcclient.FailedError
	if _, err := running.Wait(t.Context()); !errors.As(err, &failed) || failed.Message != "Which team?" {
		t.Errorf("failed: %v", err)
	}
	stop()
	watching, err := reportsclient.CallWatchTask(t.Context(), c, reports.Team{Name: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	if team, err := watching.Wait(t.Context()); err != nil || team.Name != "ops" {
		t.Errorf("%+v, %v", team, err)
	}
}

// CONV-7: the typed handler's answer reaches the hub and is decoded into the same type.
func TestGeneratedConversation(t *testing.T) {
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	if err := conversation.Install(client); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), start(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	consents := conversation.NewConsents()
	if err := consents.Grant(t.Context(), conversation.Consent{Server: "s"}); err != nil {
		t.Fatal(err)
	}
	hub := conversation.NewHub(conversation.HubOptions{Consents: consents})
	if err := hub.Add("s", session, conversation.ServerOptions{}); err != nil {
		t.Fatal(err)
	}
	in, err := hub.UserMessage(t.Context(), conversation.Message{MessageID: "1", Content: "hello"})
	if err != nil || len(in.Contributions) != 1 {
		t.Fatalf("%+v, %v", in, err)
	}
	got, err := memoryclient.DecodeConversation(in.Contributions[0])
	if err != nil || got == nil || got.Topic != memory.ConversationContextTopicWork || len(got.Memories) != 1 || got.Memories[0].Content != "hello" {
		b, _ := json.Marshal(got)
		t.Errorf("%s, %v", b, err)
	}
}
