package source

import "embed"

//go:embed examples/*.txtar
var examples embed.FS

// Example returns the txtar archive for a code. The files in wrong/ cause the diagnostic. The files in right/, if
// present, show a correct version. The archive's comment is the command to run in either directory.
func Example(id string) []byte {
	text, err := examples.ReadFile("examples/" + id + ".txtar")
	if err != nil {
		return nil
	}
	return text
}
