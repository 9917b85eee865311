package inspect

import (
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command names that are known although the text alone does not spell them:
// $(go env GOPATH)/bin/tool, $(which tool), $MAKE.

// steadyPrints are the commands whose output is one path, whatever the text
// around them does: what follows them is the end of that path.
var steadyPrints = map[string]bool{
	"go env GOPATH": true, "go env GOROOT": true, "go env GOBIN": true,
	"pwd": true, "pwd -P": true, "git rev-parse --show-toplevel": true,
	"npm bin": true, "npm bin -g": true, "npm prefix": true, "npm prefix -g": true, "npm root": true, "npm root -g": true,
	"yarn bin": true, "yarn global bin": true, "pnpm bin": true, "pnpm root": true, "brew --prefix": true, "rustc --print sysroot": true,
	"poetry env info -p": true, "poetry env info --path": true, "pipenv --venv": true, "pg_config --bindir": true, "conda info --base": true,
	"python -m site --user-base": true, "python3 -m site --user-base": true, "xcode-select -p": true,
}

// steady reports whether an unquoted part of a word stays one word: a variable
// that nothing in the call sets, so that the text cannot make it a command, or
// a command that prints a path.
func (x *expander) steady(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.ParamExp:
		if n.Param == nil || n.Exp != nil || n.Index != nil || n.Slice != nil || n.Repl != nil || n.Excl || n.Length || n.Flags != nil || x.w.sc.tainted {
			return false
		}
		_, isset := x.w.known(n.Param.Value)
		return !isset
	case *syntax.CmdSubst:
		if len(n.Stmts) != 1 || len(n.Stmts[0].Redirs) > 0 || strings.Contains(x.w.src, "env -w") {
			return false
		}
		call, ok := n.Stmts[0].Cmd.(*syntax.CallExpr)
		if !ok || len(call.Assigns) > 0 {
			return false
		}
		argv := make([]string, len(call.Args))
		for i, a := range call.Args {
			if argv[i], ok = plain(a); !ok {
				return false
			}
		}
		if x.w.redefined(argv[0]) || !steadyPrints[strings.Join(argv, " ")] {
			return false
		}
		_, set := x.w.sc.vars.get(argv[len(argv)-1])
		return !set
	}
	return false
}

var plainBase = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// literalBase is the last part of a command name whose folder is known only when
// it runs. The word has to be one whatever happens: what splits can begin with
// anything.
func literalBase(name word) (string, bool) {
	dir, base := path.Split(name.s)
	switch {
	case name.opaque && (!name.many || name.steady):
	case !name.opaque && strings.ContainsAny(dir, "*?["): // bin/*/tool
	default:
		return "", false
	}
	return base, dir != "" && plainBase.MatchString(base)
}

// asked is a command name that another command looks up.
var asked = regexp.MustCompile("^(?:\\$\\(|`)\\s*(which|command|type)(?:\\s+-[vpP])?\\s+([A-Za-z0-9][A-Za-z0-9._+-]*)(?:\\s*2>\\s*/dev/null)?\\s*(?:\\)|`)$")

// initText is what a shell is told to evaluate so that a version manager, a
// package manager or an agent is set up in it: the program writes that text for
// no other end.
var initText = regexp.MustCompile("^(?:\\$\\(|`)\\s*(?:command\\s+)?(" +
	"ssh-agent(?:\\s+-[cs])?|" +
	"(?:py|rb|nod|go|j|ph|pl|sb)env\\s+(?:virtualenv-)?init[\\w .-]*|" +
	"(?:opam|fnm|luarocks|docker-machine)\\s+(?:env|path)[\\w ./=-]*|" +
	"(?:direnv|starship|zoxide|atuin|mise|rtx)\\s+(?:hook|init|activate|env)[\\w .=-]*|" +
	"brew\\s+shellenv[\\w -]*|minikube(?:\\s+-p\\s+\\w+)?\\s+docker-env|" +
	"(?:conda|mamba|micromamba)\\s+shell(?:\\.\\w+\\s+hook|\\s+hook[\\w .=-]*)|" +
	"dircolors(?:\\s+-[bc])?|lesspipe|register-python-argcomplete\\s+[\\w.-]+" +
	")\\s*(?:2>\\s*/dev/null)?\\s*(?:\\)|`)$")

// customary are the variables that make, configure and CI scripts keep a program
// in, and the program they mean where nothing else is said.
var customary = map[string]string{
	"MAKE": "make", "GO": "go", "CC": "cc", "CXX": "c++", "AR": "ar", "LD": "ld", "PYTHON": "python", "PYTHON3": "python3", "PIP": "pip",
	"NODE": "node", "NPM": "npm", "YARN": "yarn", "PNPM": "pnpm", "CARGO": "cargo", "RUSTC": "rustc", "CMAKE": "cmake", "CMAKE_COMMAND": "cmake", "CTEST": "ctest", "CTEST_COMMAND": "ctest", "NINJA": "ninja",
	"DOCKER": "docker", "PODMAN": "podman", "KUBECTL": "kubectl", "HELM": "helm", "GIT": "git", "PYTEST": "pytest", "RM": "rm", "CP": "cp", "MV": "mv",
	"INSTALL": "install", "SED": "sed", "AWK": "awk", "GREP": "grep", "TAR": "tar", "PERL": "perl", "RUBY": "ruby", "JAVA": "java", "MVN": "mvn",
	"SUDO": "sudo", "SHELL": "sh", "CURL": "curl", "GOFMT": "gofmt", "TERRAFORM": "terraform",
}

// located gives an opaque command name the program it stands for. What is left
// of the command when the name turns out to be nothing is walked as well.
func (w *walker) located(s simple) simple {
	name := s.argv[0]
	to := ""
	if m := asked.FindStringSubmatch(name.s); m != nil {
		if to = m[2]; w.redefined(m[1]) {
			to = ""
		}
	} else if v := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name.s, "$"), "{"), "}"); !w.sc.tainted {
		_, isset := w.known(v)
		if to = customary[v]; isset && !ambient[v] {
			to = ""
		}
	}
	if to == "" {
		return s
	}
	if w.redefined(to) {
		return s
	}
	if name.many && len(s.argv) > 1 && !strings.HasPrefix(s.argv[1].s, "-") {
		rest := s
		rest.argv = s.argv[1:]
		w.within("", true).run(rest)
	}
	s.argv = append([]word{{s: to}}, s.argv[1:]...)
	return s
}

// redefined reports whether a function or an alias stands in for a program.
func (w *walker) redefined(name string) bool {
	if _, ok := w.sc.funcs.get(name); ok {
		return true
	}
	_, ok := w.sc.aliases.get(name)
	return ok
}

// fetchers run a package by its specification.
var fetchers = set("npx uvx pipx bunx pnpx")

// specification is what a package's specification surely begins with: a name or
// a folder, never an option.
var specification = regexp.MustCompile(`^(?:\./|\.\./|@?[A-Za-z0-9][A-Za-z0-9._/-]*(?:@|==))`)

// packageOf is the package a fetcher is given, where only its version or its
// file is not known: npx tool@$V. However that splits, the package stays first.
func (w *walker) packageOf(name word) (string, bool) {
	if !name.opaque || len(w.via) == 0 || !fetchers[w.via[len(w.via)-1]] {
		return "", false
	}
	m := specification.FindString(name.s)
	if base := strings.TrimRight(path.Base(m), "@=."); base != "" && base != "/" {
		return base, true
	}
	return "package", m != ""
}
