package rego

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Layer is a set of rules and lists above the built-in one. FS holds *.rego,
// *_test.rego and *.yaml at any depth; a nil FS is an empty layer.
type Layer struct {
	Name string // "administrator", "user", "project"
	FS   fs.FS
	// Accepted, when set, holds the layer back until it says yes to the digest
	// of its rules and lists: an agent may write into a project's folder, and a
	// person must have seen what it says.
	Accepted func(digest string) bool
	// Signature, when set, takes the layer from a signed bundle only.
	Signature *Signature
}

// layerName is what a layer may be called; its packages bear the name.
var layerName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// The layers by name, strongest first. Only the first two may widen a list.
const (
	builtin       = "builtin"
	administrator = "administrator"
	user          = "user"
)

// maxFile bounds one policy file in bytes.
const maxFile = 4 << 20

// source is a layer as read: parsed, not yet checked.
type source struct {
	layer   string
	files   map[string][]byte
	names   []string // of files, in lexical order
	modules []module
	lists   []list
	digest  string // of what decides: rules and lists
	stamp   string // of everything, tests too
}

type module struct {
	file string // "layer/path"
	ast  *ast.Module
	test bool
}

// collect reads the files of a layer without looking into them.
func collect(l Layer) (source, error) {
	s := source{layer: l.Name, files: map[string][]byte{}}
	if !layerName.MatchString(l.Name) || l.Name == "rules" {
		return s, fmt.Errorf("the policy layer %q needs a plain lower-case name, such as \"user\"", l.Name)
	}
	if l.FS == nil {
		return s, nil
	}
	var err error
	if l.Signature != nil {
		s.files, err = unbundle(l)
	} else {
		s.files, err = loose(l)
	}
	if err != nil {
		return source{}, err
	}
	s.names = slices.Sorted(maps.Keys(s.files))
	decides, all := sha256.New(), sha256.New()
	for _, p := range s.names {
		fmt.Fprintf(all, "file %s %d\n%s", p, len(s.files[p]), s.files[p])
		if !isTest(p) {
			fmt.Fprintf(decides, "file %s %d\n%s", p, len(s.files[p]), s.files[p])
		}
	}
	s.digest = hex.EncodeToString(decides.Sum(nil))
	s.stamp = hex.EncodeToString(all.Sum(nil))
	return s, nil
}

// loose lists the files of a layer that is a folder. A folder that does not
// exist is an empty layer.
func loose(l Layer) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(l.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "schema" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(p); ext != ".rego" && ext != ".yaml" && ext != ".yml" {
			return nil
		}
		files[p], err = readBounded(l.FS, p)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the policy layer %q: %w", l.Name, err)
	}
	return files, nil
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.rego") }

// parse fills the modules and lists. All its errors name file and line.
func (r reader) parse(s *source) error {
	var problems []string
	for _, p := range s.names {
		if err := r.add(s, p, s.files[p]); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("read the policy layer %q:\n%s", s.layer, strings.Join(problems, "\n"))
	}
	return nil
}

// Digest is the digest of a layer's rules and lists, whether or not they are
// sound; a person accepts a project's layer by it.
func Digest(l Layer) (string, error) {
	s, err := collect(l)
	return s.digest, err
}

func (s source) empty() bool { return len(s.names) == 0 }

// stamp changes when any file of any layer does.
func stamp(sources []source) string {
	var b strings.Builder
	for _, s := range sources {
		b.WriteString(s.stamp + "\n")
	}
	return b.String()
}

func readBounded(from fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(from, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is %d bytes; split it, the most is %d", name, info.Size(), maxFile)
	}
	return fs.ReadFile(from, name)
}

func (r reader) add(s *source, p string, text []byte) error {
	file := s.layer + "/" + p
	if path.Ext(p) != ".rego" {
		l, err := r.parseList(file, text)
		if err == nil {
			s.lists = append(s.lists, l)
		}
		return err
	}
	m, err := ast.ParseModuleWithOpts(file, string(text), ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
	if err != nil {
		return err
	}
	s.modules = append(s.modules, module{file: file, ast: m, test: isTest(p)})
	return nil
}

// checkPlace holds each layer to its own packages, so that none can redefine
// what another one says: the built-in rules have data.sallyport.rules, a layer
// has data.sallyport.<layer> and what is beneath it.
func (s *source) checkPlace() error {
	for _, m := range s.modules {
		parts := packagePath(m.ast)
		own := s.layer
		if s.layer == builtin {
			own = "rules"
		}
		ok := len(parts) >= 2 && parts[0] == "sallyport" && (parts[1] == own || m.test && parts[1] == own+"_test")
		if !ok {
			want := "sallyport." + own
			return fmt.Errorf("%s:%d: package %s is not this layer's: call it %s or beneath it",
				m.file, m.ast.Package.Location.Row, strings.Join(parts, "."), want)
		}
	}
	return nil
}

// packagePath is the package without its leading data.
func packagePath(m *ast.Module) []string {
	var parts []string
	for _, t := range m.Package.Path[1:] {
		s, ok := t.Value.(ast.String)
		if !ok {
			return nil
		}
		parts = append(parts, string(s))
	}
	return parts
}
