package golang

import "github.com/mcpe-gen/mcpe-gen/gen/ir"

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

func (w *writer) taskInfo(t *ir.Task) {
	fields := []string{"Name: " + text(t.Schema.Name)}
	if t.Schema.Title != "" {
		fields = append(fields, "Title: "+text(t.Schema.Title))
	}
	fields = append(fields, "Description: "+text(t.Schema.Description))
	if w.options.Server {
		fields = append(fields, "InputSchema: "+schemaOf(t, "inputSchema"),
			"UpdateSchema: "+schemaOf(t, "updateSchema"), "ResultSchema: "+schemaOf(t, "resultSchema"))
	}
	info := w.qual(taskPath, "Info")
	w.method(taskFunc(t)+"() "+info, "return "+info+lines(fields))
}

// taskTypes are the type arguments of everything about the task.
func taskTypes(t *ir.Task) string {
	return "[" + t.Arguments.Name + ", " + t.Update.Name + ", " + t.Result.Name + "]"
}

// typedTask is the description of the task with its Go types.
func (w *writer) typedTask(t *ir.Task) string {
	return w.qual(taskPath, "Type") + taskTypes(t) + "{Info: " + taskFunc(t) + "()}"
}

func (w *writer) taskServer(t *ir.Task) {
	x, name := t.Prefix, t.Schema.Name
	w.doc(paragraph([]string{x + "Task is a running task of " + name + "."}, textLines(t.Schema.Description)...)...)
	w.line("type ", x, "Task = ", w.qual(mcpcPath, "Task"), "[", t.Update.Name, "]")
	w.doc("Register" + x + "Task adds the tool " + name + " to a. Each call of the tool starts a task that runs f.")
	w.function("Register"+x+"Task(a *"+w.qual(mcpcPath, "Adapter")+", f "+w.qual(mcpcPath, "Func")+taskTypes(t)+") error",
		"return "+w.qual(mcpcPath, "RegisterTask")+"(a, "+w.typedTask(t)+", f)")
}

func (w *writer) taskClient(t *ir.Task) {
	x, name := t.Prefix, t.Schema.Name
	ctx, client := "ctx "+w.qual("context", "Context"), "c *"+w.qual(mcpcClientPath, "Client")
	w.doc("Call" + x + "Task calls the tool " + name + ".")
	w.function("Call"+x+"Task("+ctx+", "+client+", args "+t.Arguments.Name+") (*"+w.qual(mcpcClientPath, "Running")+"["+t.Result.Name+"], error)",
		"return "+w.qual(mcpcClientPath, "Call")+"(ctx, c, "+w.typedTask(t)+", args)")
	w.doc("Listen" + x + "Task calls l for the messages of " + name + "'s tasks, until stop is called.")
	w.function("Listen"+x+"Task("+client+", l "+w.qual(mcpcClientPath, "Listener")+"["+t.Update.Name+", "+t.Result.Name+"]) (stop func())",
		"return "+w.qual(mcpcClientPath, "Listen")+"(c, "+w.typedTask(t)+", l)")
}
