package mcpewire_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A client reads the subscription in the result of the tool events_subscribe.
func ExampleSubscription() {
	const result = `{"id":"8f14e45f-ceea-467f-9575-6d2b5a3c1b2e","clientId":"agent-1","filter":{"eventTypes":["incident.*"],"priority":["high"]},"status":"active"}`
	var sub mcpewire.Subscription
	if err := json.Unmarshal([]byte(result), &sub); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sub.Status, sub.Filter.EventTypes, sub.Filter.Priority)
	// Output: active [incident.*] [high]
}
