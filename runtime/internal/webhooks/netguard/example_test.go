package netguard_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
)

// A server judges a callback URL before it does anything else with it.
func ExampleGuard_CheckURL() {
	g, err := netguard.New(netguard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	for _, raw := range []string{"https://93.184.216.34/hooks/1", "https://169.254.169.254/latest", "https://2130706433/", "http://receiver.test/"} {
		_, err := g.CheckURL(context.Background(), raw)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// netguard: url: has a blocked address
	// netguard: url: has an odd host
	// netguard: url: is not https
}

func ExampleBlocked() {
	for _, text := range []string{"8.8.8.8", "100.64.0.1", "64:ff9b::a00:1"} {
		r, blocked := netguard.Blocked(netip.MustParseAddr(text))
		fmt.Printf("%s %s blocked=%v\n", text, r.Source, blocked)
	}
	// Output:
	// 8.8.8.8  blocked=false
	// 100.64.0.1 RFC 6598 blocked=true
	// 64:ff9b::a00:1 RFC 1918 blocked=true
}
