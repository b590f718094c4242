package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareTask declares the description and the types of a background tool.
func (f *file) declareTask(t *ir.Task) {
	fields := []jen.Code{keyedElement("Name", stringLiteral(t.Schema.Name))}
	if t.Schema.Title != "" {
		fields = append(fields, keyedElement("Title", stringLiteral(t.Schema.Title)))
	}
	fields = append(fields, keyedElement("Description", stringLiteral(t.Schema.Description)))
	name, info := taskInfo(t), jen.Qual(taskPath, "Info")
	f.addDoc(name + " describes the tool " + t.Schema.Name + " without its schemas, which only servers need.")
	f.Func().Id(name).Params().Add(info).Block(jen.Return(jen.Add(info, multiline(fields...))))
	f.declareTypes(t.Decls)
}

// taskInfo returns the name of the function that returns the task description.
func taskInfo(t *ir.Task) string { return t.Prefix + "TaskInfo" }

// taskTypes returns the type arguments of the task's generic functions.
func (f *file) taskTypes(t *ir.Task) []jen.Code {
	return []jen.Code{f.declared(t.Arguments.Name), f.declared(t.Update.Name), f.declared(t.Result.Name)}
}

// typedTask returns the typed description of the task as code.
func (f *file) typedTask(t *ir.Task, info jen.Code) *jen.Statement {
	return jen.Qual(taskPath, "Type").Types(f.taskTypes(t)...).Values(keyedElement("Info", info))
}

// declareTaskServer declares the type of a running task and its registration function.
func (f *file) declareTaskServer(t *ir.Task) {
	name := t.Prefix + "Task"
	f.addDoc(paragraph([]string{name + " is a running task of " + t.Schema.Name + "."}, textLines(t.Schema.Description)...)...)
	f.Type().Id(name).Op("=").Qual(mcpcPath, "Task").Types(f.declared(t.Update.Name))

	register, info := "Register"+name, jen.Id("info")
	body := []jen.Code{jen.Add(info).Op(":=").Add(f.declared(taskInfo(t))).Call()}
	for _, s := range []struct{ field, member string }{{"InputSchema", "inputSchema"}, {"UpdateSchema", "updateSchema"}, {"ResultSchema", "resultSchema"}} {
		body = append(body, jen.Add(info).Dot(s.field).Op("=").Add(schemaOf(t, s.member)))
	}
	f.addDoc(register + " adds the tool " + t.Schema.Name + " to a. Each call of the tool starts a task that runs f.")
	f.Func().Id(register).Params(
		jen.Id("a").Op("*").Qual(mcpcPath, "Adapter"), jen.Id("f").Qual(mcpcPath, "Func").Types(f.taskTypes(t)...),
	).Error().Block(
		append(body, jen.Return(jen.Qual(mcpcPath, "RegisterTask").Call(jen.Id("a"), f.typedTask(t, info), jen.Id("f"))))...,
	)
}

// declareTaskClient declares the functions that call the task and listen for its messages.
func (f *file) declareTaskClient(t *ir.Task) {
	client := jen.Id("c").Op("*").Qual(mcpcClientPath, "Client")
	task := f.typedTask(t, f.declared(taskInfo(t)).Call())

	call := "Call" + t.Prefix + "Task"
	f.addDoc(call + " calls the tool " + t.Schema.Name + ".")
	f.Func().Id(call).Params(ctxParam(), client, jen.Id("args").Add(f.declared(t.Arguments.Name))).Params(
		jen.Op("*").Qual(mcpcClientPath, "Running").Types(f.declared(t.Result.Name)), jen.Error(),
	).Block(
		jen.Return(jen.Qual(mcpcClientPath, "Call").Call(jen.Id("ctx"), jen.Id("c"), task, jen.Id("args"))),
	)

	listen := "Listen" + t.Prefix + "Task"
	f.addDoc(listen + " calls l for the messages of " + t.Schema.Name + "'s tasks, until stop is called.")
	f.Func().Id(listen).Params(
		client, jen.Id("l").Qual(mcpcClientPath, "Listener").Types(f.declared(t.Update.Name), f.declared(t.Result.Name)),
	).Params(jen.Id("stop").Func().Params()).Block(
		jen.Return(jen.Qual(mcpcClientPath, "Listen").Call(jen.Id("c"), task, jen.Id("l"))),
	)
}
