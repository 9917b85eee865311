package inspect

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"sallyport/policy"
)

// The evasion suite: a victim command, hidden in every way the classes below
// know, inside every carrier. What it must show in the facts is told by bash:
// the recorded arguments for the same text with a harmless path.

// disguise hides a command in spelling. It returns what comes before, and the
// command.
type disguise struct {
	name string
	hide func(argv []string) (before, text string)
}

func words(argv []string) string { return strings.Join(argv, " ") }

// each applies a function to every word.
func each(f func(string) string) func([]string) (string, string) {
	return func(argv []string) (string, string) {
		out := make([]string, len(argv))
		for i, a := range argv {
			out[i] = f(a)
		}
		return "", words(out)
	}
}

// name applies a function to the command name only.
func name(f func(string) string) func([]string) (string, string) {
	return func(argv []string) (string, string) { return "", words(append([]string{f(argv[0])}, argv[1:]...)) }
}

// split puts something between the first character and the rest.
func split(between string) func(string) string {
	return func(s string) string { return s[:1] + between + s[1:] }
}

func hexed(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\x%02x`, s[i])
	}
	return b.String()
}

func octals(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\%03o`, s[i])
	}
	return b.String()
}

func reversed(s string) string { return reverse(s) }

var disguises = []disguise{
	{"plain", each(func(s string) string { return s })},
	{"spaces", func(a []string) (string, string) { return "", strings.Join(a, "  \t ") }},
	{"single quotes", each(func(s string) string { return "'" + s + "'" })},
	{"double quotes", each(func(s string) string { return `"` + s + `"` })},
	{"split quotes", each(split(`""`))},
	{"split single", each(split(`''`))},
	{"backslash", each(func(s string) string { return `\` + s })},
	{"ansi-c hex", each(func(s string) string { return "$'" + hexed(s) + "'" })},
	{"ansi-c octal", each(func(s string) string { return "$'" + octals(s) + "'" })},
	{"locale quotes", each(func(s string) string { return `$"` + s + `"` })},
	{"continuation", name(split("\\\n"))},
	{"variable", func(a []string) (string, string) { return "v=" + a[0], "$v " + words(a[1:]) }},
	{"all variables", func(a []string) (string, string) {
		var b, t []string
		for i, w := range a {
			b = append(b, fmt.Sprintf("v%d='%s'", i, w))
			t = append(t, fmt.Sprintf("${v%d}", i))
		}
		return strings.Join(b, ";"), words(t)
	}},
	{"one variable", func(a []string) (string, string) { return "v='" + words(a) + "'", "$v" }},
	{"concatenated", func(a []string) (string, string) { return "a=" + a[0][:1] + " b=" + a[0][1:], "$a$b " + words(a[1:]) }},
	{"appended", func(a []string) (string, string) { return "a=" + a[0][:1] + "; a+=" + a[0][1:], "$a " + words(a[1:]) }},
	{"slice", func(a []string) (string, string) {
		return "v=xx" + a[0] + "yy", fmt.Sprintf("${v:2:%d} %s", len(a[0]), words(a[1:]))
	}},
	{"indirect", func(a []string) (string, string) { return "v=" + a[0] + " w=v", "${!w} " + words(a[1:]) }},
	{"array", func(a []string) (string, string) { return "v=(" + words(a) + ")", `"${v[@]}"` }},
	{"array parts", func(a []string) (string, string) { return "v=(x " + a[0] + ")", `${v[1]} ` + words(a[1:]) }},
	{"default", name(func(s string) string { return "${unset_v:-" + s + "}" })},
	{"assign default", name(func(s string) string { return "${unset_v:=" + s + "}" })},
	{"alternative", func(a []string) (string, string) { return "v=1", "${v:+" + a[0] + "} " + words(a[1:]) }},
	{"unset inside", name(split("${unset_v}"))},
	{"unset positional", name(split("$1"))},
	{"lower case", func(a []string) (string, string) { return "v=" + strings.ToUpper(a[0]), "${v,,} " + words(a[1:]) }},
	{"replace", func(a []string) (string, string) { return "v=Q" + a[0][1:], "${v/Q/" + a[0][:1] + "} " + words(a[1:]) }},
	{"remove suffix", func(a []string) (string, string) { return "v=" + a[0] + "QQ", "${v%QQ} " + words(a[1:]) }},
	{"remove prefix", func(a []string) (string, string) { return "v=QQ" + a[0], "${v#QQ} " + words(a[1:]) }},
	{"substitution", name(func(s string) string { return "$(echo " + s + ")" })},
	{"backticks", name(func(s string) string { return "`echo " + s + "`" })},
	{"printf substitution", name(func(s string) string { return "$(printf '" + hexed(s) + "')" })},
	{"base64 substitution", name(func(s string) string {
		return "$(echo " + base64.StdEncoding.EncodeToString([]byte(s)) + " | base64 -d)"
	})},
	{"rev substitution", name(func(s string) string { return "$(echo " + reversed(s) + " | rev)" })},
	{"tr substitution", name(func(s string) string { return "$(echo " + strings.ToUpper(s) + " | tr A-Z a-z)" })},
	{"hex substitution", name(func(s string) string { return "$(echo " + hex.EncodeToString([]byte(s)) + " | xxd -r -p)" })},
	{"whole substitution", func(a []string) (string, string) { return "", "$(echo " + words(a) + ")" }},
	{"substituted variable", func(a []string) (string, string) { return "v=$(echo " + a[0] + ")", "$v " + words(a[1:]) }},
	{"ifs", func(a []string) (string, string) { return "", strings.Join(a, "${IFS}") }},
	{"own ifs", func(a []string) (string, string) { return "v='" + strings.Join(a, "Q") + "'; IFS=Q", "$v" }},
	{"braces", func(a []string) (string, string) { return "", "{" + strings.Join(a, ",") + "}" }},
	{"brace in word", name(func(s string) string { return "{" + s + ",}" })},
	{"positional", func(a []string) (string, string) { return "set -- " + words(a), `"$@"` }},
	{"function", func(a []string) (string, string) { return "f() { " + a[0] + ` "$@"; }`, "f " + words(a[1:]) }},
	{"function argument", func(a []string) (string, string) { return `f() { "$@"; }`, "f " + words(a) }},
	{"function keyword", func(a []string) (string, string) { return "function f { " + words(a) + "; }", "f" }},
	{"read", func(a []string) (string, string) { return "read -r v <<< " + a[0], "$v " + words(a[1:]) }},
	{"read words", func(a []string) (string, string) { return "read -r v w <<< '" + words(a) + "'", "$v $w" }},
	{"printf -v", func(a []string) (string, string) { return "printf -v v '" + hexed(a[0]) + "'", "$v " + words(a[1:]) }},
	{"built in a loop", func(a []string) (string, string) {
		return "v=; for c in " + strings.Join(strings.Split(a[0], ""), " ") + "; do v=$v$c; done", "$v " + words(a[1:])
	}},
	{"either branch", func(a []string) (string, string) {
		return "if [ x = y ]; then v=echo; else v=" + a[0] + "; fi", "$v " + words(a[1:])
	}},
	{"case branch", func(a []string) (string, string) {
		return "case x in y) v=echo;; *) v=" + a[0] + ";; esac", "$v " + words(a[1:])
	}},
	{"after or", func(a []string) (string, string) { return "v=" + a[0] + "; false && v=echo", "$v " + words(a[1:]) }},
	{"subshell does not leak", func(a []string) (string, string) { return "v=" + a[0] + "; (v=echo)", "$v " + words(a[1:]) }},
	{"eval assign", func(a []string) (string, string) { return "eval v=" + a[0], "$v " + words(a[1:]) }},
	{"declare", func(a []string) (string, string) { return "declare v=" + a[0], "$v " + words(a[1:]) }},
	{"export", func(a []string) (string, string) { return "export v=" + a[0], "$v " + words(a[1:]) }},
	{"local in function", func(a []string) (string, string) {
		return "f() { local v=" + a[0] + "; $v " + words(a[1:]) + "; }", "f"
	}},
	{"assignment prefix", func(a []string) (string, string) { return "", "X=1 Y=2 " + words(a) }},
	{"arithmetic index", func(a []string) (string, string) { return "v=(x " + a[0] + ")", "${v[1+0]} " + words(a[1:]) }},
	{"ternary slice", func(a []string) (string, string) {
		return "v=" + a[0] + "zz; n=2", fmt.Sprintf("${v:0:${#v}-n} %s", words(a[1:]))
	}},
	{"nested default", name(func(s string) string { return "${a1:-${b1:-" + s + "}}" })},
	{"heredoc cat", name(func(s string) string { return "$(cat <<'E'\n" + s + "\nE\n)" })},
	{"here-string cat", name(func(s string) string { return "$(cat <<< " + s + ")" })},
	{"command -v", name(func(s string) string { return "$(command -v " + s + ")" })},
	{"tilde quoting", name(func(s string) string { return s + `""''` })},
	{"redirect first", func(a []string) (string, string) { return "", "2>&1 " + words(a) }},
	{"redirect between", func(a []string) (string, string) { return "", a[0] + " 2>&1 " + words(a[1:]) }},
	{"double dash", func(a []string) (string, string) { return "", "command -- " + words(a) }},
	{"comment after", func(a []string) (string, string) { return "", words(a) + " # harmless" }},
	{"alias name reuse", func(a []string) (string, string) { return "v='echo'; unset v; v=" + a[0], "$v " + words(a[1:]) }},
	{"mapfile", func(a []string) (string, string) { return "mapfile -t v <<< " + a[0], "${v[0]} " + words(a[1:]) }},
	{"set and shift", func(a []string) (string, string) { return "set -- x " + words(a) + "; shift", `"$@"` }},
	{"star positional", func(a []string) (string, string) { return "set -- " + words(a), "$*" }},
	{"associative", func(a []string) (string, string) { return "declare -A v; v[k]=" + a[0], "${v[k]} " + words(a[1:]) }},
	{"nameref", func(a []string) (string, string) { return "v=" + a[0] + "; declare -n w=v", "$w " + words(a[1:]) }},
	{"prompt operator", func(a []string) (string, string) { return "v=" + a[0], "${v@P} " + words(a[1:]) }},
}

// carrier puts a text inside another command.
type carrier struct {
	name string
	wrap func(text string) string
	real bool // bash can tell: what it starts is recorded
}

func sq(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

func rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

func pyQuote(s string) string {
	return "'" + strings.NewReplacer(`\\`, `\\\\`, "'", `\\'`, "\n", `\\n`).Replace(s) + "'"
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

var carriers = []carrier{
	{"bare", func(s string) string { return s }, true},
	{"subshell", func(s string) string { return "( " + s + "\n)" }, true},
	{"group", func(s string) string { return "{ " + s + "\n}" }, true},
	{"and", func(s string) string { return "true && { " + s + "\n}" }, true},
	{"or", func(s string) string { return "false || { " + s + "\n}" }, true},
	{"negated", func(s string) string { return "! { " + s + "\n}" }, true},
	{"background", func(s string) string { return "{ " + s + "\n} & wait" }, true},
	{"if", func(s string) string { return "if true; then " + s + "\nfi" }, true},
	{"else", func(s string) string { return "if false; then :; else " + s + "\nfi" }, true},
	{"condition", func(s string) string { return "if " + s + "\nthen :; fi" }, true},
	{"while", func(s string) string { return "while true; do " + s + "\nbreak; done" }, true},
	{"until", func(s string) string { return "until false; do " + s + "\nbreak; done" }, true},
	{"for", func(s string) string { return "for i in 1; do " + s + "\ndone" }, true},
	{"c-style for", func(s string) string { return "for ((i=0;i<1;i++)); do " + s + "\ndone" }, true},
	{"case", func(s string) string { return "case x in x) " + s + "\n;; esac" }, true},
	{"fall through", func(s string) string { return "case x in x) :;& y) " + s + "\n;; esac" }, true},
	{"pipe left", func(s string) string { return "{ " + s + "\n} | cat" }, true},
	{"pipe right", func(s string) string { return "echo | { " + s + "\n}" }, true},
	{"function body", func(s string) string { return "g() { " + s + "\n}; g" }, true},
	{"function in function", func(s string) string { return "g() { h() { " + s + "\n}; h; }; g" }, true},
	{"argument substitution", func(s string) string { return "echo \"$( " + s + "\n)\"" }, true},
	{"assignment substitution", func(s string) string { return "q=$( " + s + "\n)" }, true},
	{"here-document substitution", func(s string) string { return "cat <<E\n$( " + s + "\n)\nE" }, true},
	{"process substitution", func(s string) string { return "cat <( " + s + "\n)" }, true},
	{"test", func(s string) string { return "[[ -n $( " + s + "\n) ]]" }, true},
	{"redirect substitution", func(s string) string { return "echo <<< \"$( " + s + "\n)\"" }, true},
	{"trap", func(s string) string { return "trap " + sq(s) + " EXIT" }, true},
	{"eval", func(s string) string { return "eval " + sq(s) }, true},
	{"eval twice", func(s string) string { return "eval eval " + sq(sq(s)) }, true},
	{"sh -c", func(s string) string { return "bash -c " + sq(s) }, true},
	{"flag cluster", func(s string) string { return "bash -euc " + sq(s) }, true},
	{"two shells", func(s string) string { return "bash -c " + sq("bash -c "+sq(s)) }, true},
	{"shell options", func(s string) string { return "bash --norc -o pipefail -c " + sq(s) }, true},
	{"here-string", func(s string) string { return "bash <<< " + sq(s) }, true},
	{"here-document", func(s string) string { return "bash <<'EOS'\n" + s + "\nEOS" }, true},
	{"bash -s", func(s string) string { return "bash -s -- a b <<'EOS'\n" + s + "\nEOS" }, true},
	{"piped", func(s string) string { return "echo " + sq(s) + " | bash" }, true},
	{"printf piped", func(s string) string { return "printf '%s\\n' " + sq(s) + " | bash" }, true},
	{"base64 piped", func(s string) string { return "echo " + b64(s) + " | base64 -d | bash" }, true},
	{"base64 twice", func(s string) string { return "echo " + b64(b64(s)) + " | base64 -d | base64 --decode | bash" }, true},
	{"hex piped", func(s string) string { return "echo " + hex.EncodeToString([]byte(s)) + " | xxd -r -p | bash" }, true},
	{"printf hex piped", func(s string) string { return "printf '" + hexed(s) + "' | bash" }, true},
	{"echo -e piped", func(s string) string { return "echo -e '" + hexed(s) + "' | bash" }, true},
	{"reversed piped", func(s string) string {
		return "echo " + sq(reversed(strings.ReplaceAll(s, "\n", ";"))) + " | rev | bash"
	}, true},
	{"tee piped", func(s string) string { return "echo " + sq(s) + " | cat | bash" }, true},
	{"decoded eval", func(s string) string { return "eval \"$(echo " + b64(s) + " | base64 -d)\"" }, true},
	{"decoded sh -c", func(s string) string { return "bash -c \"$(echo " + b64(s) + " | base64 -d)\"" }, true},
	{"sourced substitution", func(s string) string { return "source <(echo " + sq(s) + ")" }, true},
	{"sourced stdin", func(s string) string { return ". /dev/stdin <<< " + sq(s) }, true},
	{"substitution as script", func(s string) string { return "bash <(echo " + sq(s) + ")" }, true},
	{"written then run", func(s string) string { return "echo " + sq(s) + " > x.sh; bash x.sh" }, true},
	{"written by here-document", func(s string) string { return "cat > x.sh <<'EOS'\n" + s + "\nEOS\nbash ./x.sh" }, true},
	{"written decoded", func(s string) string { return "echo " + b64(s) + " | base64 -d > x.sh && bash x.sh" }, true},
	{"written and sourced", func(s string) string { return "printf '%s\\n' " + sq(s) + " > x.sh; . ./x.sh" }, true},
	{"env", func(s string) string { return "env bash -c " + sq(s) }, true},
	{"env assignments", func(s string) string { return "env A=1 B=2 bash -c " + sq(s) }, true},
	{"env unset", func(s string) string { return "env -u A --unset=B bash -c " + sq(s) }, true},
	{"nice", func(s string) string { return "nice -n 5 bash -c " + sq(s) }, true},
	{"nohup", func(s string) string { return "nohup bash -c " + sq(s) }, true},
	{"setsid", func(s string) string { return "setsid -w bash -c " + sq(s) }, true},
	{"stdbuf", func(s string) string { return "stdbuf -oL -e 0 bash -c " + sq(s) }, true},
	{"timeout", func(s string) string { return "timeout -k 5 --signal=KILL 10s bash -c " + sq(s) }, true},
	{"time", func(s string) string { return "time bash -c " + sq(s) }, true},
	{"command", func(s string) string { return "command bash -c " + sq(s) }, true},
	{"exec", func(s string) string { return "exec bash -c " + sq(s) }, true},
	{"exec -a", func(s string) string { return "exec -a harmless bash -c " + sq(s) }, true},
	{"builtin eval", func(s string) string { return "builtin eval " + sq(s) }, true},
	{"command eval", func(s string) string { return "command eval " + sq(s) }, true},
	{"xargs", func(s string) string { return "echo x | xargs bash -c " + sq(s) }, true},
	{"xargs -I", func(s string) string { return "printf '%s' x | xargs -I{} bash -c " + sq(s) }, true},
	{"find -exec", func(s string) string { return "find . -maxdepth 0 -exec bash -c " + sq(s) + ` \;` }, true},
	{"find -execdir", func(s string) string { return "find . -maxdepth 0 -execdir bash -c " + sq(s) + " {} +" }, false},
	{"coproc", func(s string) string { return "coproc bash -c " + sq(s) + "; wait" }, true},
	{"stacked wrappers", func(s string) string { return "env nice timeout 9 nohup bash -c " + sq(s) }, true},
	{"subscript", func(s string) string { return "[[ -v 'z[$( " + strings.ReplaceAll(s, "'", `'\''`) + "\n)]' ]]" }, true},
	{"sudo", func(s string) string { return "sudo -n -u root bash -c " + sq(s) }, false},
	{"doas", func(s string) string { return "doas -u root sh -c " + sq(s) }, false},
	{"su", func(s string) string { return "su - root -c " + sq(s) }, false},
	{"watch", func(s string) string { return "watch -n1 " + sq(s) }, false},
	{"busybox", func(s string) string { return "busybox sh -c " + sq(s) }, false},
	{"ssh", func(s string) string { return "ssh -p 22 -o BatchMode=yes host " + sq(s) }, false},
	{"ssh proxy", func(s string) string { return "ssh -o ProxyCommand=" + sq(s) + " host" }, false},
	{"docker exec", func(s string) string { return "docker exec -it -e A=1 box sh -c " + sq(s) }, false},
	{"docker run", func(s string) string { return "docker run --rm -v x:/y alpine sh -c " + sq(s) }, false},
	{"kubectl", func(s string) string { return "kubectl exec -n ns pod -- sh -c " + sq(s) }, false},
	{"parallel", func(s string) string { return "parallel " + sq(s) + " ::: 1" }, false},
	{"flock", func(s string) string { return "flock /tmp/l -c " + sq(s) }, false},
	{"flock command", func(s string) string { return "flock -n /tmp/l sh -c " + sq(s) }, false},
	{"script", func(s string) string { return "script -qc " + sq(s) + " /dev/null" }, false},
	{"chroot", func(s string) string { return "chroot --userspec=0:0 /mnt sh -c " + sq(s) }, false},
	{"unshare", func(s string) string { return "unshare -rm --fork sh -c " + sq(s) }, false},
	{"nsenter", func(s string) string { return "nsenter -t 1 -m sh -c " + sq(s) }, false},
	{"git alias", func(s string) string { return "git -c alias.z=" + sq("!"+s) + " z" }, false},
	{"git ssh command", func(s string) string { return "git -c core.sshCommand=" + sq(s) + " fetch" }, false},
	{"git pager", func(s string) string { return "git -c core.pager=" + sq(s) + " log" }, false},
	{"git editor variable", func(s string) string { return "GIT_EDITOR=" + sq(s) + " git commit" }, false},
	{"git upload-pack", func(s string) string { return "git clone --upload-pack=" + sq(s) + " x y" }, false},
	{"git upload-pack short", func(s string) string { return "git fetch --upload-pa " + sq(s) + " origin" }, false},
	{"git rebase", func(s string) string { return "git rebase -i -x " + sq(s) + " HEAD~3" }, false},
	{"git bisect", func(s string) string { return "git bisect run sh -c " + sq(s) }, false},
	{"git submodule", func(s string) string { return "git submodule foreach " + sq(s) }, false},
	{"git ext", func(s string) string { return "git clone " + sq("ext::"+s) }, false},
	{"tar checkpoint", func(s string) string { return "tar cf x.tar --checkpoint=1 --checkpoint-action=exec=" + sq(s) + " ." }, false},
	{"tar to-command", func(s string) string { return "tar xf x.tar --to-command=" + sq(s) }, false},
	{"tar compress", func(s string) string { return "tar cf x.tar -I " + sq(s) + " ." }, false},
	{"rg", func(s string) string { return "rg --pre " + sq(s) + " x" }, false},
	{"sort", func(s string) string { return "sort --compress-prog=" + sq(s) + " x" }, false},
	{"man", func(s string) string { return "man --html=" + sq(s) + " ls" }, false},
	{"zip", func(s string) string { return "zip x.zip y -T -TT " + sq(s) }, false},
	{"rsync", func(s string) string { return "rsync -e " + sq(s) + " a host:b" }, false},
	{"split", func(s string) string { return "split --filter=" + sq(s) + " x" }, false},
	{"vim", func(s string) string { return "vim -c " + sq(":!"+s) + " x" }, false},
	{"gdb", func(s string) string { return "gdb -ex " + sq("!"+s) }, false},
	{"nc", func(s string) string { return "nc -c " + sq(s) + " host 1" }, false},
	{"npm -c", func(s string) string { return "npx -c " + sq(s) }, false},
	{"systemd-run", func(s string) string { return "systemd-run --user sh -c " + sq(s) }, false},
	{"strace", func(s string) string { return "strace -f -o out sh -c " + sq(s) }, false},
	{"alias", func(s string) string { return "alias z=" + sq(s) }, false},
	{"tmux", func(s string) string { return "tmux new-session -d " + sq(s) }, false},
	{"python system", func(s string) string {
		return `python3 -c "import os; os.system(bytes.fromhex('` + hex.EncodeToString([]byte(s)) + `').decode())"`
	}, false},
	{"python base64", func(s string) string {
		return `python3 -c "import base64,os; os.system(base64.b64decode('` + b64(s) + `'))"`
	}, false},
	{"gzip piped", func(s string) string { return "echo " + b64(gzipped(s)) + " | base64 -d | gunzip | bash" }, true},
	{"gzip -d piped", func(s string) string { return "echo " + b64(gzipped(s)) + " | base64 -d | gzip -dc | bash" }, true},
	{"base64 here-string", func(s string) string { return "base64 -d <<< " + b64(s) + " | bash" }, true},
	{"base64 here-document", func(s string) string { return "bash <(base64 -d <<E\n" + b64(s) + "\nE\n)" }, true},
	{"base64 in three", func(s string) string {
		return "x=" + b64(s)[:4] + "; y=" + b64(s)[4:] + "; echo $x$y | base64 -d | bash"
	}, true},
	{"base64 in a file", func(s string) string { return "echo " + b64(s) + " > x; base64 -d x | bash; base64 -d < x | bash" }, true},
	{"openssl piped", func(s string) string { return "echo " + b64(s) + " | openssl base64 -d -A | bash" }, false},
	{"rot13", func(s string) string { return "echo " + sq(rot13(s)) + " | tr a-zA-Z n-za-mN-ZA-M | bash" }, true},
	{"node buffer", func(s string) string {
		return `node -e "require('child_process').execSync(Buffer.from('` + b64(s) + `','base64').toString())"`
	}, false},
	{"python exec", func(s string) string {
		return `python3 -c "import base64; exec(base64.b64decode('` + b64("import os\nos.system("+pyQuote(s)+")") + `'))"`
	}, false},
	{"perl decode", func(s string) string {
		return `perl -MMIME::Base64 -e 'system(decode_base64("` + b64(s) + `"))'`
	}, false},
	{"ruby unpack", func(s string) string { return `ruby -e 'system("` + b64(s) + `".unpack1("m"))'` }, false},
	{"php decode", func(s string) string { return `php -r 'system(base64_decode("` + b64(s) + `"));'` }, false},
	{"make eval", func(s string) string {
		return "printf 'all:\\n\\t%s\\n' " + sq(strings.ReplaceAll(strings.ReplaceAll(s, "$", "$$"), "\n", ";")) + " > m.mk; make -f m.mk"
	}, false},
	{"perl system", func(s string) string { return "perl -e " + sq("system(q{"+s+"})") }, false},
}

// victim is a command that rules must see, with the path or word that makes it
// dangerous in the place of its last element.
type victim struct {
	name string
	argv []string
	seen func(policy.Facts) bool
}

var victims = []victim{
	{"rm -rf /", []string{"rm", "-rf", "/"}, wipesRoot},
	{"git push --force", []string{"git", "push", "--force"}, forcesPush},
	{"chmod 777", []string{"chmod", "-R", "777", "x"}, opensMode},
	{"dd of=/dev/sda", []string{"dd", "if=/dev/zero", "of=/dev/sda"}, writesDevice},
}

// evasion is one generated case.
type evasion struct {
	class, text, safe string
	v                 victim
	real              bool
}

// safely replaces what could do harm if a recorder failed to stand in.
func safely(argv []string) []string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = strings.ReplaceAll(a, "/dev/", nowhere+"/")
		if a == "/" {
			out[i] = nowhere
		}
	}
	return out
}

func build(d disguise, c carrier, argv []string) string {
	before, text := d.hide(argv)
	if before != "" {
		text = before + "\n" + text
	}
	return c.wrap(text)
}

// spoiled reports pairs that are no command any more: lines that cannot be
// joined, and $1 where it is set.
func spoiled(disguise, carrier string) bool {
	switch carrier {
	case "reversed piped":
		return disguise == "continuation"
	case "make eval":
		return disguise == "continuation" || disguise == "heredoc cat"
	case "bash -s":
		return disguise == "unset positional"
	}
	return false
}

// evasions are every disguise bare, every carrier plain, and every pair of
// both, each with one victim or more.
func evasions() (out []evasion) {
	for i, d := range disguises {
		for j, c := range carriers {
			if spoiled(d.name, c.name) {
				continue
			}
			vs := victims
			if i != 0 && j != 0 {
				n := (i + j) % len(victims)
				vs = victims[n : n+1]
			}
			for _, v := range vs {
				out = append(out, evasion{
					class: d.name + " × " + c.name, text: build(d, c, v.argv), safe: build(d, c, safely(v.argv)), v: v, real: c.real,
				})
			}
		}
	}
	return out
}

// TestEvasions: every generated case is seen, or the facts say that something
// is not known.
func TestEvasions(t *testing.T) {
	t.Parallel()
	cases := evasions()
	assert.Greater(t, len(cases), 2000)
	seen, opaque := 0, map[string]int{}
	for _, e := range cases {
		f := look(t, nil, e.text)
		switch {
		case e.v.seen(f):
			seen++
		case alarming(f):
			opaque[strings.Split(e.class, " × ")[0]]++
		default:
			assert.Fail(t, "not seen", "%s\n%s", e.class, e.text)
		}
	}
	t.Logf("%d cases: %d seen, %d opaque %v", len(cases), seen, len(cases)-seen, opaque)
}

// alarming reports whether the facts alone stop a call: a name or a text that
// is not known, or a text given to a shell that is not.
func alarming(f policy.Facts) bool {
	if f.Opaque != nil {
		return true
	}
	for _, c := range f.Cmds {
		if c.Opaque.Name || c.Opaque.Args && strings.HasPrefix(c.Opaque.Reason, "runs") {
			return true
		}
	}
	return false
}

// TestEvasionsAgainstBash: what bash really starts for a harmless twin of each
// case is in the facts with the same arguments, or the facts say that they do
// not know.
func TestEvasionsAgainstBash(t *testing.T) {
	o := newOracle(t)
	exact, opaque, silent := 0, 0, 0
	every := 41
	if os.Getenv("EVASIONS") == "all" {
		every = 1
	}
	for i, e := range evasions() {
		if !e.real || i%every != 0 {
			continue
		}
		f := look(t, nil, e.safe)
		ran := o.run(t, e.safe)
		if len(ran) == 0 {
			silent++
			if testing.Verbose() && os.Getenv("EVASIONS") == "all" {
				t.Logf("bash runs nothing: %s: %s", e.class, e.safe)
			}
		}
		for _, argv := range ran {
			switch sees(f, argv) {
			case "exact":
				exact++
			case "opaque":
				opaque++
			default:
				assert.Fail(t, "bash ran what the facts do not show", "%s\n%s\n%q", e.class, e.safe, argv)
			}
		}
	}
	t.Logf("%d commands seen exactly, %d opaque, %d cases in which bash ran nothing", exact, opaque, silent)
	assert.Greater(t, exact, 20*opaque)
}
