package inspect

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
	"sallyport/sandbox"
)

// written is what a call itself writes before it runs it: echo … > x.sh; sh x.sh.
// A nil content is one that is not known.
type written map[string]*string

// writesOut reports whether a redirect puts the standard output into a file.
func writesOut(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
		return r.N == nil || r.N.Value == "1"
	}
	return false
}

// captures remembers what a statement's output redirects leave in files.
func (w *walker) captures(s *syntax.Stmt) {
	if !slices.ContainsFunc(s.Redirs, writesOut) {
		return
	}
	quiet := *s
	quiet.Redirs = nil
	for _, r := range s.Redirs {
		if !writesOut(r) {
			quiet.Redirs = append(quiet.Redirs, r)
		}
	}
	text, ok := "", s.Cmd == nil
	if s.Cmd != nil {
		text, ok = w.prints([]*syntax.Stmt{&quiet})
	}
	for _, r := range s.Redirs {
		if !writesOut(r) {
			continue
		}
		to := w.one(r.Word)
		if to.opaque {
			continue
		}
		content := &text
		if !ok {
			content = nil
		}
		w.in.wrote(w.in.abs(w.sc.dir(), to.s), content, r.Op == syntax.AppOut || r.Op == syntax.AppAll)
	}
}

// wrote remembers the content of a file that the call writes.
func (in *inspection) wrote(abs string, content *string, more bool) {
	if abs == "" || harmless[abs] || len(in.written) > 500 {
		return
	}
	if in.written == nil {
		in.written = written{}
	}
	if more && content != nil {
		old, ok := in.held(abs)
		switch {
		case ok && old == nil:
			content = nil
		case ok:
			joined := *old + *content
			content = &joined
		}
	}
	in.written[abs] = content
}

// held is the content of a file as the call sees it: what it wrote itself, or
// what lies in the workspace. ok is false for a file that is not there.
func (in *inspection) held(abs string) (content *string, ok bool) {
	if s, ok := in.written[abs]; ok {
		return s, true
	}
	rel, inside := in.inside(abs)
	if !inside || in.files == nil {
		return nil, false
	}
	b, err := in.files.ReadFile(rel, maxScript)
	if err != nil {
		return nil, in.files.Exists(rel) != "absent"
	}
	return known(string(b)), true
}

// leaves remembers what a command other than a redirect writes.
func (c *call) leaves() {
	switch c.name {
	case "tee":
		for _, a := range c.args {
			c.w.in.wrote(c.w.in.abs(c.dir, a.s), c.w.stdin, c.flag("-a"))
		}
		return
	case "cp", "mv", "install", "ln":
		if len(c.args) == 2 && !c.args[0].opaque && !c.args[1].opaque {
			content, _ := c.w.in.held(c.w.in.abs(c.dir, c.args[0].s))
			c.w.in.wrote(c.w.in.abs(c.dir, c.args[1].s), content, false)
			return
		}
	case "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "rustc", "go", "javac":
		if c.compilesOwn() {
			return
		}
	case "touch", "mkdir", "chmod", "chown", "chgrp", "git", "sed":
		return
	}
	for _, t := range c.targets {
		if t.Op == string(sandbox.OpWrite) && t.Path != "" {
			c.w.in.wrote(c.w.in.abs(c.w.in.root, t.Path), nil, false)
		}
	}
}

// sources are the endings of files that compilers read.
var sources = set(".c .cc .cpp .cxx .h .hpp .s .S .go .rs .java")

// compilesOwn reports whether a compiler reads nothing but what lay there before
// the call: its program is then as good as any other of the workspace.
func (c *call) compilesOwn() bool {
	if c.w.fed != "" || c.w.stdin != nil || c.w.fromFile {
		return false
	}
	for file := range c.w.in.written {
		if sources[path.Ext(file)] {
			return false
		}
	}
	return !slices.ContainsFunc(c.targets, func(t policy.FileFact) bool {
		_, made := c.w.in.written[c.w.in.abs(c.w.in.root, t.Path)]
		return t.Op == string(sandbox.OpRead) && made
	})
}

// standard is the text of a script that is the standard input or a
// substitution.
func (w *walker) standard(abs string) (content *string, ok bool) {
	switch {
	case abs == "/dev/stdin", abs == "/dev/fd/0", abs == "/proc/self/fd/0":
		return w.stdin, true
	case strings.HasPrefix(abs, "/dev/fd/"):
		s, ok := w.in.written[abs]
		return s, ok
	}
	return nil, false
}

// ranUnknown marks a command that runs a text which the call makes and which
// is not known before.
func (c *call) ranUnknown(path string) {
	c.opaque = "runs a file that this call itself writes"
	c.script = &policy.Script{Path: path, Findings: []policy.Finding{{
		Rule: "script.written-here", Severity: "high", Path: path, Text: "the call writes this file and runs it; its content is not known before",
	}}}
}
