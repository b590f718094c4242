package serverimpl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/serverimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
)

type arguments struct{}

type payload struct {
	N int `json:"n"`
}

func newServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "impl", Version: "1"}, nil), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// published is the file of a generated package whose event type has members beside its schemas, each followed by a
// comma.
func published(members string) *eventsimpl.Schemas {
	return eventsimpl.NewSchemas(`{"events":{"e":{"description":"E.","fingerprint":"f",` + members +
		`"inputSchema":{"type":"object"},"payloadSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9}}}}}}`)
}

func noHooks() serverimpl.Hooks {
	return serverimpl.NewHooks(&server.Hooks[arguments, payload]{})
}

// What generated code registers emits as what server.Register returns does, by the schemas of its file.
func TestRegister(t *testing.T) {
	e, err := serverimpl.Register(newServer(t), published(""), "e", nil, noHooks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Emit(t.Context(), &payload{N: 9}, nil); err != nil {
		t.Error(err)
	}
	if err := e.Emit(t.Context(), &payload{N: 10}, nil); !errors.Is(err, events.ErrInvalidPayload) {
		t.Error(err)
	}
}

// A package whose mcpe.schemas.json is damaged is refused when it registers, with the file's name and what to do.
func TestDamagedSchemas(t *testing.T) {
	schemas := eventsimpl.NewSchemas(`{"events":{"e":{"inputSchema":{"$defs":["Gone"]}}}}`)
	e, err := serverimpl.Register(newServer(t), schemas, "e", nil, noHooks(), nil)
	if e != nil || err == nil || !strings.HasPrefix(err.Error(), `registering event "e": mcpe.schemas.json is damaged (generate again): the inputSchema of e: `) {
		t.Errorf("registered with %v", err)
	}
}

type checker interface {
	Check(ctx context.Context, a arguments, cursor string) (events.Page[payload], error)
}

type found struct{}

func (found) Check(context.Context, arguments, string) (events.Page[payload], error) {
	return events.Page[payload]{Cursor: "c"}, nil
}

// SRV-1: the description says whether a type with a check has an emitter; a check that is nil is refused.
func TestRegisterCheck(t *testing.T) {
	for source, emits := range map[string]bool{"check": false, "both": true} {
		s, file := newServer(t), published(`"source":"`+source+`",`)
		e, err := serverimpl.Register(s, file, "e", serverimpl.NewCheck(checker(nil), checker.Check), noHooks(), nil)
		if e != nil || err == nil || !strings.Contains(err.Error(), "the check is nil") {
			t.Errorf("%s without a check: %v", source, err)
		}
		e, err = serverimpl.Register(s, file, "e", serverimpl.NewCheck(checker(found{}), checker.Check), noHooks(), nil)
		if err != nil || (e != nil) != emits {
			t.Errorf("%s: emitter %v, %v", source, e, err)
		}
	}
}

// OCC-7: a generated type with private members is registered with PerPrincipal, or in a process that delivers nothing.
func TestRegisterPrivate(t *testing.T) {
	file := published(`"private":[{"/salary":-1,"/people":1},{"*":2},{"/age":-1}],`)
	e, err := serverimpl.Register(newServer(t), file, "e", nil, noHooks(), nil)
	want := `registering event "e": its payload has the private members age, salary, but the hook PerPrincipal is nil: set it to decide who sees them`
	if e != nil || err == nil || err.Error() != want {
		t.Errorf("without PerPrincipal: %v", err)
	}
	hooks := serverimpl.NewHooks(&server.Hooks[arguments, payload]{
		PerPrincipal: func(_ context.Context, _ string, p *payload, _ *arguments) (*payload, error) { return p, nil }})
	if _, err := serverimpl.Register(newServer(t), file, "e", nil, hooks, nil); err != nil {
		t.Error(err)
	}
	worker, err := server.NewEmitOnly(server.Options{Store: memcluster.New().Open(), Replicas: replicas.New(replicas.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Shutdown(t.Context())
	if _, err := serverimpl.Register(worker, file, "e", nil, noHooks(), nil); err != nil {
		t.Error(err)
	}
}
