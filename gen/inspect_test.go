package gen_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// TestInspect shows the shape of the model; goType is an identifier of the package, and that of a
// $ref payload is its schema's name.
func TestInspect(t *testing.T) {
	m, diags, err := gen.Inspect(t.Context(), gen.Request{Dir: "../golden/refs", Files: []string{"refs.yaml"}, Package: "refs"})
	if err != nil || m == nil {
		t.Fatal(diags, err)
	}
	var payload gen.ModelType
	for _, typ := range m.Types {
		if typ.Name == "UserMovedPayload" {
			payload = typ
		}
	}
	got, err := json.MarshalIndent(map[string]any{"package": m.Package, "events": m.Events, "type": payload}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "events": [
  {
   "name": "user.joined",
   "source": "emit",
   "delivery": [
    "poll",
    "push",
    "webhook"
   ],
   "input": {
    "goType": "Aliased"
   },
   "payload": {
    "goType": "Person"
   },
   "pos": "refs.yaml:15:11"
  },
  {
   "name": "user.moved",
   "source": "emit",
   "delivery": [
    "poll",
    "push",
    "webhook"
   ],
   "input": {
    "goType": "UserMovedArguments"
   },
   "payload": {
    "goType": "UserMovedPayload"
   },
   "pos": "refs.yaml:19:11"
  }
 ],
 "package": "refs",
 "type": {
  "name": "UserMovedPayload",
  "form": "struct",
  "fields": [
   {
    "name": "place",
    "goName": "Place",
    "goType": "*LocalPlace",
    "required": false
   },
   {
    "name": "names",
    "goName": "Names",
    "goType": "Names",
    "required": false
   },
   {
    "name": "from",
    "goName": "From",
    "goType": "*UserMovedPayloadPoint",
    "required": false
   },
   {
    "name": "to",
    "goName": "To",
    "goType": "*UserMovedPayloadPoint",
    "required": false
   },
   {
    "name": "self",
    "goName": "Self",
    "goType": "*UserMovedPayload",
    "required": false
   }
  ],
  "pos": "refs.yaml:29:7"
 }
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}
