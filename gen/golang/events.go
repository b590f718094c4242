package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// sources and operators name the constants of package events; the defaults need none.
var (
	sources   = map[string]string{"check": "SourceCheck", "both": "SourceBoth"}
	operators = map[string]string{
		"in": "MatchIn", "glob": "MatchGlob", "prefix": "MatchPrefix", "min": "MatchMin", "max": "MatchMax",
	}
)

// event writes an event type: its description, its types, and what servers, clients and tools get.
func (w *writer) event(e *ir.Event) {
	if e.NameConst != "" {
		w.add(comment(e.NameConst+" is the name of the event type."), jen.Const().Id(e.NameConst).Op("=").Add(text(e.Schema.Name)))
	}
	if w.options.described() {
		w.info(e)
	}
	for _, d := range e.Decls {
		w.decl(d)
	}
	if w.options.Server {
		w.server(e)
	}
	if w.options.Client {
		w.subscribe(e)
	}
}

// infoVar is the variable that describes the event type, but for its schemas; its first word keeps it off
// keywords and imports.
func infoVar(e *ir.Event) string { return "event" + e.Prefix }

// described is the description of the event type with its schemas, which are read when it is evaluated.
func described(e *ir.Event) *jen.Statement {
	return jen.Id(schemasVar).Dot("Describe").Call(jen.Op("&").Id(infoVar(e)))
}

func (w *writer) info(e *ir.Event) {
	s := e.Schema
	fields := []jen.Code{
		jen.Id("Name").Op(":").Add(nameCode(e)),
		jen.Id("Description").Op(":").Add(text(s.Description)),
	}
	if len(s.Delivery) > 0 {
		var modes []jen.Code
		for _, m := range s.Delivery {
			modes = append(modes, text(m))
		}
		fields = append(fields, jen.Id("Delivery").Op(":").Index().String().Values(modes...))
	}
	fields = append(fields, jen.Id("Fingerprint").Op(":").Add(text(e.Fingerprint)))
	if s.Meta != nil && len(s.Meta.Members) > 0 {
		fields = append(fields, jen.Id("Meta").Op(":").Add(metaCode(s.Meta)))
	}
	if c := sources[s.Source]; c != "" {
		fields = append(fields, jen.Id("Source").Op(":").Qual(eventsPath, c))
	}
	if !s.Replay {
		fields = append(fields, jen.Id("NoReplay").Op(":").True())
	}
	if len(s.Match) > 0 {
		fields = append(fields, jen.Id("Match").Op(":").Add(matchCode(s.Match)))
	}
	if s.MCPE != nil {
		fields = append(fields, jen.Id("MCPE").Op(":").Add(mcpeCode(s.MCPE)))
	}
	// A variable of constants is data, of which the compiler makes no function.
	w.add(jen.Var().Id(infoVar(e)).Op("=").Qual(eventsPath, "Info").Add(lines(fields)))
}

// nameCode is the name of the event type, by its constant if there is one.
func nameCode(e *ir.Event) *jen.Statement {
	if e.NameConst != "" {
		return jen.Id(e.NameConst)
	}
	return text(e.Schema.Name)
}

// typed is the description of the event type with its Go types.
func typed(e *ir.Event) *jen.Statement {
	return jen.Qual(eventsPath, "Type").Types(jen.Id(e.Arguments.Name), jen.Id(e.Payload.Name)).Values(
		jen.Id("Info").Op(":").Add(described(e)))
}

// metaCode keeps the author's _meta exact: each value as the JSON that was written.
func metaCode(meta *source.Node) *jen.Statement {
	var items []jen.Code
	for _, m := range meta.Members {
		items = append(items, text(m.Key).Op(":").Add(rawJSON(m.Value.JSON())))
	}
	return jen.Map(jen.String()).Any().Add(lines(items))
}

// mcpeCode leaves out what is the default.
func mcpeCode(m *schema.MCPE) *jen.Statement {
	var fields []jen.Code
	if !m.Enabled {
		fields = append(fields, jen.Id("Disabled").Op(":").True())
	}
	if m.Priority != "" && m.Priority != "normal" {
		fields = append(fields, jen.Id("Priority").Op(":").Add(text(m.Priority)))
	}
	if len(m.Tags) > 0 {
		var tags []jen.Code
		for _, t := range m.Tags {
			tags = append(tags, text(t))
		}
		fields = append(fields, jen.Id("Tags").Op(":").Index().String().Values(tags...))
	}
	return jen.Op("&").Qual(eventsPath, "MCPE").Values(fields...)
}

func matchCode(rules []schema.MatchRule) *jen.Statement {
	var items []jen.Code
	for _, r := range rules {
		fields := []jen.Code{jen.Id("Argument").Op(":").Add(text(r.Argument)), jen.Id("Path").Op(":").Add(text(r.Path))}
		if op := operators[r.Op]; op != "" {
			fields = append(fields, jen.Id("Op").Op(":").Qual(eventsPath, op))
		}
		items = append(items, jen.Values(fields...))
	}
	list := jen.Index().Qual(eventsPath, "MatchRule")
	if len(items) == 1 {
		return list.Values(items...)
	}
	return list.Add(lines(items))
}

// eventDoc appends the event's stability and deprecation to the comment of a function. Only
// clients are told with Go's own marker: servers go on offering the type until it is removed.
func eventDoc(s *schema.Event, marker, first string) jen.Code {
	lines := []string{first}
	if s.Stability == "experimental" {
		lines = paragraph(lines, "The event type is experimental: it may change or go away.")
	}
	if d := s.Deprecated; d != nil {
		why := "the event type is going away"
		if d.ReplacedBy != "" {
			why = "use " + d.ReplacedBy
		}
		if d.RemoveAfter != "" {
			why += "; it is removed after " + d.RemoveAfter
		}
		lines = paragraph(lines, marker+oneLine(why)+".")
	}
	return comment(lines...)
}
