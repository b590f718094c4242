package peer

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// TokenVariable is the environment variable that contains the token. It is safer than the command line, which other
// users can read.
const TokenVariable = childenv.Token

// TokenFlag adds the flag --token. The help text does not show the default because it is secret.
func TokenFlag(cmd *cobra.Command, token *string) {
	cmd.Flags().StringVar(token, "token", os.Getenv(TokenVariable),
		"bearer `token` for the server (default: the environment's "+TokenVariable+")")
	cmd.Flags().Lookup("token").DefValue = ""
}

// TokenFor returns the token for the target. A token from the environment does not apply to a target that is a command.
func TokenFor(t Target) string {
	if t.URL == "" && t.Token == os.Getenv(TokenVariable) {
		return ""
	}
	return t.Token
}

// AddFlags adds the flags for verbs that receive webhooks.
func (r *Receiver) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.Listen, "listen", "", "`address` to receive webhooks on, such as :8443")
	flags.StringVar(&r.PublicURL, "public-url", "", "https `URL` at which servers reach --listen (default: https:// and its address)")
	flags.StringVar(&r.Cert, "tls-cert", "", "certificate `file` for --listen (default: on loopback a new one)")
	flags.StringVar(&r.Key, "tls-key", "", "key `file` for --tls-cert")
	for _, file := range []string{"tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(file)
	}
}
