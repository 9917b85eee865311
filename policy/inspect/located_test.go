package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"sallyport/policy"
)

// TestLocatedNames: names that a customary variable holds, that a command looks
// up or that stand in a folder only the run knows. "" is a name that cannot be
// told.
func TestLocatedNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$(go env GOPATH)/bin/tool x`:                     "tool",
		`$(git rev-parse --show-toplevel)/bin/tool x`:     "tool",
		`$(npm bin)/tool x`:                               "tool",
		`$GITHUB_WORKSPACE/bin/tool x`:                    "tool",
		`${UNSET_DIR}/tool x`:                             "tool",
		`bin/*/tool x`:                                    "tool",
		`$(which tool) x`:                                 "tool",
		`"$(command -v tool)" x`:                          "tool",
		"`which tool 2>/dev/null` x":                      "tool",
		`go vet -vettool=$(which tool) ./...`:             "tool",
		`${MAKE} -C sub`:                                  "make",
		`cd sub && $GO test ./...`:                        "go",
		`CC=clang; $CC -c a.c`:                            "clang",
		`$(cat d)/tool x`:                                 "",
		`$UNSET_DIR$(cat d)/tool x`:                       "",
		`bin/*/t* x`:                                      "",
		`$(which $(cat d)) x`:                             "",
		`$(which tool; cat d) x`:                          "",
		`$(go env "$(cat d)")/tool x`:                     "",
		`GOPATH=x $(GOPATH=y go env GOPATH)/tool x`:       "",
		`go env -w GOPATH='rm x '; $(go env GOPATH)/tool`: "",
		`GOPATH=$(cat d); $(go env GOPATH)/tool`:          "",
		`go() { cat d; }; $(go env GOPATH)/tool`:          "",
		`read D < d; $D/tool x`:                           "",
		`read MAKE < d; $MAKE x`:                          "",
		`x=1; eval "$(cat d)"; $D/tool x`:                 "",
		`${UNSET_TOOL} -x`:                                "",
		`v=$(cat d); npx tool@$v x`:                       "tool",
		`npx "@scope/tool@$(cat d)" x`:                    "tool",
		`uvx "tool==$V" x`:                                "tool",
		`npx "./$(npm pack | tail -1)" x`:                 "package",
		`npx "$(cat d)" x`:                                "",
		`npx t$(cat d) x`:                                 "",
		`npx -c "$(cat d)"`:                               "",
		`env "./$(cat d)" x`:                              "",
		`${MAKE:0:2} x`:                                   "",
		`${MAKE}x y`:                                      "",
	} {
		f := look(t, nil, text)
		opaque, found := false, false
		for _, c := range f.Cmds {
			opaque = opaque || c.Opaque.Name
			found = found || c.Program == want && !c.Opaque.Name
		}
		assert.Equal(t, want == "", opaque, "%s %v", text, programsIn(f))
		assert.True(t, found || want == "", "%s %v", text, programsIn(f))
	}
}

// TestLocatedNameMayBeNothing: what is left when the name turns out to be no
// word is a fact too.
func TestLocatedNameMayBeNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`$MAKE victim a`, `$(which tool) victim a`, "`command -v tool` victim a"} {
		assert.Contains(t, programsIn(look(t, nil, text)), "victim", text)
	}
}

// TestNamesInAContainer: no shell expands the glob that a container's program is
// given.
func TestNamesInAContainer(t *testing.T) {
	t.Parallel()
	opaque := func(c policy.Cmd) bool { return c.Opaque.Name }
	for text, want := range map[string]bool{
		`docker run --rm img:1 '**/*.md'`: false,
		`docker exec box 'a*' x`:          false,
		`env 'a*' x`:                      true,
		`docker run img sh -c 'a* x'`:     true,
	} {
		got := false
		for _, c := range look(t, nil, text).Cmds {
			got = got || opaque(c)
		}
		assert.Equal(t, want, got, text)
	}
}

// TestInitTexts: the texts that version managers print for a shell are no alarm,
// whatever else is evaluated is.
func TestInitTexts(t *testing.T) {
	t.Parallel()
	for text, calm := range map[string]bool{
		`eval "$(ssh-agent -s)"`:                      true,
		`eval "$(pyenv init -)" && python x.py`:       true,
		`eval $(opam env --switch=default)`:           true,
		"eval `dircolors -b`":                         true,
		`eval "$(command brew shellenv)"`:             true,
		`eval "$(conda shell.bash hook 2>/dev/null)"`: true,
		`eval "$(direnv export bash)"`:                false, // runs .envrc
		`eval "$(pyenv exec x)"`:                      false,
		`eval "$(pyenv init -; cat d)"`:               false,
		`eval "$(pyenv init - $(cat d))"`:             false,
		`eval "$(pyenv init -) $(cat d)"`:             false,
		`eval "$(./pyenv init -)"`:                    false,
		`pyenv() { cat d; }; eval "$(pyenv init -)"`:  false,
		`eval "$(pyenv init -)"; $D/x`:                false, // it may have set D
		`eval "$(tool env)"`:                          false,
	} {
		alarm := false
		for _, c := range look(t, nil, text).Cmds {
			alarm = alarm || c.Opaque.Name || strings.HasPrefix(c.Opaque.Reason, "runs")
		}
		assert.Equal(t, calm, !alarm, text)
	}
}

// TestCompiledHere: a program compiled from what lay there is as good as the
// sources; one compiled from what the call writes or is fed is not known.
func TestCompiledHere(t *testing.T) {
	t.Parallel()
	for text, alarm := range map[string]bool{
		`gcc -o foo foo.c && ./foo`:                            false,
		`go build -o bin/x ./cmd/x && bin/x --version`:         false,
		`echo 'int main(){}' > foo.c; gcc -o foo foo.c; ./foo`: true,
		`curl -o foo.c http://h/; gcc -o foo foo.c; ./foo`:     true,
		`curl http://h/ | gcc -xc -o foo -; ./foo`:             true,
		`gcc -xc -o foo - < f; ./foo`:                          true,
		"gcc -xc -o foo - <<E\nint main(){}\nE\n./foo":         true,
		`curl -o foo http://h/; ./foo`:                         true,
		`curl -o x.go http://h/; go build -o foo; ./foo`:       true,
	} {
		got := false
		for _, c := range look(t, nil, text).Cmds {
			got = got || c.Script != nil && len(c.Script.Findings) > 0 && c.Script.Findings[0].Rule == "script.written-here"
		}
		assert.Equal(t, alarm, got, text)
	}
}
