// Package policies holds the built-in rules and the data lists a team edits.
package policies
