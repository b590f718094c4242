package source

import "embed"

//go:embed examples/*.txtar
var examples embed.FS

// Example returns the txtar archive for a code. Its files below wrong/ cause the diagnostic, and files below right/,
// if present, show a correct version. Its comment is the command to run in either directory.
func Example(id string) []byte {
	text, err := examples.ReadFile("examples/" + id + ".txtar")
	if err != nil {
		return nil
	}
	return text
}
