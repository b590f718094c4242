package source

import "embed"

//go:embed examples/*.txtar
var examples embed.FS

// Example returns the txtar archive that shows a code: files below wrong/ that give it and, where
// there is a better way, files below right/ that do not. Its comment is the command that was run in
// either directory.
func Example(id string) []byte {
	text, err := examples.ReadFile("examples/" + id + ".txtar")
	if err != nil {
		return nil
	}
	return text
}
