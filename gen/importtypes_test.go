package gen_test

import (
	"os/exec"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// sharing uses the types of three packages: values of each are values of the others.
const sharing = `package main

import (
	"encoding/json"
	"fmt"
	"os"

	"example.com/m/common"
	"example.com/m/orders"
	"example.com/m/refunds"
)

func refund(m refunds.Money) refunds.OrderRefundedPayload { return refunds.OrderRefundedPayload{Total: m} }

func main() {
	var paid orders.OrderPaidPayload
	const text = ` + "`" + `{"total":{"amount":5,"currency":"EUR"},"by":{"kind":"card","number":"1"},"prices":[{"amount":1,"currency":"USD"}]}` + "`" + `
	if err := json.Unmarshal([]byte(text), &paid); err != nil || paid.Total.Currency != common.CurrencyEur || orders.CurrencyEur != refunds.CurrencyEur {
		fmt.Println(err, paid)
		os.Exit(1)
	}
	card, ok := paid.By.Value.(*common.Card)
	if !ok || *card.Number != "1" {
		fmt.Println(paid.By.Value)
		os.Exit(1)
	}
	paid.By = &common.Payment{Value: &orders.Bank{}}
	for _, v := range []any{paid, refund(paid.Total)} {
		out, err := json.Marshal(v)
		fmt.Println(string(out), err)
	}
}
`

// A package with an import has the types of the imported one, so that Go code passes values from one to the other.
func TestImportedTypesAreShared(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	dir := t.TempDir()
	consumerModule(t, dir)
	event := func(name, payload string) string {
		return `{"version":1,"events":[{"name":"` + name + `","description":"d","inputSchema":{"type":"object"},"payloadSchema":` + payload + `}]}`
	}
	write(t, dir, "common.json", `{"version":1,"events":[],"schemas":{
		"Currency":{"type":"string","enum":["EUR","USD"]},
		"Money":{"type":"object","properties":{"amount":{"type":"integer","default":1},"currency":{"$ref":"#/schemas/Currency"}},"required":["currency"]},
		"Card":{"type":"object","properties":{"kind":{"const":"card"},"number":{"type":"string"}},"required":["kind"]},
		"Bank":{"type":"object","properties":{"kind":{"const":"bank"}},"required":["kind"]},
		"Payment":{"oneOf":[{"$ref":"#/schemas/Card"},{"$ref":"#/schemas/Bank"}]},
		"Prices":{"type":"array","items":{"$ref":"#/schemas/Money"}}}}`)
	write(t, dir, "orders.json", event("order.paid", `{"type":"object","properties":{"total":{"$ref":"common.json#/schemas/Money"},"by":{"$ref":"common.json#/schemas/Payment"},
		"prices":{"$ref":"common.json#/schemas/Prices"},"currency":{"$ref":"common.json#/schemas/Currency","default":"EUR"}},"required":["total"]}`))
	write(t, dir, "refunds.json", event("order.refunded", `{"type":"object","properties":{"total":{"$ref":"common.json#/schemas/Money"}},"required":["total"]}`))
	imports := map[string]string{"common.json": "example.com/m/common"}
	for _, r := range []gen.Request{
		{Files: []string{"common.json"}, Out: "common"},
		{Files: []string{"orders.json"}, Out: "orders", Imports: imports},
		{Files: []string{"refunds.json"}, Out: "refunds", Imports: imports},
	} {
		r.Dir = dir
		apply(t, r)
	}
	write(t, dir, "main.go", sharing)
	run := exec.Command("go", "run", "-mod=mod", ".")
	run.Dir = dir
	out, err := run.CombinedOutput()
	const want = `{"total":{"amount":5,"currency":"EUR"},"by":{"kind":"bank"},"prices":[{"amount":1,"currency":"USD"}]} <nil>
{"total":{"amount":5,"currency":"EUR"}} <nil>
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
