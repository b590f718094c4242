package source

import "embed"

//go:embed examples/*.txtar
var examples embed.FS

// Example returns the txtar archive for a code. The files in the directory wrong cause the diagnostic. The files in the
// directory right, if present, are a correct version. The comment of the archive is the command to run in either
// directory.
func Example(id string) []byte {
	text, err := examples.ReadFile("examples/" + id + ".txtar")
	if err != nil {
		return nil
	}
	return text
}
