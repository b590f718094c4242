package source

// importCodes lists the codes for diagnostics about imports and exports.
var importCodes = []Code{
	{ID: "MCPE501", Title: "event left out of the import", Severity: Warning, Explanation: "An event type of the server or document cannot be described by an event file " +
		"that generates: its name has other characters than ASCII letters and digits, '_', '.' and '-', or a schema is invalid, refers to other documents, or uses a keyword that has no type in " +
		"Go. The rest is imported, and a comment in the file repeats the reason. With --strict the import fails instead."},
	{ID: "MCPE502", Title: "event changed by the import", Severity: Warning, Explanation: "An event type was imported with a change, because the event file requires more than the server or document " +
		"declared: a description, or schemas that say `type: object`. Or a discriminator of OpenAPI or AsyncAPI has subtypes that no union can list, for " +
		"example without a mapping; then values of all subtypes have the type of the base. A server that is generated from the file advertises " +
		"the change, and a client reports it as drift."},
	{ID: "MCPE503", Title: "Go name chosen by the import", Severity: Note, Explanation: "Two names of the imported event types would become one Go identifier, such as `a-b` and `a_b`. The import gave the " +
		"second an x-go-name, which is not published; choose a better one."},
	{ID: "MCPE504", Title: "raw JSON chosen by the import", Severity: Note, Explanation: "A schema that allows any value, such as `{}`, has no Go type of its own. The import gave it " +
		"`x-go-type: encoding/json.RawMessage`, which is not published; choose a type where you know better."},
	{ID: "MCPE510", Title: "document that cannot be imported", Explanation: "The document is readable neither as AsyncAPI of version 2 or 3 nor as OpenAPI of version 3, or describes no events: AsyncAPI lists " +
		"channels, OpenAPI webhooks or callbacks. Convert older documents first."},
	{ID: "MCPE511", Title: "message left out of the import", Severity: Warning, Explanation: "A message of an AsyncAPI document, a webhook of an OpenAPI document or a file of a directory cannot become an event type: its payload is " +
		"missing, is not an object, is written in another schema language than JSON Schema, or refers to another document that cannot be read. References to files are followed; URLs need `refs` in mcpe.yaml."},
	{ID: "MCPE520", Title: "event type exported approximately", Severity: Note, Explanation: "AsyncAPI's schemas are those of JSON Schema draft-07. A keyword that draft-07 cannot express is left out of the " +
		"exported payload, which therefore allows more than the event file. A reader of AsyncAPI follows each $ref of the document: data and " +
		"unknown keywords with a member $ref are left out, and so is such a `_meta`. The exact entry is kept next to it in x-mcp-event."},
}
