// Package plugin defines the messages between mcpe-gen and its plugins. A plugin is a program that reads one
// [Request] from standard input and writes one [Response] to standard output, both as JSON. See PLUG-1.
//
// Compatibility is promised as for package model: within a version, members may be added, but none is changed.
package plugin

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// A Request is the input of a plugin.
type Request struct {
	// Version is the version of the model.
	Version int `json:"version"`
	// Options holds the plugin options from the configuration, or null.
	Options  json.RawMessage  `json:"options"`
	Packages []*model.Package `json:"packages"`
}

// A Response is the output of a plugin.
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

// A Diagnostic is a finding of the plugin about the event files.
type Diagnostic struct {
	// Severity is error, warning or note. After an error, mcpe-gen writes no files.
	Severity string `json:"severity"`
	// Code is the plugin's code for the finding.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Pos is a position from the model, empty if the message has none.
	Pos string `json:"pos,omitempty"`
}
