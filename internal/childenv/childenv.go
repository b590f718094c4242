// Package childenv returns the environment for child processes.
package childenv

import (
	"runtime"
	"slices"
	"strings"
)

// Environment variables that contain secrets of the command.
const (
	// Token holds the bearer token for commands with the flag --token.
	Token = "MCPE_GEN_TOKEN"
	// Secret holds the secret of the webhook receiver that conform tests.
	Secret = "MCPE_GEN_SECRET"
	// AdminToken holds the operator's token for the admin command.
	AdminToken = "MCPE_ADMIN_TOKEN"
)

// WithoutSecrets returns env without the secrets of the command and without the given variables, for a child process.
// Helper programs must not receive secrets.
func WithoutSecrets(env []string, variables ...string) []string {
	secrets := append([]string{Token, Secret, AdminToken}, variables...)
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(secrets, func(secret string) bool { return sameVariable(name, secret) })
	})
}

// sameVariable reports whether two names refer to the same variable.
func sameVariable(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}
