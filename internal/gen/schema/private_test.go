package schema_test

import (
	"encoding/json"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

// OCC-7: what an event file marks as private is removed, and nothing else.
func TestPrivateRemoval(t *testing.T) {
	a, err := txtar.ParseFile("testdata/good/private.txtar")
	if err != nil {
		t.Fatal(err)
	}
	set, _ := load(t, a)
	events := map[string]*schema.Event{}
	for _, e := range set.Files[0].Events {
		events[e.Name] = e
	}
	for _, c := range []struct{ event, payload, want string }{
		{"members", `{"number":"1","pay":2,"secret":{"a":"b"},"other":{"pay":3}}`, `{"number":"1","other":{"pay":3}}`},
		{"nested", `{"list":[{"salary":1,"manager":{"salary":2,"manager":{"name":"n","salary":3}}},"?",null]}`, `{"list":[{"manager":{"manager":{"name":"n"}}},"?",null]}`},
		{"nested", `{"pair":[{"salary":1},"x"],"map":{"a":{"salary":1},"*":{"salary":2},"salary":{"salary":3}}}`, `{"map":{"*":{},"a":{},"salary":{"salary":3}},"pair":[{},"x"]}`},
		{"nested", `{"one":{"x":"y"},"both":{"*":"a","x":"y"}}`, `{"both":{"*":"a"},"one":{}}`},
		{"recursive", `{"note":"a","children":[{"note":"b","children":[{"note":"c"},{}]}]}`, `{"children":[{"children":[{},{}]}]}`},
		{"old", `{"a":"b","list":["x",{"c":"d","e":1}]}`, `{"list":["x",{"e":1}]}`},
	} {
		var payload any
		if err := json.Unmarshal([]byte(c.payload), &payload); err != nil {
			t.Fatal(err)
		}
		events[c.event].Private.RemoveFrom(payload)
		if got, err := json.Marshal(payload); err != nil || string(got) != c.want {
			t.Errorf("%s: %s became %s, want %s", c.event, c.payload, got, c.want)
		}
	}
	if p := events["plain"].Private; p != nil {
		t.Errorf("plain: %v", p)
	}
}
