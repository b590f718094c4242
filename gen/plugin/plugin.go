// Package plugin defines the messages between mcpe-gen and its plugins. A plugin is a program that reads one
// [Request] from standard input and writes one [Response] to standard output, both as JSON. See PLUG-1.
//
// The messages are stable, like package model: within a version, members may be added, but never changed.
package plugin

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// A Request is the input of a plugin.
type Request struct {
	// Version is the version of the model.
	Version int `json:"version"`
	// Options contains the plugin's options from the configuration, or null.
	Options  json.RawMessage  `json:"options"`
	Packages []*model.Package `json:"packages"`
}

// A Response is the output of a plugin.
type Response struct {
	Files       []File       `json:"files"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
}

// A File is a file to write.
type File struct {
	// Path is relative to the output directory, with slashes.
	Path string `json:"path"`
	Text string `json:"text"`
}

// A Diagnostic is a problem that the plugin found in the event files.
type Diagnostic struct {
	// Severity is error, warning or note. After an error, mcpe-gen writes no files.
	Severity string `json:"severity"`
	// Code is the plugin's code for the problem.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Pos is a position from the model, or empty.
	Pos string `json:"pos,omitempty"`
}
