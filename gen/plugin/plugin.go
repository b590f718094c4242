// Package plugin defines the messages between mcpe-gen and a plugin, which is a program that reads one [Request] from
// standard input and writes one [Response] to standard output, as JSON. See PLUG-1.
//
// Its compatibility is promised like that of package model: within a version members are added, and none is changed.
package plugin

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// A Request is what a plugin is asked.
type Request struct {
	// Version is that of the model.
	Version int `json:"version"`
	// Options are those of the configuration, null where it gives none.
	Options  json.RawMessage  `json:"options"`
	Packages []*model.Package `json:"packages"`
}

// A Response is what a plugin answers.
type Response struct {
	Files       []File       `json:"files"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
}

// A File is one file to write.
type File struct {
	// Path is relative to the output directory, with slashes.
	Path string `json:"path"`
	Text string `json:"text"`
}

// A Diagnostic is something that the plugin has to say about the event files.
type Diagnostic struct {
	// Severity is error, warning or note. With an error nothing is written.
	Severity string `json:"severity"`
	// Code is the plugin's own word for what is wrong.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Pos is a position of the model, empty where the message is about none.
	Pos string `json:"pos,omitempty"`
}
