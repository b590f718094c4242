package source

// configCodes lists the codes for diagnostics about mcpe.yaml.
var configCodes = []Code{
	{ID: "MCPE400", Title: "unknown version of the configuration", Explanation: "`version: 1` is the only version of mcpe.yaml that this release reads. It is a number, " +
		"not a string."},
	{ID: "MCPE401", Title: "pattern without files", Explanation: "A pattern under schemas matches no file, or is malformed. Patterns are relative to the directory of " +
		"mcpe.yaml; * and ? match within one name, [a-z] one character, ** any number of directories (hidden ones left out)."},
	{ID: "MCPE402", Title: "bad type mapping", Explanation: "`types` maps a format of JSON Schema to a Go type, given by import path and name: " +
		"`uuid: github.com/google/uuid.UUID`. A type of the language has no path: `int-as-text: string`."},
	{ID: "MCPE403", Title: "two packages in one directory", Explanation: "Two packages of mcpe.yaml have the same `out`. A directory holds one Go package, and generation " +
		"removes what is not part of it, so each would delete the other. Give them different directories or join their schemas."},
	{ID: "MCPE404", Title: "unknown rule", Explanation: "The configuration gives a severity to a rule that lint does not have, for example `severity: {EVENT_NAME_STILE: note}`. " +
		"`mcpe-gen rules lint` lists the rules; they are written in capitals."},
	{ID: "MCPE405", Title: "bad mapping of a remote schema", Explanation: "`refs` maps the URLs of remote schemas to files, so generation needs no network: the URL of one schema to a " +
		"file, or a URL prefix to a directory, both ending in a slash. Paths are relative to the directory of mcpe.yaml."},
	{ID: "MCPE406", Title: "override without effect", Explanation: "An entry of `overrides` in mcpe.yaml changes one place in third-party schemas while they are read: `{file: " +
		"third/*.json, at: /definitions/user, x-go-name: Account}`, also with `replace: SCHEMA` or `remove: true`. This " +
		"one names a file that is not read, or a place that does not exist, most often because a new version of the " +
		"schemas has moved it. Correct the pattern or the JSON Pointer, or remove the override."},
	{ID: "MCPE407", Title: "invalid silence", Explanation: "`silence` in mcpe.yaml hides notes and warnings of one code in text output, with a reason for later readers: " +
		"`{code: MCPE204, files: third/**, reason: GitHub writes no bounds}`. This entry names no code of the generator, " +
		"or one whose diagnostics are errors, which are never silenced. For rules of lint use `lint: ignore`."},
	{ID: "MCPE408", Title: "bad import", Explanation: "`import` of a package in mcpe.yaml maps a file of schemas to the Go package that has its types: `{schemas/common.yaml: " +
		"example.com/shop/internal/common}`. This value is not an import path."},
	{ID: "MCPE409", Title: "setting without effect", Severity: Warning, Explanation: "An entry of mcpe.yaml names something that none of the files has that its packages read: `types` names a format, " +
		"`ignore` under `lint` a file or an event type, `silence` a file. Either the name is misspelled, or the thing has " +
		"been renamed or removed. Correct or remove the entry. Runs with FILE arguments do not report it, because they " +
		"read only some of the files."},
}
