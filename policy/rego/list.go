package rego

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"sallyport/policies"
	"sallyport/policy"
)

// list is one YAML file of a layer, valid by itself.
type list struct {
	file string
	data policy.Data
	keys map[string]int // top-level key -> line
}

// reader parses layers; it holds the compiled schema of the data lists.
type reader struct{ schema *jsonschema.Schema }

func newReader() (reader, error) {
	text, err := fs.ReadFile(policies.FS, "schema/lists/data.json")
	if err != nil {
		return reader{}, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return reader{}, fmt.Errorf("read the schema of the policy data: %w", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("data.json", doc); err != nil {
		return reader{}, err
	}
	schema, err := c.Compile("data.json")
	if err != nil {
		return reader{}, fmt.Errorf("compile the schema of the policy data: %w", err)
	}
	return reader{schema: schema}, nil
}

// parseList reads and checks one YAML file; every error names file and line.
func (r reader) parseList(file string, text []byte) (list, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return list{}, fmt.Errorf("%s: %w", file, err)
	}
	if doc.Kind == 0 {
		return list{file: file}, nil // an empty file says nothing
	}
	var value any
	if err := doc.Decode(&value); err != nil {
		return list{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := r.schema.Validate(value); err != nil {
		return list{}, schemaError(file, &doc, err)
	}
	var whole struct {
		Sallyport policy.Data `yaml:"sallyport"`
	}
	if err := doc.Decode(&whole); err != nil {
		return list{}, fmt.Errorf("%s: %w", file, err)
	}
	l := list{file: file, data: whole.Sallyport, keys: map[string]int{}}
	if body := child(doc.Content[0], "sallyport"); body != nil {
		for i := 0; i+1 < len(body.Content); i += 2 {
			l.keys[body.Content[i].Value] = body.Content[i].Line
		}
	}
	return l, l.check(&doc)
}

// check tests what a schema cannot: expressions and globs.
func (l list) check(doc *yaml.Node) error {
	at := func(path ...string) int { return nodeAt(doc, path).Line }
	for i, p := range l.data.Patterns {
		if _, err := regexp.Compile(p.Regex); err != nil {
			return fmt.Errorf("%s:%d: pattern %q: %w", l.file, at("sallyport", "patterns", strconv.Itoa(i), "regex"), p.ID, err)
		}
	}
	globs := map[string][]string{
		"protected_branches": l.data.ProtectedBranches, "protected_paths": l.data.ProtectedPaths, "hidden_paths": l.data.HiddenPaths, "sensitive_paths": l.data.SensitivePaths, "build_files": l.data.BuildFiles,
	}
	for g, list := range l.data.Guards {
		globs["guards/"+string(g)] = list
	}
	for key, list := range globs {
		for i, g := range list {
			if !doublestar.ValidatePattern(g) {
				path := append(append([]string{"sallyport"}, strings.Split(key, "/")...), strconv.Itoa(i))
				return fmt.Errorf("%s:%d: %q is not a glob", l.file, at(path...), g)
			}
		}
	}
	return nil
}

// schemaError turns the first violation into "file:line: what".
func schemaError(file string, doc *yaml.Node, err error) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return fmt.Errorf("%s: %w", file, err)
	}
	for len(v.Causes) > 0 {
		v = v.Causes[0]
	}
	// The message stands after the location in the library's one-line form.
	text := v.Error()
	if i := strings.LastIndex(text, "': "); i >= 0 {
		text = text[i+3:]
	}
	where := strings.Join(v.InstanceLocation, ".")
	if where == "" {
		where = "the file"
	}
	return fmt.Errorf("%s:%d: %s: %s", file, nodeAt(doc, v.InstanceLocation).Line, where, text)
}

// nodeAt is the deepest node on the path that exists.
func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for _, p := range path {
		next := child(n, p)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, name string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}
