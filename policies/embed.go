// Package policies holds the built-in rules and the data lists a team edits.
package policies

import "embed"

// FS holds the rules (*.rego), their tests (*_test.rego), the data lists
// (*.yaml) and the schemas both are checked against (schema).
//
//go:embed *.rego *.yaml schema
var FS embed.FS
