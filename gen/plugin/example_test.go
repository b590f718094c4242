package plugin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
)

// A plugin reads a request from standard input and writes a response to standard output.
func Example() {
	// The request of mcpe-gen, shortened.
	stdin := strings.NewReader(`{"version":1,"packages":[{"name":"incidents","events":[{"name":"incident.created"},{"name":"incident.closed"}]}]}`)
	if err := listEvents(stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output: {"files":[{"path":"events.txt","text":"incident.created\nincident.closed\n"}]}
}

func listEvents(stdin io.Reader, stdout io.Writer) error {
	var request plugin.Request
	if err := json.NewDecoder(stdin).Decode(&request); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	var names strings.Builder
	for _, pkg := range request.Packages {
		for _, event := range pkg.Events {
			fmt.Fprintln(&names, event.Name)
		}
	}
	return json.NewEncoder(stdout).Encode(plugin.Response{Files: []plugin.File{{Path: "events.txt", Text: names.String()}}})
}
