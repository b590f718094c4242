// Package repocheck tests the repository as a whole: the lines of code in each package, language habits that make text
// hard to read, and the content of the owner's card. Each count has a table in testdata. A change that affects a count
// must update the table.
package repocheck
