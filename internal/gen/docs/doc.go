// Package docs writes reference pages for event files as Markdown and as a self-contained HTML page with light and
// dark colors.
//
// Start with [New], which returns a [Page] for packages of event files. Use [Page.Markdown] or [Page.HTML] to write it.
// The file rows.go converts the types of the model to tables, changes.go compares two versions, and diagram.go draws
// the delivery modes. Package sample generates valid examples.
package docs
