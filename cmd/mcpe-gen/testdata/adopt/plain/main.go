// Command shop is an HTTP server without MCP.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"
)

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: logged(mux), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s %s", r.Method, r.URL.Path)
		next.ServeHTTP(w, r)
	})
}
