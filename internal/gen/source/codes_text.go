package source

// textCodes lists the codes for diagnostics about the syntax of files.
var textCodes = []Code{
	{ID: "MCPE100", Title: "file cannot be read", Explanation: "The file named on the command line, in mcpe.yaml or in a $ref " +
		"does not exist or may not be read. Paths on the command line are relative to the working directory (or to -C), those of " +
		"mcpe.yaml to its own directory. Correct the path or the permissions."},
	{ID: "MCPE101", Title: "not YAML", Explanation: "The text is not valid YAML 1.2, and therefore not valid JSON. Frequent causes are an unclosed bracket or quote, " +
		"a colon followed by a space within an unquoted string (`description: Note: new` is written `description: \"Note: " +
		"new\"`), a tab in the indentation, and lines that are indented differently from their siblings. The column is " +
		"omitted if the parser does not know it."},
	{ID: "MCPE102", Title: "character not allowed", Explanation: "The file is not UTF-8, or holds half of a surrogate pair or a character that its " +
		"format does not allow: U+0000 to U+001F in strings of JSON; in YAML also U+007F to U+009F, U+FFFE, U+FFFF, and U+FEFF outside of quotes. " +
		"Save the file as UTF-8 without them; within a double-quoted string such a character is written as an escape such as \\u0007."},
	{ID: "MCPE103", Title: "key given twice", Explanation: "An object has two members of the same name, for example two `properties:` in one " +
		"schema. Parsers disagree about which of them counts, so neither does. Both places are shown: merge them or remove one."},
	{ID: "MCPE104", Title: "key is not a string", Explanation: "The members of a JSON object are named by strings, but YAML reads `1:`, `true:` and " +
		"`null:` as a number, a boolean and null. Quote the key: `\"1\":`. Documents that import reads may have such " +
		"keys, which stand for their text. Arrays and objects cannot be keys at all."},
	{ID: "MCPE105", Title: "number that is not valid JSON", Explanation: "YAML versions read 0x10, 010, +1, 1_000, .5, .inf and .nan as numbers, but not all as the same ones; JSON has " +
		"none of them. Write the number in decimal (16 for 0x10, 10 or 8 for 010, which only YAML 1.1 reads as octal, 1, " +
		"1000, 0.5), or quote the value if it is a string: `enum: [\"+1\", \"-1\"]`. Numbers of more than 400 digits or an " +
		"exponent beyond 400 are refused as well."},
	{ID: "MCPE106", Title: "merge key", Explanation: "`<<: *base` copies members in YAML 1.1 and is an ordinary key in YAML 1.2. Readers of the file could not tell " +
		"which applies. Write the members out, or put the shared schema under `schemas:` and refer to it with $ref."},
	{ID: "MCPE107", Title: "more than one document", Explanation: "A line `---` begins a second YAML document. An event file or mcpe.yaml has exactly one; the others would be " +
		"lost. Put each into its own file and pass all of them."},
	{ID: "MCPE108", Title: "empty file", Explanation: "The file holds nothing but white space and comments. The smallest event file is " +
		"`version: 1` and declares nothing."},
	{ID: "MCPE109", Title: "alias that cannot be resolved", Explanation: "A YAML alias (`*name`) needs an anchor (`&name`) before it, cannot stand for a value that contains it, and all " +
		"aliases of a file together may stand for at most 10,000 values. For recursion and sharing use $ref: put the " +
		"schema under `schemas:` and write `$ref: '#/schemas/NAME'`."},
	{ID: "MCPE110", Title: "YAML tag", Explanation: "Tags such as !!binary, !!timestamp or !custom have no counterpart in JSON. Leave the tag out; bytes are " +
		"described by a string with contentEncoding base64, dates by a string with a format."},
	{ID: "MCPE111", Title: "too deep or too large", Explanation: "The file nests arrays and objects more than 200 levels deep or is larger than 64 MiB. No " +
		"schema written by a person does; use $ref to flatten a generated one."},
}
