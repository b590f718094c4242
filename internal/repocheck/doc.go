// Package repocheck tests the repository as a whole: the lines of shipped code, language habits that make text hard to
// read, and the content of the owner's card. The counts of habits have a table in testdata.
package repocheck
