package source

// fileCodes lists the codes for diagnostics about keys in event files and the configuration.
var fileCodes = []Code{
	{ID: "MCPE120", Title: "unknown key", Explanation: "The keys of an event file and of mcpe.yaml are fixed, so a misspelt key is an error: for `descripton:` the hint " +
		"suggests `description`. You may add your own keywords only within inputSchema, payloadSchema and schemas. Put " +
		"your own data about an event into its `_meta`."},
	{ID: "MCPE121", Title: "value of the wrong type", Explanation: "A key has a value of the wrong type, for example `replay: yes`: in YAML 1.2 yes is a string, and a boolean is " +
		"written true or false. Quote a name that looks like a number or a boolean."},
	{ID: "MCPE122", Title: "missing key", Explanation: "A required key is missing. An event file needs version; an event needs name, description, inputSchema and " +
		"payloadSchema; for an event without arguments write `inputSchema: {type: object}`."},
	{ID: "MCPE123", Title: "value not allowed", Explanation: "A key has the right type but an invalid value, for example `source: emitt`, a date 2027-02-30, or a delivery " +
		"mode that is named twice. The hint lists the allowed values."},
	{ID: "MCPE124", Title: "name not allowed", Explanation: "Names of events and schemas consist of ASCII letters and digits, '_', '.' and '-' and have at most 128 " +
		"characters. The package is a Go identifier, x-go-name an exported one, x-go-type an import path and a type " +
		"(github.com/google/uuid.UUID), x-tool-name 1 to 64 ASCII letters and digits, '_' and '-'."},
	{ID: "MCPE125", Title: "event described twice", Explanation: "Two events of the files that are generated together have the same name; clients could not tell " +
		"them apart. Both places are shown: rename or remove one. The files reached by $ref count too."},
	{ID: "MCPE126", Title: "unknown replacement", Severity: Note, Explanation: "`deprecated: {replacedBy: NAME}` names an event that none of the event files has that are " +
		"generated together. Generated code and documentation send readers to this name. Correct it, unless another package has the event."},
	{ID: "MCPE127", Title: "unknown version of the event file", Explanation: "`version: 1` is the only version of the event file that this release reads. It is a " +
		"number, not a string. A file of a later version needs a later release of mcpe-gen."},
}
