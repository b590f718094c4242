package source

import "slices"

// A Code describes a kind of [Diagnostic]. The command `mcpe-gen explain` prints it.
type Code struct {
	// ID is a stable identifier that consists of MCPE and three digits. The first digit is the stage: 1 for syntax and
	// event files, 2 for types and Go names, 3 for generation, 4 for the configuration, and 5 for import and export.
	ID string
	// Title is a short description.
	Title string
	// Severity is the severity of all diagnostics with this code. The zero value is an error.
	Severity Severity
	// Explanation is a paragraph that describes the cause, an example and the solution.
	Explanation string
}

// table holds every code once. Each stage declares its codes in a separate file.
var table = slices.Concat(textCodes, fileCodes, schemaCodes, typeCodes, configCodes, importCodes, lintCodes, taskCodes, fromCodes)

var byID = func() map[string]Code {
	m := make(map[string]Code, len(table))
	for _, c := range table {
		m[c.ID] = c
	}
	return m
}()

// Codes returns all codes of the generator, sorted by ID.
func Codes() []Code {
	return slices.SortedFunc(slices.Values(table), func(a, b Code) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
}

// Lookup returns the description of a code.
func Lookup(id string) (Code, bool) {
	c, ok := byID[id]
	return c, ok
}
