package procgroup

import (
	"runtime"
	"slices"
	"strings"
)

// TokenVariable is the environment variable with the bearer token of the verbs that have the flag --token.
const TokenVariable = "MCPE_GEN_TOKEN"

// WithoutTokens returns an environment for a child program. It leaves out TokenVariable and the given variables, whose
// tokens are for servers and not for the programs that run next to them.
func WithoutTokens(env []string, variables ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return sameVariable(name, TokenVariable) || slices.ContainsFunc(variables, func(v string) bool { return sameVariable(name, v) })
	})
}

// sameVariable reports whether two names are those of one variable.
func sameVariable(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}
