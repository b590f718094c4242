package golang

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// ingress writes what takes the webhooks of a service in: a struct of emitters and the handler that it makes.
func (w *writer) ingress(in *ir.Ingress) {
	title := in.Provider.Title
	if !in.Provider.Eventless {
		title = "webhooks of " + title
	}
	w.doc(in.Name + " holds the emitters of the events that come from " + title + ". Each is required.")
	w.line("type ", in.Name, " struct {")
	args := []string{"s, o"}
	for _, e := range in.Events {
		w.line(e.Prefix, " *", e.Prefix, "Emitter")
		args = append(args, w.qual(ingressPath, "To")+"(in."+e.Prefix+", "+described(e)+", "+w.fromCode(e)+")")
	}
	w.line("}")
	w.doc("Handler receives " + title + ", which s verifies, and emits their events.")
	w.function("(in "+in.Name+") Handler(s "+w.qual(ingressPath, "Service")+", o "+w.qual(ingressPath, "Options")+") (*"+w.qual(ingressPath, "Handler")+", error)",
		"return "+w.qual(ingressPath, "NewHandler")+"(\n"+strings.Join(args, ",\n")+",\n)")
}

// fromCode is the `from:` of an event.
func (w *writer) fromCode(e *ir.Event) string {
	from := e.Schema.From
	members := []string{"Provider: " + text(from.Provider)}
	for _, m := range []struct{ name, value string }{{"Event", from.Event}, {"Action", from.Action}, {"ID", from.ID}} {
		if m.value != "" {
			members = append(members, m.name+": "+text(m.value))
		}
	}
	if len(from.Fields) > 0 {
		var list []string
		for _, f := range from.Fields {
			field := "Target: " + text(f.Target) + ", Source: " + text(f.Source)
			if f.Nullable {
				field += ", Nullable: true"
			}
			list = append(list, "{"+field+"}")
		}
		members = append(members, "Fields: []"+w.qual(ingressPath, "Field")+lines(list))
	}
	return w.qual(ingressPath, "From") + "{" + strings.Join(members, ", ") + "}"
}
