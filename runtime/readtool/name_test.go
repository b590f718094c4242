package readtool_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// Q1, HOST-2: a name is cut beyond 48 characters, alike wherever it is made and otherwise for each event.
func TestNameIsCut(t *testing.T) {
	exact := strings.Repeat("e", readtool.MaxDefaultName-len("read_"))
	if got := readtool.Name(exact); got != "read_"+exact {
		t.Errorf("%d characters become %s", readtool.MaxDefaultName, got)
	}
	const event = "v1.financial_connections.account.supported_payment_method_types_updated"
	got := readtool.Name(event)
	if want := "read_v1_financial_connections_account_s"; len(got) != readtool.MaxDefaultName || !strings.HasPrefix(got, want) || !readtool.ValidName(got) || got != readtool.Name(event) {
		t.Errorf("%s of %d characters", got, len(got))
	}
	if other := readtool.Name(event + "2"); other == got || len(other) != readtool.MaxDefaultName {
		t.Errorf("%s and %s", got, other)
	}
}
