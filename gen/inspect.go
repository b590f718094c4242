package gen

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

// A Model is what `mcpe-gen inspect` prints: what a package describes and its Go types.
type Model struct {
	Package string       `json:"package"`
	Events  []ModelEvent `json:"events"`
	// Tasks are the tools that work in the background; absent where there are none.
	Tasks []ModelTask `json:"tasks,omitempty"`
	// Conversation is the server's part in the conversation; absent where it has none.
	Conversation *ModelConversation `json:"conversation,omitempty"`
	Types        []ModelType        `json:"types"`
	// Overrides are the changes that the configuration makes to the schemas of others; absent where it
	// makes none.
	Overrides []ModelOverride `json:"overrides,omitempty"`
}

// A ModelOverride is one change of a [Model].
type ModelOverride struct {
	File string `json:"file"`
	// At is a JSON Pointer from the top of the file.
	At string `json:"at"`
	// Does is what is changed: remove, replace, x-go-name NAME, x-go-type TYPE.
	Does string `json:"does"`
	// Pos is file:line:col of the override.
	Pos string `json:"pos"`
}

// A ModelTask is one task of a [Model].
type ModelTask struct {
	Name   string   `json:"name"`
	Input  ModelRef `json:"input"`
	Update ModelRef `json:"update"`
	Result ModelRef `json:"result"`
	// Pos is file:line:col of the task's name.
	Pos string `json:"pos"`
}

// A ModelConversation is the conversation of a [Model].
type ModelConversation struct {
	OnUserMessage       bool `json:"onUserMessage"`
	OnAssistantResponse bool `json:"onAssistantResponse"`
	// Context is the type of the structured context; absent where it has memories alone.
	Context *ModelRef `json:"context,omitempty"`
	Pos     string    `json:"pos"`
}

// A ModelEvent is one event type of a [Model].
type ModelEvent struct {
	Name     string   `json:"name"`
	Source   string   `json:"source"`
	Delivery []string `json:"delivery"`
	Input    ModelRef `json:"input"`
	Payload  ModelRef `json:"payload"`
	// From says which webhooks of a service become occurrences; absent where none do.
	From *ModelFrom `json:"from,omitempty"`
	// Pos is file:line:col of the event's name.
	Pos string `json:"pos"`
}

// A ModelFrom is the `from:` of an event.
type ModelFrom struct {
	Provider string `json:"provider"`
	Event    string `json:"event,omitempty"`
	Action   string `json:"action,omitempty"`
	ID       string `json:"id,omitempty"`
	// Fields are in the order of the event file; absent where the body is the payload.
	Fields []ModelFromField `json:"fields,omitempty"`
}

// A ModelFromField says where a member of the payload comes from.
type ModelFromField struct {
	Target string `json:"target"`
	Source string `json:"source"`
}

// A ModelRef names a type of the generated package.
type ModelRef struct {
	// GoType is a bare identifier; json.Unmarshal into a new value of it reads the JSON.
	GoType string `json:"goType"`
}

// A ModelType is one declared Go type of a [Model].
type ModelType struct {
	Name string `json:"name"`
	// Form is alias, defined, struct, enum or union.
	Form string `json:"form"`
	// GoType is what an alias or defined type stands for.
	GoType   string       `json:"goType,omitempty"`
	Fields   []ModelField `json:"fields,omitempty"`
	Values   []ModelValue `json:"values,omitempty"`
	Tag      string       `json:"tag,omitempty"`
	Variants []ModelRef   `json:"variants,omitempty"`
	Pos      string       `json:"pos"`
}

// A ModelField is one member of a struct.
type ModelField struct {
	Name     string `json:"name"`
	GoName   string `json:"goName"`
	GoType   string `json:"goType"`
	Required bool   `json:"required"`
}

// A ModelValue is one constant of an enum.
type ModelValue struct {
	GoName string `json:"goName"`
	Value  any    `json:"value"`
}

var allModes = []string{"poll", "push", "webhook"}

// Inspect returns the model of the package that r describes; nil when a diagnostic is an error.
func Inspect(ctx context.Context, r Request) (*Model, []diagnostic.Diagnostic, error) {
	if len(r.Emit) == 0 {
		r.Emit = []string{"types"} // names of read tools are no concern of the model
	}
	m, diags, err := model(ctx, r)
	if m == nil {
		return nil, diags, err
	}
	out := &Model{Package: m.pkg.Name, Events: []ModelEvent{}, Types: []ModelType{}}
	for _, a := range m.set.Applied {
		out.Overrides = append(out.Overrides, ModelOverride{File: a.File, At: a.At, Does: a.Does(), Pos: a.Range.Start.String()})
	}
	for _, f := range m.pkg.Files {
		for _, e := range f.Events {
			modes := e.Schema.Delivery
			if len(modes) == 0 {
				modes = allModes
			}
			out.Events = append(out.Events, ModelEvent{From: modelFrom(e.Schema.From),
				Name: e.Schema.Name, Source: e.Schema.Source, Delivery: modes,
				Input: ModelRef{goType(e.Arguments)}, Payload: ModelRef{goType(e.Payload)},
				Pos: e.Schema.NameRange.Start.String(),
			})
			out.Types = append(out.Types, modelTypes(e.Decls)...)
		}
		for _, t := range f.Tasks {
			out.Tasks = append(out.Tasks, ModelTask{Name: t.Schema.Name, Input: ModelRef{goType(t.Arguments)}, Update: ModelRef{goType(t.Update)},
				Result: ModelRef{goType(t.Result)}, Pos: t.Schema.NameRange.Start.String()})
			out.Types = append(out.Types, modelTypes(t.Decls)...)
		}
		if c := f.Conversation; c != nil {
			out.Conversation = &ModelConversation{OnUserMessage: c.Schema.OnUserMessage, OnAssistantResponse: c.Schema.OnAssistantResponse, Pos: c.Schema.Range.Start.String()}
			if c.Context != nil {
				out.Conversation.Context = &ModelRef{goType(c.Context)}
			}
			out.Types = append(out.Types, modelTypes(c.Decls)...)
		}
		out.Types = append(out.Types, modelTypes(f.Decls)...)
	}
	return out, diags, ctx.Err()
}

func modelFrom(f *schema.From) *ModelFrom {
	if f == nil {
		return nil
	}
	out := &ModelFrom{Provider: f.Provider, Event: f.Event, Action: f.Action, ID: f.ID}
	for _, field := range f.Fields {
		out.Fields = append(out.Fields, ModelFromField{field.Target, field.Source})
	}
	return out
}

// goType is the name under which a root is known: that of the schema that its $ref names, else its
// own.
func goType(d *ir.Decl) string {
	if d.Form == ir.Alias && d.Type.Kind == ir.Named {
		return d.Type.Decl.Name
	}
	return d.Name
}

func modelTypes(decls []*ir.Decl) []ModelType {
	var types []ModelType
	for _, d := range decls {
		t := ModelType{Name: d.Name, Form: d.Form.String(), Tag: d.Tag, Pos: d.At.Start.String()}
		if d.Type != nil {
			t.GoType = d.Type.String()
		}
		for _, f := range d.Fields {
			t.Fields = append(t.Fields, ModelField{Name: f.JSON, GoName: f.Name, GoType: f.Type.String(), Required: f.Required})
		}
		for _, v := range d.Values {
			t.Values = append(t.Values, ModelValue{GoName: v.Name, Value: v.JSON})
		}
		for _, v := range d.Variants {
			t.Variants = append(t.Variants, ModelRef{v.Decl.Name})
		}
		types = append(types, t)
	}
	return types
}
