// Package childenv makes the environment of the programs that the command starts.
package childenv

import (
	"runtime"
	"slices"
	"strings"
)

// Environment variables with secrets of the command.
const (
	// Token has the bearer token of the verbs with the flag --token.
	Token = "MCPE_GEN_TOKEN"
	// Secret has the secret of a webhook receiver that conform judges.
	Secret = "MCPE_GEN_SECRET"
	// AdminToken has the operator's token of the verb admin.
	AdminToken = "MCPE_ADMIN_TOKEN"
)

// WithoutSecrets returns an environment for a child program. It leaves out the secrets of the command and the given
// variables: they are for servers, and not for the programs that run next to them.
func WithoutSecrets(env []string, variables ...string) []string {
	secrets := append([]string{Token, Secret, AdminToken}, variables...)
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(secrets, func(secret string) bool { return sameVariable(name, secret) })
	})
}

// sameVariable reports whether two names are those of one variable.
func sameVariable(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}
