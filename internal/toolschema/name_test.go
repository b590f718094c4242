package toolschema_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

// Q1, HOST-2: a name is cut beyond 48 characters, alike wherever it is made and otherwise for each event.
func TestNameIsCut(t *testing.T) {
	exact := strings.Repeat("e", toolschema.MaxDefaultName-len("read_"))
	if got := toolschema.Name(exact); got != "read_"+exact {
		t.Errorf("%d characters become %s", toolschema.MaxDefaultName, got)
	}
	const event = "v1.financial_connections.account.supported_payment_method_types_updated"
	got := toolschema.Name(event)
	if want := "read_v1_financial_connections_account_s"; len(got) != toolschema.MaxDefaultName || !strings.HasPrefix(got, want) || !toolschema.ValidName(got) || got != toolschema.Name(event) {
		t.Errorf("%s of %d characters", got, len(got))
	}
	if other := toolschema.Name(event + "2"); other == got || len(other) != toolschema.MaxDefaultName {
		t.Errorf("%s and %s", got, other)
	}
}
