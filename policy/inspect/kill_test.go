package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKillTellsItsOwn: a process the text started may be ended; one that it
// looked up is another's.
func TestKillTellsItsOwn(t *testing.T) {
	t.Parallel()
	const others = "ends processes known only when it runs"
	for text, want := range map[string]string{
		`sleep 9 & kill $!`:                                    "",
		`sleep 9 & p=$!; kill -9 "$p"`:                         "",
		`sleep 9 & p=$!; trap 'kill $p' EXIT; make`:            "",
		`p=(); sleep 9 & p+=($!); kill "${p[@]}"`:              "",
		`kill $(jobs -p)`:                                      "",
		`kill -- -$$`:                                          "",
		`kill -0 "$p"`:                                         "",
		`kill 4711`:                                            "",
		`kill $p`:                                              others,
		`kill -9 $(pidof sshd)`:                                others,
		`p=$(pgrep sshd); kill -9 $p`:                          others,
		`pgrep x | xargs kill`:                                 others,
		`for p in $(ps -eo pid); do kill $p; done`:             others,
		`ps | while read -r p x; do kill -9 "$p"; done`:        others,
		`sleep 9 & p=$!; read p < f; kill $p`:                  others,
		`sleep 9 & p=$!; if x; then p=$(pidof y); fi; kill $p`: others,
		`p=(1 $(pidof y)); kill "${p[@]}"`:                     others,
		`sleep 9 & p=($!); p+=($(pidof y)); kill "${p[@]}"`:    others,
		`f() { kill -9 "$1"; }; f "$(pidof y)"`:                others,
		`kill -9 $(cat /run/x.pid)`:                            others,
		`sleep 9 & p=$!; kill $p $(pidof y)`:                   others,
	} {
		reason := ""
		for _, c := range look(t, nil, text).Cmds {
			if c.Program == "kill" && c.Opaque.Reason == others {
				reason = others
			}
		}
		assert.Equal(t, want, reason, text)
	}
}
