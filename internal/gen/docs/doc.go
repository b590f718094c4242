// Package docs writes reference pages for event files as Markdown and as a self-contained HTML page with light and
// dark colors.
//
// Start with [New], which returns a [Page] for packages of event files; [Page.Markdown] and [Page.HTML] write it.
// rows.go turns the types of the model into tables, changes.go compares with an older version, diagram.go draws the
// delivery modes. Package sample generates valid examples.
package docs
