package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// tokenVariable is where a token may stand instead of the command line, which other users can read.
const tokenVariable = childenv.Token

const tokenUsage = "bearer `token` for the server (default: the environment's " + tokenVariable + ")"

// hideDefault keeps a flag's default, which may be secret, out of the help text.
func hideDefault(cmd *cobra.Command, flag string) { cmd.Flags().Lookup(flag).DefValue = "" }

// tokenFor is the token for the target: one from the environment is not meant for a command.
func tokenFor(t peer.Target) string {
	if t.URL == "" && t.Token == os.Getenv(tokenVariable) {
		return ""
	}
	return t.Token
}
