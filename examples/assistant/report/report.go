// Package report defines the task write_report for the server and the client of the assistant example. It contains the
// types of the arguments, updates and result, and the description of the tool.
package report

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// Arguments contains the arguments of write_report. All are optional.
type Arguments struct {
	Service string `json:"service,omitzero"`
}

// Progress is an update: the number of incidents in the report so far.
type Progress struct {
	Done int `json:"done"`
	Of   int `json:"of"`
}

// Report is the result of write_report.
type Report struct {
	Title     string `json:"title"`
	Incidents int    `json:"incidents"`
	Text      string `json:"text"`
}

// Task describes the tool for the server and the client.
var Task = task.Type[Arguments, Progress, Report]{Info: task.Info{
	Name:        "write_report",
	Title:       "Write a report",
	Description: "Writes a report on the incidents so far. It works in the background and takes a moment.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{` +
		`"service":{"type":"string","description":"Only incidents of this service."}},"additionalProperties":false}`),
	UpdateSchema: json.RawMessage(`{"type":"object","properties":{"done":{"type":"integer","minimum":0},"of":{"type":"integer","minimum":1}},"required":["done","of"]}`),
	ResultSchema: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"incidents":{"type":"integer","minimum":0},"text":{"type":"string"}},` +
		`"required":["title","incidents","text"]}`),
}}
