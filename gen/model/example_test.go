package model_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// A program reads the output of `mcpe-gen inspect`.
func ExampleDocument() {
	const output = `{"version":1,"packages":[{"name":"incidents","events":[
		{"name":"incident.created","source":"emit","delivery":["poll","push"],"replay":true}]}]}`
	var document model.Document
	if err := json.Unmarshal([]byte(output), &document); err != nil {
		log.Fatal(err)
	}
	if document.Version != model.Version {
		log.Fatalf("the model has version %d, want %d", document.Version, model.Version)
	}
	for _, pkg := range document.Packages {
		for _, event := range pkg.Events {
			fmt.Println(pkg.Name, event.Name, event.Delivery)
		}
	}
	// Output: incidents incident.created [poll push]
}
