package mcpc_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func serverQuiet() server.Options { return server.Options{Logger: quiet} }

// MCPC-INIT-1: the check tool answers under the names of all releases and is listed only when wanted,
// under the documented one.
func TestCheckTools(t *testing.T) {
	for _, listed := range []bool{false, true} {
		bubble(t, mcpc.Options{ListCheckTool: listed, Provider: "reports"}, nil, func(g *rig) {
			p := g.dial(legacy)
			for tool, want := range map[string]string{
				"is_mcpc_enabled":  `{"mcpc_enabled":true,"mcpc_version":"0.2.6","mcpc_provider":"reports","mcpc_direct_updates":true}`,
				"_is_mcpc_enabled": `{"mcpc_enabled":true,"mcpc_version":"0.2.6","mcpc_provider":"reports","mcpc_direct_updates":true}`,
				"_mcpc_init":       `{"mcpc_enabled":true,"mcpc_version":"0.2.6","mcpc_provider":"reports"}`,
			} {
				args := `{}`
				if tool == "_mcpc_init" {
					args = `{"mcpc_info":{"mcpc_version":"0.2.6"}}`
				}
				if r := p.Call(tool, args); text(r) != want || r.IsError || r.Content[0].Type != "text" {
					t.Errorf("%s: %+v", tool, r)
				}
			}
			list := string(p.RPC("tools/list", `{}`).Result)
			if strings.Contains(list, `"is_mcpc_enabled"`) != listed || strings.Contains(list, "_mcpc_init") || strings.Contains(list, `"_is_mcpc`) {
				t.Errorf("listed %v: %s", listed, list)
			}
		})
	}
}

// MCPC-SRV-2: a session that has called a check tool speaks MCPC, also in calls without metadata.
func TestProbedSession(t *testing.T) {
	for _, version := range eras {
		bubble(t, mcpc.Options{}, nil, func(g *rig) {
			p := g.dial(version)
			p.Call("is_mcpc_enabled", `{}`)
			m := messages(t, p.Call("count", `{"steps":0}`))[0]
			if m.Event != "created" || m.SessionID != "default" || m.TaskID == "" {
				t.Errorf("%+v", m)
			}
			equal(t, version, p.heard(), m.TaskID+` complete {"total":0}`)
		})
	}
}

// A type that could not be served is an error at registration, not a panic.
func TestBadTypes(t *testing.T) {
	g := newRig(t, serverQuiet(), mcpc.Options{}, nil)
	defer g.stop()
	for want, change := range map[string]func(*task.Info){
		"no name":         func(i *task.Info) { i.Name = "" },
		"belongs to MCPC": func(i *task.Info) { i.Name = "_mcpc_init" },
		"mcpc_params": func(i *task.Info) {
			i.InputSchema = json.RawMessage(`{"type":"object","properties":{"mcpc_params":{}}}`)
		},
		"_metadata":    func(i *task.Info) { i.InputSchema = json.RawMessage(`{"type":"object","properties":{"_metadata":{}}}`) },
		"resultSchema": func(i *task.Info) { i.ResultSchema = json.RawMessage(`{"type":"string"}`) },
		"updateSchema": func(i *task.Info) { i.UpdateSchema = json.RawMessage(`{"type":`) },
		"inputSchema":  func(i *task.Info) { i.InputSchema = nil },
	} {
		bad := count
		change(&bad.Info)
		if err := mcpc.RegisterTask(g.a, bad, counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := mcpc.RegisterTask[arguments, update, result](g.a, count, nil); err == nil {
		t.Error("no function was accepted")
	}
	if _, err := mcpc.New(nil, mcpc.Options{}); err == nil {
		t.Error("no server was accepted")
	}
}

// MCPC-OUT-1: nothing changes a running task, no message asks the user, and the documentation says so.
func TestNotInTheProtocol(t *testing.T) {
	if doc, err := os.ReadFile("mcpc.go"); err != nil || !strings.Contains(string(doc), "a wire format for them, so this package does not support them") {
		t.Errorf("the package comment is silent: %v", err)
	}
	for _, event := range []string{"question", "input_required", "change"} {
		m := task.Message{Type: "task", Event: event, SessionID: "s", TaskID: "t", ToolName: "n"}
		if m.Check() == nil {
			t.Errorf("a task may say %q", event)
		}
	}
	bubble(t, mcpc.Options{}, func(ctx context.Context, _ arguments, _ *mcpc.Task[update]) (result, error) {
		<-ctx.Done()
		return result{}, ctx.Err()
	}, func(g *rig) {
		p := g.dial(legacy)
		p.Call("count", withTask(1, "t"))
		if r := p.Call("count", withTask(2, "t")); !r.IsError || len(g.a.Tasks()) != 1 {
			t.Errorf("a second call for a running task: %+v", r)
		}
	})
}
