package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareTask declares the description, the types, and the server and client API of a background tool.
func (f *file) declareTask(t *ir.Task) {
	if f.options.Server || f.options.Client {
		f.declareTaskInfo(t)
	}
	for _, d := range t.Decls {
		f.declareType(d)
	}
	if f.options.Server {
		f.declareTaskServer(t)
	}
	if f.options.Client {
		f.declareTaskClient(t)
	}
}

// taskFunc returns the name of the function that returns the task description.
func taskFunc(t *ir.Task) string { return "task" + t.Prefix }

// declareTaskInfo declares the function that returns the task description.
func (f *file) declareTaskInfo(t *ir.Task) {
	fields := []jen.Code{keyedElement("Name", stringLiteral(t.Schema.Name))}
	if t.Schema.Title != "" {
		fields = append(fields, keyedElement("Title", stringLiteral(t.Schema.Title)))
	}
	fields = append(fields, keyedElement("Description", stringLiteral(t.Schema.Description)))
	if f.options.Server {
		fields = append(fields, keyedElement("InputSchema", schemaOf(t, "inputSchema")),
			keyedElement("UpdateSchema", schemaOf(t, "updateSchema")), keyedElement("ResultSchema", schemaOf(t, "resultSchema")))
	}
	info := jen.Qual(taskPath, "Info")
	f.Line()
	f.Func().Id(taskFunc(t)).Params().Add(info).Block(jen.Return(jen.Add(info, multiline(fields...))))
}

// taskTypes returns the type arguments of the task's generic functions.
func taskTypes(t *ir.Task) []jen.Code {
	return []jen.Code{jen.Id(t.Arguments.Name), jen.Id(t.Update.Name), jen.Id(t.Result.Name)}
}

// typedTask returns the typed description of the task as code.
func typedTask(t *ir.Task) *jen.Statement {
	return jen.Qual(taskPath, "Type").Types(taskTypes(t)...).Values(keyedElement("Info", jen.Id(taskFunc(t)).Call()))
}

// declareTaskServer declares the type of a running task and its registration function.
func (f *file) declareTaskServer(t *ir.Task) {
	name := t.Prefix + "Task"
	f.addDoc(paragraph([]string{name + " is a running task of " + t.Schema.Name + "."}, textLines(t.Schema.Description)...)...)
	f.Type().Id(name).Op("=").Qual(mcpcPath, "Task").Types(jen.Id(t.Update.Name))

	register := "Register" + name
	f.addDoc(register + " adds the tool " + t.Schema.Name + " to a. Each call of the tool starts a task that runs f.")
	f.Func().Id(register).Params(
		jen.Id("a").Op("*").Qual(mcpcPath, "Adapter"), jen.Id("f").Qual(mcpcPath, "Func").Types(taskTypes(t)...),
	).Error().Block(
		jen.Return(jen.Qual(mcpcPath, "RegisterTask").Call(jen.Id("a"), typedTask(t), jen.Id("f"))),
	)
}

// declareTaskClient declares the functions that call the task and listen for its messages.
func (f *file) declareTaskClient(t *ir.Task) {
	client := jen.Id("c").Op("*").Qual(mcpcClientPath, "Client")

	call := "Call" + t.Prefix + "Task"
	f.addDoc(call + " calls the tool " + t.Schema.Name + ".")
	f.Func().Id(call).Params(ctxParam(), client, jen.Id("args").Id(t.Arguments.Name)).Params(
		jen.Op("*").Qual(mcpcClientPath, "Running").Types(jen.Id(t.Result.Name)), jen.Error(),
	).Block(
		jen.Return(jen.Qual(mcpcClientPath, "Call").Call(jen.Id("ctx"), jen.Id("c"), typedTask(t), jen.Id("args"))),
	)

	listen := "Listen" + t.Prefix + "Task"
	f.addDoc(listen + " calls l for the messages of " + t.Schema.Name + "'s tasks, until stop is called.")
	f.Func().Id(listen).Params(
		client, jen.Id("l").Qual(mcpcClientPath, "Listener").Types(jen.Id(t.Update.Name), jen.Id(t.Result.Name)),
	).Params(jen.Id("stop").Func().Params()).Block(
		jen.Return(jen.Qual(mcpcClientPath, "Listen").Call(jen.Id("c"), typedTask(t), jen.Id("l"))),
	)
}
