package inspect

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// prints tells what statements are known to write to their standard output:
// those made of echo, printf, cat and the decoders only. It records no facts.
func (w *walker) prints(stmts []*syntax.Stmt) (string, bool) {
	if w.depth > maxDepth || len(stmts) == 0 || len(stmts) > 8 {
		return "", false
	}
	var out strings.Builder
	for _, s := range stmts {
		c := w.within("", true)
		t, ok := c.printsOne(s)
		if !ok || out.Len() > maxParse {
			return "", false
		}
		out.WriteString(t)
	}
	return out.String(), true
}

func (w *walker) printsOne(s *syntax.Stmt) (string, bool) {
	if s.Background {
		return "", false
	}
	if s.Cmd == nil && len(s.Redirs) == 1 && s.Redirs[0].Op == syntax.RdrIn {
		return w.file(w.one(s.Redirs[0].Word))
	}
	for _, r := range s.Redirs {
		if r.Op != syntax.RdrIn && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc && (r.N == nil || r.N.Value != "2") {
			return "", false
		}
	}
	if in, ok := w.input(s.Redirs); ok {
		w.stdin = in
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 || len(c.Assigns) > 0 {
			return "", false
		}
		argv := w.fields(c.Args)
		args := make([]string, len(argv))
		for i, a := range argv {
			if a.opaque {
				return "", false
			}
			args[i] = a.s
		}
		if len(args) == 0 || w.redefined(args[0]) {
			return "", false
		}
		return w.pure(args)
	case *syntax.BinaryCmd:
		if c.Op == syntax.OrStmt {
			return w.printsOne(c.X)
		}
		if c.Op == syntax.AndStmt {
			left, ok := w.printsOne(c.X)
			if !ok {
				return "", false
			}
			right, ok := w.printsOne(c.Y)
			return left + right, ok
		}
		if c.Op != syntax.Pipe {
			return "", false
		}
		left, ok := w.printsOne(c.X)
		if !ok {
			return "", false
		}
		w.stdin = &left
		return w.printsOne(c.Y)
	case *syntax.Block:
		return w.prints(c.Stmts)
	case *syntax.Subshell:
		return w.prints(c.Stmts)
	}
	return "", false
}

// pure is the output of one command that only transforms text.
func (w *walker) pure(args []string) (string, bool) {
	name, rest := path.Base(args[0]), args[1:]
	switch name {
	case "command", "builtin", "env", "nohup", "sudo":
		if len(rest) > 1 && (rest[0] == "-v" || rest[0] == "-V") {
			return w.in.lookup(rest[1]) + "\n", w.in.lookup(rest[1]) != ""
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.Contains(rest[0], "=") {
			return w.pure(rest)
		}
	case "which":
		if len(rest) > 0 {
			return w.in.lookup(rest[len(rest)-1]) + "\n", w.in.lookup(rest[len(rest)-1]) != ""
		}
	case "echo":
		return echo(rest), true
	case "cat":
		if len(rest) == 1 && !strings.HasPrefix(rest[0], "-") {
			return w.file(word{s: rest[0]})
		}
	case ":", "true":
		return "", true
	case "printf":
		return w.printf(rest)
	case "pwd":
		return w.sc.dir() + "\n", w.sc.dir() != ""
	case "mktemp":
		return "/tmp/tmp.XXXXXXXXXX\n", len(rest) == 0 || len(rest) == 1 && rest[0] == "-d"
	case "basename":
		if len(rest) == 1 {
			return path.Base(rest[0]) + "\n", true
		}
	case "dirname":
		if len(rest) == 1 {
			return path.Dir(rest[0]) + "\n", true
		}
	case "realpath", "readlink":
		if n := len(rest); n > 0 && path.IsAbs(rest[n-1]) {
			return path.Clean(rest[n-1]) + "\n", name == "realpath"
		}
	case "git":
		if strings.Join(rest, " ") == "rev-parse --show-toplevel" {
			return w.in.root + "\n", true
		}
	}
	if w.stdin == nil {
		return "", false
	}
	return filter(name, rest, *w.stdin)
}

// file is the content of a file as the call sees it.
func (w *walker) file(name word) (string, bool) {
	if name.opaque {
		return "", false
	}
	content, ok := w.in.held(w.in.abs(w.sc.dir(), name.s))
	if !ok || content == nil || len(*content) > maxParse {
		return "", false
	}
	return *content, true
}

// filter is the output of a command that transforms its standard input.
func filter(name string, args []string, in string) (string, bool) {
	switch name {
	case "cat":
		return in, len(args) == 0 || len(args) == 1 && args[0] == "-"
	case "tee":
		return in, true
	case "rev":
		lines := strings.Split(strings.TrimSuffix(in, "\n"), "\n")
		for i, l := range lines {
			lines[i] = reverse(l)
		}
		return strings.Join(lines, "\n") + "\n", len(args) == 0
	case "tr":
		return translate(args, in)
	}
	return decodeFilter(name, args, in)
}

func reverse(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// translate is tr for plain sets and ranges.
func translate(args []string, in string) (string, bool) {
	if len(args) == 2 && args[0] == "-d" {
		set, ok := trSet(args[1])
		if !ok {
			return "", false
		}
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(set, r) {
				return -1
			}
			return r
		}, in), true
	}
	if len(args) != 2 {
		return "", false
	}
	from, ok1 := trSet(args[0])
	to, ok2 := trSet(args[1])
	if !ok1 || !ok2 || to == "" {
		return "", false
	}
	f, t := []rune(from), []rune(to)
	return strings.Map(func(r rune) rune {
		for i, c := range f {
			if c == r {
				return t[min(i, len(t)-1)]
			}
		}
		return r
	}, in), true
}

func trSet(s string) (string, bool) {
	s = strings.NewReplacer("[:lower:]", "a-z", "[:upper:]", "A-Z", "[:digit:]", "0-9", "[:space:]", " \t\n\v\f\r", `\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(s)
	if strings.HasPrefix(s, "-") {
		return "", false
	}
	r := []rune(s)
	var out []rune
	for i := 0; i < len(r); i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i] <= r[i+2] && r[i+2]-r[i] < 256 {
			for c := r[i]; c <= r[i+2]; c++ {
				out = append(out, c)
			}
			i += 2
			continue
		}
		out = append(out, r[i])
	}
	return string(out), true
}

func echo(args []string) string {
	nl, esc := "\n", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		for _, c := range args[0][1:] {
			switch c {
			case 'n':
				nl = ""
			case 'e':
				esc = true
			case 'E':
				esc = false
			}
		}
		args = args[1:]
	}
	s := strings.Join(args, " ")
	if esc {
		s = escapes(s)
	}
	return s + nl
}

// escapes resolves the backslash escapes of echo -e and printf %b. The library
// shares one configuration among all callers that pass none, so one is passed.
func escapes(s string) string {
	out, _, err := expand.Format(&expand.Config{}, octal(s), nil)
	if err != nil {
		return s
	}
	return out
}

// octal turns \0nnn, which only echo -e and %b know, into \nnn.
func octal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			b.WriteByte('\\')
			i++
			if s[i] == '0' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '7' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (w *walker) printf(args []string) (string, bool) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "-v" {
		return "", false
	}
	format, rest := args[0], args[1:]
	if strings.Contains(format, "%(") || strings.Contains(format, "%q") || strings.Contains(format, "*") {
		return "", false
	}
	format = strings.ReplaceAll(format, "%b", "%s")
	if strings.Contains(args[0], "%b") {
		rest = append([]string(nil), rest...)
		for i := range rest {
			rest[i] = escapes(rest[i])
		}
	}
	var out strings.Builder
	for {
		s, n, err := expand.Format(&expand.Config{}, format, rest)
		if err != nil || out.Len() > maxText {
			return "", false
		}
		out.WriteString(s)
		rest = rest[min(n, len(rest)):]
		if n == 0 || len(rest) == 0 {
			return out.String(), true
		}
	}
}
