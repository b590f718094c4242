package behaviour

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	consts "github.com/mcpe-gen/mcpe-gen/golden/consts/want"
	enums "github.com/mcpe-gen/mcpe-gen/golden/enums/want"
	gotypes "github.com/mcpe-gen/mcpe-gen/golden/gotypes/want"
	incidents "github.com/mcpe-gen/mcpe-gen/golden/incidents/want"
	names "github.com/mcpe-gen/mcpe-gen/golden/names/want"
	objects "github.com/mcpe-gen/mcpe-gen/golden/objects/want"
	recursion "github.com/mcpe-gen/mcpe-gen/golden/recursion/want"
	refs "github.com/mcpe-gen/mcpe-gen/golden/refs/want"
	scalars "github.com/mcpe-gen/mcpe-gen/golden/scalars/want"
	unionforms "github.com/mcpe-gen/mcpe-gen/golden/unionforms/want"
	unions "github.com/mcpe-gen/mcpe-gen/golden/unions/want"
	warnings "github.com/mcpe-gen/mcpe-gen/golden/warnings/want"
)

// roundTrips are documents that must come out of their type as they went in, member order and
// number notation aside. Plain encoding/json drives them, as user code does.
var roundTrips = []struct {
	name string
	new  any
	docs []string
}{
	{"struct", new(incidents.IncidentCreatedPayload), []string{
		`{"incidentId":"1","severity":"P1","openedAt":"2026-07-28t10:00:00.120z"}`,
		`{"incidentId":"","severity":"P9","openedAt":"2016-12-31T23:59:60Z","service":"","reporter":{"id":"p","name":"<&>"}}`,
	}},
	{"scalars", new(scalars.SampleTakenPayload), []string{
		`{"text":"","textNullable":null,"flag":false,"whole":0,"ratio":0,"at":"2026-01-01T00:00:00+02:00","blob":"","blobNullable":null,"tags":[],"tagsNullable":null}`,
		`{"text":"a","textOptional":"","textNullable":"","textBoth":null,"flag":true,"flagOptional":false,"whole":1,"wholeOptional":9223372036854775807,
		  "wholeBoth":0,"ratio":0.1,"ratioOptional":0,"at":"2026-01-01T00:00:00Z","atOptional":"2026-01-01T00:00:00.000Z","atBoth":null,"blob":"AQI=","blobOptional":"",
		  "blobNullable":"","day":"2026-01-01","inferredText":"x","inferredNumber":0,"tags":["a"],"tagsOptional":[],"tagsNullable":[],"tagsBoth":[],
		  "holes":[1,null],"matrix":[[],[1]],"blobs":["","AQ=="]}`,
		`{"text":"","textNullable":null,"textBoth":"","flag":false,"whole":0,"wholeBoth":null,"ratio":0,"at":"2026-01-01T00:00:00Z","atBoth":"2026-01-01T00:00:00Z","blob":"","blobNullable":"AQ==","tags":[],"tagsNullable":["a"],"tagsBoth":null}`,
	}},
	{"objects", new(objects.ConfigChangedPayload), []string{
		`{"labels":{},"owner":{"id":"1"},"rows":[],"ownerNullable":null}`,
		`{"labels":{"a":"b"},"anything":{"x":[1,{"y":null}]},"byName":{"n":{"weight":1.5}},"maybe":{"a":null,"b":""},
		  "owner":{"id":"1","ID":"another member","extra":{"deep":[true]}},"counters":{"total":1,"more":2},"ownerNullable":{"id":""},"rows":[{},{"cell":""}],"nothing":{},"either":{"a":"1"}}`,
	}},
	{"enums", new(enums.ReactionAddedPayload), []string{
		`{"reaction":"+1","level":0,"stateNullable":null}`,
		`{"reaction":"unheard of","level":99,"levelOptional":0,"ratio":2.25,"version":"v1.1","blank":"","documented":"low","shout":"P1","state":"half-open",
		  "stateNullable":"open","stateBoth":null,"onOff":false,"states":["up","sideways"]}`,
	}},
	{"consts", new(consts.HeartBeatPayload), []string{
		`{"kind":"beat","version":2,"final":true,"never":false,"factor":0.5,"nullable":null}`,
		`{"kind":"other","version":3,"final":true,"never":true,"factor":1,"optional":"beat","nullable":"beat"}`,
	}},
	{"unions", new(unions.PaymentMadePayload), []string{
		`{"method":{"kind":"card","number":"1"},"methodNullable":null}`,
		`{"method":{"kind":"barter","goods":["hen"]},"methodOptional":{"kind":"bank","iban":""},"methodNullable":{"kind":"bank","iban":"x"},"methodBoth":null,
		  "methods":[{"kind":"card","number":""},{"kind":"bank","iban":""}],"byName":{"a":{"kind":"card","number":""}},"pet":{"petType":"Cat","lives":9},
		  "numbered":{"v":2,"b":"x"},"maybe":null,"single":{"kind":"card","number":""},"inline":{"op":"remove"}}`,
		`{"method":{"kind":"card","number":"1"},"methodNullable":null,"pet":{"petType":"hound","barks":true},"numbered":{"v":7},"maybe":{"kind":"card","number":""},"methodBoth":{"kind":"bank","iban":"1"}}`,
	}},
	{"a union as payload", new(unions.PaymentMethodPayload), []string{`{"kind":"bank","iban":"1"}`, `{"kind":"new"}`}},
	{"an inline union as payload", new(unions.PaymentStepPayload), []string{`{"step":"begin","amount":1}`, `{"step":"end","ok":false}`}},
	{"unions by form", new(unionforms.ChargeMadePayload), []string{
		`{"customer":"c1","customerNullable":null,"status":1}`,
		`{"customer":{"id":"c1","name":"n"},"customerOptional":"c2","customerNullable":{"id":"c3"},"customerBoth":null,"customers":["a",{"id":"b"}],"byName":{"a":1,"b":"2"},
		  "data":{"x":[1.50]},"status":"ok","anything":[null],"several":[1,2],"at":7,"name":"none","level":"low","off":false,"method":"m","target":{"email":"a","note":"n"},
		  "targetOr":[{"phone":"1"},{"email":"a"}],"inline":{"width":1.5},"tree":["a",{"b":["c"],"d":"e"},[]],"outer":true,"named":"x","raw":1,"same":{"b":"x"},"lists":[1]}`,
		`{"customer":"","customerOptional":{"id":"c"},"customerNullable":"","customerBoth":{"id":""},"data":"AQI=","status":-1,"several":{"a":"x"},"at":"2026-07-28t10:00:00.120z",
		  "name":"https://example.com/","level":0.5,"off":{"reason":"r"},"method":{"kind":"bank","iban":"1"},"target":{"phone":"1"},"targetOr":{"email":"a"},
		  "inline":{"height":2},"tree":{"a":"b"},"outer":3,"named":{"text":"t"}}`,
		`{"customer":"","customerNullable":null,"customerBoth":"x","status":1,"several":true,"at":null,"name":true,"level":"other","method":{"kind":"card","number":"4"},"outer":{"id":"1"}}`,
		`{"customer":7,"customerNullable":[1],"status":{"new":true},"several":"new","at":[],"name":{},"level":false,"off":"x","method":{"kind":"cash"},"target":{"email":"a","phone":"b"},
		  "targetOr":{"fax":"1"},"inline":{},"tree":1.0,"outer":"x","named":[]}`,
	}},
	{"a $ref as payload", new(refs.UserJoinedPayload), []string{`{"id":"1","nick":null}`, `{"id":"1","name":null,"nick":"n","boss":{"id":"2","nick":null}}`}},
	{"pointers", new(refs.UserMovedPayload), []string{`{"place":{"city":"x","kind":"home"},"names":["a",null],"from":{"x":1,"y":2},"self":{"to":{"x":0,"y":0}}}`}},
	{"recursion", new(recursion.TreeGrownPayload), []string{
		`{"tree":{"value":"a","children":[{"value":"b","twin":null}],"byName":{"c":{"value":"d"}},"parent":{"value":"e"},"twin":{"value":"f"}},
		  "list":[[],[[]]],"dict":{"a":{"b":{}}},"even":{"odd":{"even":{"odd":{"even":null}}}},
		  "expr":{"op":"add","left":{"op":"num","value":1},"right":{"op":"add","left":{"op":"num","value":2},"right":{"op":"other"}}}}`,
	}},
	{"names", new(names.IncidentCreatedArguments), []string{
		`{"type":"a","func":"b","2fa":true,"userId":"c","userIDs":["d"],"http_url":"e","HTTPServer":"f","@id":"g","$ref-like":"h","_private":"i","größe":1,
		  "日本":"j","+1":1,"-1":2,"-":3,"a b.c/d":"k","odd name":"l","string":"m","error":"n","nested-thing":{"deep":{"x":"o"}}}`,
	}},
	{"names that encoding/json dislikes", new(names.PriceSetPayload), []string{`{"नाम":"n","€":1.5,"°C":0,"“quoted”":""}`}},
	{"chosen types", new(gotypes.TypeChosenPayload), []string{
		`{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","number":12345678901234567890,"big":123456789012345678901234567890,"any":{"a":[1.0]}}`,
		`{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","idOptional":"00000000-0000-0000-0000-000000000000","ids":["6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
		  "number":1.50,"numberOptional":0,"big":0,"bigOptional":-1,"any":null,"anyOptional":null,"anyNullable":null,"small":255,"anys":[null,1],"merged":{"x":1},"address":"10.0.0.1"}`,
	}},
	{"raw unions", new(warnings.ThingHappenedPayload), []string{`{"either":1,"several":null,"shapes":[{"a":"x"},{"b":"y"}],"count":5,"half":1,"huge":1,"empty":{}}`}},
}

// TestRoundTrip decodes and encodes every document.
func TestRoundTrip(t *testing.T) {
	for _, c := range roundTrips {
		t.Run(c.name, func(t *testing.T) {
			for _, doc := range c.docs {
				v := reflect.New(reflect.TypeOf(c.new).Elem())
				if err := json.Unmarshal([]byte(doc), v.Interface()); err != nil {
					t.Errorf("decode %s: %v", doc, err)
					continue
				}
				got, err := json.Marshal(v.Elem().Interface())
				if err != nil {
					t.Errorf("encode %s: %v", doc, err)
					continue
				}
				if want := canonical(t, []byte(doc)); canonical(t, got) != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}

// canonical orders the members of a document and keeps the text of its numbers.
func canonical(t *testing.T, doc []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
