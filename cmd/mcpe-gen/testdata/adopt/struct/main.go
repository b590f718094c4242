// Command tickets serves MCP and a health check.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"

	"example.com/tickets/app"
)

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/v1/mcp", listener.Addr())
	log.Fatal(http.Serve(listener, app.New("v1").Routes()))
}
