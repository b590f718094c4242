package callbacks_test

import (
	"context"
	"fmt"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// A server whose network reaches the internet only through a forward proxy.
func ExampleOptions_proxy() {
	proxy, err := url.Parse("http://egress:secret@proxy.example.com:3128")
	if err != nil {
		fmt.Println("the address of the proxy is not a URL") // err contains the password
		return
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil), server.Options{
		Webhooks: webhooks.New(webhooks.Options{Callbacks: callbacks.Options{Proxy: proxy}}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(context.Background())
	fmt.Println("deliveries go through", proxy.Host)
	// Output: deliveries go through proxy.example.com:3128
}
