package subscriber

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// HOOK-8: members on the wire are written as the extension writes them. encoding/json reads names in any
// case, so that a test that decodes an answer does not see a wrong one.
func TestMembersBeginInLowerCase(t *testing.T) {
	b, err := json.Marshal(Result{DeliveryStatus: &DeliveryStatus{}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"deliveryStatus":{`) {
		t.Errorf("%s", b)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Result](), reflect.TypeFor[DeliveryStatus]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "" || unicode.IsUpper(rune(name[0])) {
				t.Errorf("%s.%s is written as %q", typ.Name(), typ.Field(i).Name, name)
			}
		}
	}
}
