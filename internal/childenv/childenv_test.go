package childenv

import (
	"slices"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	env := []string{"PATH=/bin", "MCPE_GEN_TOKEN=a", "MCPE_GEN_SECRET=b", "MCPE_ADMIN_TOKEN=c", "OTHER=d", "MCPE_GEN_TOKENS=e", "ODD"}
	if got := WithoutSecrets(env, "OTHER"); !slices.Equal(got, []string{"PATH=/bin", "MCPE_GEN_TOKENS=e", "ODD"}) {
		t.Errorf("%q", got)
	}
	if env[1] != "MCPE_GEN_TOKEN=a" {
		t.Error("the environment of the command has changed")
	}
}
