package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A terminated type's page and the API say who closed it and when, and both open it again, as the audit log records.
func TestReopen(t *testing.T) {
	w := newWorld(t)
	form := func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i, open := range []func() answered{
		func() answered { return w.ask("POST", "/api/types/ping/reopen", "", key("1")) },
		func() answered { return w.ask("POST", "/types/ping/reopen", "key=2", form) },
	} {
		if _, err := w.es.Admin().Terminate(operator.WithActor(t.Context(), "<ann>"), operator.Target{Event: "ping"}, nil); err != nil {
			t.Fatal(err)
		}
		closed := w.es.Admin().EventTypes(t.Context())[0].Terminated
		if closed == nil || closed.By != "<ann>" || closed.At.IsZero() {
			t.Fatalf("terminated: %+v", closed)
		}
		if a := w.ask("GET", "/api/types", ""); !strings.Contains(a.body, `"terminated":{"by":`) {
			t.Errorf("the API has %s", a.body)
		}
		if a := w.ask("GET", "/types/ping", ""); !strings.Contains(a.body, "by &lt;ann&gt; at ") || !strings.Contains(a.body, "/types/ping/reopen") {
			t.Errorf("the page has %s", a.body)
		}
		if a := open(); a.status != []int{http.StatusOK, http.StatusSeeOther}[i] {
			t.Errorf("opening: %d %s", a.status, a.body)
		}
		if w.es.Admin().EventTypes(t.Context())[0].Terminated != nil {
			t.Errorf("still closed after way %d", i)
		}
		if a := w.ask("GET", "/types/ping", ""); strings.Contains(a.body, "reopen") {
			t.Errorf("the page of an open type has %s", a.body)
		}
	}
	w.isProblem("an unknown type", w.ask("POST", "/api/types/no/reopen", "", key("3")), 404, "not_found")
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.audit) != 3 || w.audit[0].Verb != "reopen" || w.audit[0].Event != "ping" {
		t.Errorf("audit %+v", w.audit)
	}
}
