// Package docs writes reference pages for event files: Markdown, and one HTML page that needs nothing
// else, with light and dark colors.
//
// Start with [New], which makes a [Page] of packages of event files; [Page.Markdown] and [Page.HTML]
// write it. rows.go turns the types of the model into tables, changes.go compares with an older
// version, diagram.go draws how events are delivered. Examples come from package sample and are valid.
//
// The package makes no promise of compatibility.
package docs
