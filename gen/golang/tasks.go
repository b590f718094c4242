package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// task writes a tool that works in the background: its description, its types, and what servers and
// clients get.
func (w *writer) task(t *ir.Task) {
	if w.options.Server || w.options.Client {
		w.taskInfo(t)
	}
	for _, d := range t.Decls {
		w.decl(d)
	}
	if w.options.Server {
		w.taskServer(t)
	}
	if w.options.Client {
		w.taskClient(t)
	}
}

// taskFunc is the function that describes the task; see infoVar.
func taskFunc(t *ir.Task) string { return "task" + t.Prefix }

// taskTypes are the type arguments of everything about the task.
func taskTypes(t *ir.Task) []jen.Code {
	return []jen.Code{jen.Id(t.Arguments.Name), jen.Id(t.Update.Name), jen.Id(t.Result.Name)}
}

func (w *writer) taskInfo(t *ir.Task) {
	fields := []jen.Code{jen.Id("Name").Op(":").Add(text(t.Schema.Name))}
	if t.Schema.Title != "" {
		fields = append(fields, jen.Id("Title").Op(":").Add(text(t.Schema.Title)))
	}
	fields = append(fields, jen.Id("Description").Op(":").Add(text(t.Schema.Description)))
	if w.options.Server {
		fields = append(fields,
			jen.Id("InputSchema").Op(":").Add(schemaOf(t, "inputSchema")),
			jen.Id("UpdateSchema").Op(":").Add(schemaOf(t, "updateSchema")),
			jen.Id("ResultSchema").Op(":").Add(schemaOf(t, "resultSchema")))
	}
	w.add(jen.Func().Id(taskFunc(t)).Params().Qual(taskPath, "Info").Block(
		jen.Return(jen.Qual(taskPath, "Info").Add(lines(fields)))))
}

// typedTask is the description of the task with its Go types.
func typedTask(t *ir.Task) *jen.Statement {
	return jen.Qual(taskPath, "Type").Types(taskTypes(t)...).Values(jen.Id("Info").Op(":").Id(taskFunc(t)).Call())
}

func (w *writer) taskServer(t *ir.Task) {
	x, name := t.Prefix, t.Schema.Name
	doc := []string{x + "Task is a running task of " + name + "."}
	w.add(comment(paragraph(doc, textLines(t.Schema.Description)...)...),
		jen.Type().Id(x+"Task").Op("=").Qual(mcpcPath, "Task").Types(jen.Id(t.Update.Name)))
	w.add(comment("Register"+x+"Task adds the tool "+name+" to a, whose work f does."),
		jen.Func().Id("Register"+x+"Task").Params(
			jen.Id("a").Op("*").Qual(mcpcPath, "Adapter"),
			jen.Id("f").Qual(mcpcPath, "Func").Types(taskTypes(t)...),
		).Error().Block(
			jen.Return(jen.Qual(mcpcPath, "RegisterTask").Call(jen.Id("a"), typedTask(t), jen.Id("f")))))
}

func (w *writer) taskClient(t *ir.Task) {
	x, name := t.Prefix, t.Schema.Name
	client := func() *jen.Statement { return jen.Id("c").Op("*").Qual(mcpcClientPath, "Client") }
	w.add(comment("Call"+x+"Task calls the tool "+name+"."),
		jen.Func().Id("Call"+x+"Task").Params(
			jen.Id("ctx").Qual("context", "Context"), client(), jen.Id("args").Id(t.Arguments.Name),
		).Params(jen.Op("*").Qual(mcpcClientPath, "Running").Types(jen.Id(t.Result.Name)), jen.Error()).Block(
			jen.Return(jen.Qual(mcpcClientPath, "Call").Call(jen.Id("ctx"), jen.Id("c"), typedTask(t), jen.Id("args")))))
	w.add(comment("Listen"+x+"Task calls l for the messages of "+name+"'s tasks, until stop is called."),
		jen.Func().Id("Listen"+x+"Task").Params(
			client(), jen.Id("l").Qual(mcpcClientPath, "Listener").Types(jen.Id(t.Update.Name), jen.Id(t.Result.Name)),
		).Params(jen.Id("stop").Func().Params()).Block(
			jen.Return(jen.Qual(mcpcClientPath, "Listen").Call(jen.Id("c"), typedTask(t), jen.Id("l")))))
}
