package inspect

import (
	"slices"
	"strings"
	"sync"
)

// opt is one option found among the arguments.
type opt struct {
	name  string // as written, without its value: "-r", "--force"
	spec  *optSpec
	value word
	has   bool // a value was given
}

// optSpec is one option of a program: all its names, and what its value is.
type optSpec struct {
	names []string
	takes byte // 0 none, ':' required, '?' optional and attached
	role  byte // what the program does with the value, see programs.go
}

// program is one row of the table, compiled.
type program struct {
	name  string
	opts  map[string]*optSpec // by "-r" and "--recursive"
	longs []string            // "--recursive" …, sorted, for abbreviations
	ops   string              // roles of the operands
	sub   bool                // the first operand is a command of its own
	stop  bool                // options end at the first operand
	dash  bool                // long options have one dash
	bare  bool                // the first argument may be bundled flags without a dash: tar xf
}

// programs is the compiled table.
var programs = sync.OnceValue(func() map[string]*program {
	m := make(map[string]*program, len(table))
	for _, r := range table {
		for _, name := range strings.Fields(r.names) {
			m[name] = compile(name, r)
		}
	}
	return m
})

func compile(name string, r row) *program {
	p := &program{name: name, opts: map[string]*optSpec{}, ops: r.operands}
	for _, t := range strings.Fields(r.traits) {
		switch t {
		case "sub":
			p.sub = true
		case "stop":
			p.stop = true
		case "dash":
			p.dash = true
		case "bare":
			p.bare = true
		}
	}
	for _, tok := range strings.Fields(r.options) {
		s := &optSpec{}
		if i := strings.IndexAny(tok, ":?"); i >= 0 {
			s.takes = tok[i]
			if i+1 < len(tok) {
				s.role = tok[i+1]
			}
			tok = tok[:i]
		}
		for _, n := range strings.Split(tok, ",") {
			if len(n) == 1 || p.dash {
				n = "-" + n
			} else {
				n = "--" + n
				p.longs = append(p.longs, n)
			}
			s.names = append(s.names, n)
			p.opts[n] = s
		}
	}
	slices.Sort(p.longs)
	return p
}

// readArgs divides arguments into options and operands as getopt_long does.
func readArgs(p *program, argv []word) (opts []opt, operands []word) {
	if p == nil {
		p = unlisted
	}
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		switch {
		case a.s == "--":
			return opts, append(operands, argv[i+1:]...)
		case p.bare && i == 0 && len(a.s) > 0 && a.s[0] != '-' && !a.opaque:
			var n int
			opts, n = p.cluster(opts, "-"+a.s, argv[i+1:])
			i += n
		case len(a.s) < 2 || a.s[0] != '-' || a.opaque && !strings.HasPrefix(a.s, "-"):
			operands = append(operands, a)
			if p.stop {
				return opts, append(operands, argv[i+1:]...)
			}
		case p.dash || strings.HasPrefix(a.s, "--"):
			o, used := p.long(a, argv[i+1:])
			opts = append(opts, o)
			i += used
		case negative(a.s) && p.opts[a.s[:2]] == nil:
			opts = append(opts, opt{name: a.s})
		default:
			var n int
			opts, n = p.cluster(opts, a.s, argv[i+1:])
			if a.opaque && len(opts) > 0 {
				opts[len(opts)-1].value.opaque = true
			}
			i += n
		}
	}
	return opts, operands
}

// unlisted reads the arguments of a program the table does not know.
var unlisted = &program{opts: map[string]*optSpec{}}

func negative(s string) bool {
	return len(s) > 1 && strings.Trim(s[1:], "0123456789") == ""
}

// long reads one --option; its name may be shortened as long as it is
// unambiguous.
func (p *program) long(a word, rest []word) (opt, int) {
	name, value, has := strings.Cut(a.s, "=")
	o := opt{name: name, value: word{s: value, opaque: a.opaque}, has: has}
	o.spec = p.opts[name]
	if o.spec == nil && p.dash && strings.HasPrefix(name, "--") {
		o.spec = p.opts[name[1:]]
	}
	if o.spec == nil && !p.dash {
		o.spec = p.abbreviated(name)
	}
	if o.spec != nil && o.spec.takes == ':' && !has && len(rest) > 0 {
		o.value, o.has = rest[0], true
		return o, 1
	}
	return o, 0
}

func (p *program) abbreviated(name string) *optSpec {
	i, _ := slices.BinarySearch(p.longs, name)
	if i >= len(p.longs) || !strings.HasPrefix(p.longs[i], name) {
		return nil
	}
	s := p.opts[p.longs[i]]
	for _, l := range p.longs[i:] {
		if !strings.HasPrefix(l, name) {
			break
		}
		// An ambiguous name is an error to the program; of the candidates the
		// one that does something is the one to look at.
		if c := p.opts[l]; c.role != 0 && s.role == 0 {
			s = c
		}
	}
	return s
}

// cluster reads grouped short options: -xzf file.
func (p *program) cluster(opts []opt, s string, rest []word) ([]opt, int) {
	used := 0
	for i := 1; i < len(s); i++ {
		name := "-" + s[i:i+1]
		spec := p.opts[name]
		o := opt{name: name, spec: spec}
		if spec == nil || spec.takes == 0 {
			opts = append(opts, o)
			continue
		}
		switch {
		case p.bare && spec.takes == ':' && used < len(rest) && !strings.HasPrefix(s[1:], "-") && i+1 < len(s) && p.knownCluster(s[i+1:]):
			o.value, o.has = rest[used], true
			used++
			opts = append(opts, o)
			continue
		case i+1 < len(s):
			o.value, o.has = word{s: strings.TrimPrefix(s[i+1:], "=")}, true
		case spec.takes == ':' && used < len(rest):
			o.value, o.has = rest[used], true
			used++
		}
		return append(opts, o), used
	}
	return opts, used
}

// knownCluster reports whether every letter is an option of the program, as in
// tar's old form where values follow in order.
func (p *program) knownCluster(s string) bool {
	for i := range len(s) {
		if p.opts["-"+s[i:i+1]] == nil {
			return false
		}
	}
	return true
}

// flagNames are the options in the form rules see: each name the program knows
// the option by, grouped short options split, sorted, without values.
func flagNames(p *program, opts []opt, argv []word) []string {
	out := make([]string, 0, 2*len(opts))
	add := func(n string) {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, o := range opts {
		if o.spec == nil {
			add(o.name)
			continue
		}
		for _, n := range o.spec.names {
			add(n)
		}
	}
	if p == nil {
		for _, a := range argv {
			if a.s == "--" {
				break
			}
			if len(a.s) > 2 && a.s[0] == '-' && a.s[1] != '-' {
				add(a.s)
			}
		}
	}
	slices.Sort(out)
	return out
}

// value is the last value of an option, by any of its names.
func (c *call) value(name string) (word, bool) {
	for _, o := range slices.Backward(c.opts) {
		if o.has && o.is(name) {
			return o.value, true
		}
	}
	return word{}, false
}

func (c *call) flag(name string) bool {
	return slices.ContainsFunc(c.opts, func(o opt) bool { return o.is(name) })
}

func (o opt) is(name string) bool {
	return o.name == name || o.spec != nil && slices.Contains(o.spec.names, name)
}
