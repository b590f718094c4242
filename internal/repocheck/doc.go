// Package repocheck holds tests of the repository as a whole: lines of code in each package, habits that make its English
// hard to read, and the contents of the owner's card. Each count has a table in testdata, and a change that moves a count edits
// the table.
package repocheck
