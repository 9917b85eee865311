package inspect

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sallyport/policy"
	"sallyport/sandbox"
)

// FuzzInspect: no text makes the inspector panic or run past its bounds. A
// panic inside is caught and reported as opaque; here it is a failure.
func FuzzInspect(f *testing.F) {
	for _, e := range evasions()[:200] {
		f.Add(e.text)
	}
	for _, c := range carriers {
		f.Add(c.wrap("rm -rf /"))
	}
	for _, text := range []string{
		`jq --arg a b .x f; yq -i e .x f; cmake -E env A=1 rm x; bwrap --bind / / sh; capsh -- -c x; 7z a x y`,
		`vim -es -c ':%!x' -c 'w! f' -c 'call system("x")' -c 'py import os'; awk -v F=x '{print > F}'; sed -i '' p f`,
		`$MAKE x; $(go env GOPATH)/bin/x; $(which x) y; bin/*/x; eval "$(pyenv init -)"; p=($!); kill "${p[@]}"`,
		`tool 'run("rm -rf x") {/etc/y}' --in=@/a <<< '!rm x'; python3 -c "open('/a'); rmtree('x')"`,
	} {
		f.Add(text)
	}
	f.Add(script50)
	f.Add(strings.Repeat("$(", 3000))
	f.Add("{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}")
	f.Add("a=a; ((a++, b[a]=1)); ${a[@]:1:2} ${!a} ${a@P} ${#a[*]}")
	i := New(Options{Files: func(string) (Files, error) { return memory{"x.sh": "echo hi"}, nil }})
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		facts, err := i.Inspect(context.Background(), shellCall(text))
		require.NoError(t, err)
		if facts.Opaque != nil {
			require.NotContains(t, facts.Opaque.Reason, "gave up")
		}
		require.Less(t, time.Since(start), 10*maxTime, "bounded time")
		require.LessOrEqual(t, len(facts.Cmds), maxCommands)
	})
}

// FuzzAgainstBash: a command line made from the fuzzer's bytes runs the same
// arguments in bash as the facts show, or the facts say that they do not know.
// The grammar makes only words, quotes and expansions around recorded programs.
func FuzzAgainstBash(f *testing.F) {
	for _, s := range []string{"", "abcdefgh", "0123456789", "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99", "the quick brown fox jumps over the lazy dog", strings.Repeat("\x07\x0b\x0d", 30)} {
		f.Add([]byte(s))
	}
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		g := &grammar{bytes: choices}
		agree(t, o, g.text())
	})
}

// TestRandomAgainstBash is the same with a fixed seed, so that it runs always.
func TestRandomAgainstBash(t *testing.T) {
	o := newOracle(t)
	x := uint32(20261129)
	n := 150
	if s := os.Getenv("RANDOM_CASES"); s != "" {
		n, _ = strconv.Atoi(s)
		x += uint32(n)
	}
	for range n {
		b := make([]byte, 60)
		for i := range b {
			x = x*1664525 + 1013904223
			b[i] = byte(x >> 24)
		}
		g := &grammar{bytes: b}
		agree(t, o, g.text())
	}
}

func agree(t *testing.T, o *oracle, text string) {
	f := look(t, nil, text)
	for _, argv := range o.run(t, text) {
		assert.NotEmpty(t, sees(f, argv), "bash ran what the facts do not show\n%s\n%q\n%v", text, argv, shown(t, text))
	}
}

func shown(t *testing.T, text string) (out []string) {
	for _, c := range look(t, nil, text).Cmds {
		out = append(out, strings.Join(c.Argv, "|"))
	}
	return out
}

// grammar turns bytes into a command line.
type grammar struct {
	bytes []byte
	depth int
}

func (g *grammar) pick(n int) int {
	if len(g.bytes) == 0 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return int(b) % n
}

func (g *grammar) of(options ...string) string { return options[g.pick(len(options))] }

func (g *grammar) text() string {
	var lines []string
	for range 1 + g.pick(4) {
		lines = append(lines, g.statement())
	}
	return strings.Join(lines, g.of("\n", "; ", " && ", " || ", "\n"))
}

func (g *grammar) statement() string {
	if g.depth > 3 {
		return g.command()
	}
	g.depth++
	defer func() { g.depth-- }()
	switch g.pick(30) {
	case 16:
		return g.of("break", "continue", "return", "return 1", "exit", "break 2", "exit 1 2", "return 2>&-")
	case 17:
		return "for i in 1 2; do " + g.statement() + "; " + g.of("break", "continue", ":", "break 2") + "; " + g.statement() + "; done"
	case 18:
		return g.of("f", "g", "rm") + "() { " + g.statement() + "; " + g.of("return", ":", "return 0") + "; " + g.statement() + "; }; " + g.of("f", "g", "rm") + " " + g.word()
	case 19:
		return g.of("local ", "declare ", "export ", "readonly ", "typeset ") + g.of("a", "b", "c") + "=" + g.word()
	case 20:
		return g.of("declare -l ", "declare -u ", "declare -i ", "declare -n ", "declare -r ") + g.of("a", "b", "c") + "=" + g.of("a", "b", "RM", "rm", "1+1")
	case 21:
		return "unset " + g.of("a", "b", "-f f", "-f rm", "c", "-v a")
	case 22:
		return "trap " + sq(g.statement()) + " " + g.of("EXIT", "DEBUG", "ERR", "RETURN")
	case 23:
		return g.statement() + " | { " + g.of("read a", "read -r a b", ":") + "; " + g.statement() + "; }"
	case 24:
		return "{ " + g.statement() + "; } " + g.of("&& ", "|| ", "; ") + g.statement()
	case 25:
		return g.of("shift", "set -e", "set -u", "set +B", "shopt -s lastpipe", "set -a", "shopt -s expand_aliases", "IFS=x", "IFS=", "set -f", "set -k")
	case 26:
		return "alias " + g.of("rm", "x", "git") + "=" + g.of("echo", "rm", "git", "'victim q'")
	case 27:
		return "! " + g.statement()
	case 28:
		return "printf -v " + g.of("a", "b", "$c") + " " + g.of("rm", "'%s' git", "x")
	case 29:
		return "echo " + sq(g.statement()) + " > s; " + g.of("bash s", ". ./s", "bash < s", "source ./s x y")
	case 0:
		return g.assignment()
	case 1:
		return g.assignment()
	case 2:
		return "if " + g.of("true", "false", "[ x = y ]", g.command()) + "; then " + g.statement() + "; else " + g.statement() + "; fi"
	case 3:
		return "for " + g.of("a", "b", "c") + " in " + g.word() + " " + g.word() + "; do " + g.statement() + "; done"
	case 4:
		return "{ " + g.statement() + "; " + g.statement() + "; }"
	case 5:
		return "( " + g.statement() + "; " + g.statement() + " )"
	case 6:
		return "eval " + sq(g.statement())
	case 7:
		return "f() { " + g.statement() + "; }; f " + g.word() + " " + g.word()
	case 8:
		return "case " + g.word() + " in " + g.of("x", "*", "r*") + ") " + g.statement() + ";; *) " + g.statement() + ";; esac"
	case 9:
		return "bash -c " + sq(g.statement()) + " " + g.of("", "n x y")
	case 10:
		return "set -- " + g.word() + " " + g.word()
	case 11:
		return "echo " + sq(g.statement()) + " | bash"
	case 12:
		return "while true; do " + g.statement() + "; break; done"
	case 13:
		return "read -r " + g.of("a", "a b", "c") + " <<< " + g.word()
	}
	return g.command()
}

func (g *grammar) command() string {
	parts := []string{g.of("", "", "A=1 ", "a="+g.word()+" ") + g.of("rm", "git", "chmod", "dd", g.word(), "victim")}
	for range g.pick(4) {
		parts = append(parts, g.word())
	}
	return strings.Join(parts, " ")
}

func (g *grammar) assignment() string {
	return g.of("a", "b", "c") + g.of("=", "=", "+=") + g.of(g.word(), "("+g.word()+" "+g.word()+")", "", "rm", "git", "b", "a")
}

func (g *grammar) word() string {
	var b strings.Builder
	for range 1 + g.pick(3) {
		b.WriteString(g.part())
	}
	return b.String()
}

func (g *grammar) part() string {
	switch g.pick(24) {
	case 0, 1, 2:
		return g.of("rm", "x", "-rf", "g", "it", "7", "=", ".", "a b"[:1])
	case 3:
		return "'" + g.of("r m", "x", "", "$a", `\`, "*") + "'"
	case 4:
		return `"` + g.of("r m", "x", "", "$a", `\$a`, `\\`, "${b}", "$(echo x  y)", "`echo z`", "${a:-q r}") + `"`
	case 5:
		return `\` + g.of("r", "x", "$", " ", `\`, "'", "*", "~")
	case 6:
		return "$'" + g.of(`\x72\x6d`, `\162`, `a\tb`, `\n`, `q\'q`, `\u0072`, `\e`) + "'"
	case 7:
		return "$" + g.of("a", "b", "c", "1", "2", "@", "*", "#")
	case 8:
		return "${" + g.of("a", "b", "c", "1", "zz") + "}"
	case 9:
		return "${" + g.of("a", "b", "zz") + g.of(":-", "-", ":=", ":+", "+") + g.of("rm", "x y", "$a", "'q r'", `\z`, `"d e"`, "") + "}"
	case 10:
		return "${" + g.of("a", "b") + g.of("#r", "##*r", "%m", "%%m*", "/r/x", "//m/y", "^", "^^", ",", ",,", "/#r/q", "/%m/q") + "}"
	case 11:
		return "${" + g.of("a", "b") + g.of(":0:1", ":1", ":1:2", ": -1", ":0:-1", ":5") + "}"
	case 12:
		return "${#" + g.of("a", "b", "c") + "}"
	case 13:
		return "${!" + g.of("a", "b", "c") + "}"
	case 14:
		return "$(" + g.of("echo rm", "echo a b", "printf x", "printf '%s' r m", "echo", "echo 'q  r'", "printf '\\x72'", "echo -n x", "echo -e 'a\\tb'") + ")"
	case 15:
		return "{" + g.of("r,s", "rm,x", "1..3", "a..c", ",x", "x", "a,{b,c}", "3..1", "01..03") + "}"
	case 16:
		return "$((" + g.of("1+1", "a", "2*3", "a+1", "7/2", "1<<3", "10%3", "0x10", "!0") + "))"
	case 17:
		return g.of("~", "~/x", "*", "?", "[ab]", "!", "#x", "%", "@", "^", ":", ",", "+x", "]")
	case 18:
		return `"` + g.of("$@", "$*", "${a[@]}", "${a[*]}", "${a[0]}", "${#a[@]}", "${a[1]}") + `"`
	case 19:
		return g.of("$@", "$*", "${a[@]}", "${a[*]}", "${a[0]}", "${a[1]}", "${a[-1]}")
	case 20:
		return "`echo " + g.of("rm", "a b", "x") + "`"
	case 21:
		return g.of("é", "日本", "\u00a0", "\u200b", "\u00e9x")
	}
	return g.of("rm", "x", "git", "-f", "--force")
}

// FuzzContent: no written bytes make the scan panic, whatever file they are.
func FuzzContent(f *testing.F) {
	for _, s := range []string{script50, "import os\nos.system('x')", `{"scripts":{"a":"rm -rf /"}}`, "all:\n\t$(RM) $@ ${X:a=b}\n", "BEGIN{system(\"x\")}", "s/a/b/e;w x", "\u202e\x00\xff", "q{", "a = [\"x\", f'{y}'", "eyJ.eyJ.x AKIA sk-ant-"} {
		f.Add("a.sh", []byte(s))
		f.Add("Makefile", []byte(s))
		f.Add("a.py", []byte(s))
		f.Add("package.json", []byte(s))
		f.Add("x.awk", []byte(s))
		f.Add("x.sed", []byte(s))
	}
	i := New(Options{})
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		facts, err := i.Inspect(context.Background(), policy.Call{Action: sandbox.Action{Workspace: root, Files: []sandbox.FileOp{
			{Op: sandbox.OpWrite, Path: name, Write: &sandbox.Write{Content: b}},
		}}})
		require.NoError(t, err)
		if facts.Opaque != nil {
			require.NotContains(t, facts.Opaque.Reason, "gave up")
		}
	})
}
