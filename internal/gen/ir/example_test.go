package ir_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// The one rule by which names of events, schemas, members and enum values become Go identifiers.
func ExampleGoName() {
	for _, name := range []string{"incident.created", "user-profile", "http_url", "userIDs", "+1", "-1", "2fa", "v1.0"} {
		fmt.Println(name, ir.GoName(name))
	}
	// Output:
	// incident.created IncidentCreated
	// user-profile UserProfile
	// http_url HTTPURL
	// userIDs UserIDs
	// +1 Plus1
	// -1 Minus1
	// 2fa X2fa
	// v1.0 V1_0
}
