package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// shellState are texts whose danger hangs on what bash really does with its
// state: which assignment happened, which function is declared, where a line
// ends early. T stands for the path.
var shellState = []string{
	`v=rm; if false; then v=echo; fi; $v -rf T`,
	`v=rm; false && v=echo; $v -rf T`,
	`v=echo; true || v=echo; v=rm; $v -rf T`,
	`v=rm; (v=echo); $v -rf T`,
	`v=rm; echo x | v=echo; $v -rf T`,
	`v=rm; v=echo & wait; $v -rf T`,
	`v=rm; $(v=echo); $v -rf T`,
	`v=rm; while false; do v=echo; done; $v -rf T`,
	`v=rm; for i in; do v=echo; done; $v -rf T`,
	`v=rm; case x in y) v=echo;; esac; $v -rf T`,
	`v=rm; case x in x) ;; *) v=echo;; esac; $v -rf T`,
	`for i in 1; do v=rm; break; v=echo; done; $v -rf T`,
	`for i in 1; do v=rm; continue; v=echo; done; $v -rf T`,
	`v=rm; for i in 1 2; do break; v=echo; done; $v -rf T`,
	`for i in 1 2; do for j in 1; do v=rm; break 2; done; v=echo; done; $v -rf T`,
	`f() { v=rm; return; v=echo; }; f; $v -rf T`,
	`f() { v=rm; return 0; }; f; $v -rf T`,
	`v=rm; f() { local v=echo; }; f; $v -rf T`,
	`v=echo; if true; then v=rm; exit 1 2; fi; $v -rf T`,
	`v=echo; return 2>&-; v=rm; $v -rf T`,
	`v=echo; break; v=rm; $v -rf T`,
	`rm() { echo; }; unset -f rm; rm -rf T`,
	`false && rm() { echo; }; rm -rf T`,
	`if false; then rm() { echo; }; fi; rm -rf T`,
	`(rm() { echo; }); rm -rf T`,
	`alias rm=echo; rm -rf T`,
	`f() { echo; }; f() { rm -rf T; }; f`,
	`f() { echo; }; if true; then f() { rm -rf T; }; fi; f`,
	`f() { rm -rf T; }; if false; then f() { echo; }; fi; f`,
	`f() { f() { rm -rf T; }; }; f; f`,
	`readonly v=rm; v=echo 2>/dev/null; $v -rf T`,
	"declare -r v=rm\nv=echo\n$v -rf T",
	"readonly v=rm\nv=echo\n$v -rf T",
	"v=rm\n: ${!q}; v=echo\n$v -rf T",
	"v=rm\n: $((1/0)); v=echo\n$v -rf T",
	"v=rm\nfor i in 1; do : ${v:0:-9}; v=echo; done\n$v -rf T",
	`v=echo; declare -n w=v; w=rm; $v -rf T`,
	`v=echo; f() { local -n w=$1; w=rm; }; f v; $v -rf T`,
	`declare -l v=RM; $v -rf T`,
	`declare -l v; v=RM; $v -rf T`,
	`typeset -l v; v=RM; $v -rf T`,
	`v=echo; trap '$v -rf T' EXIT; v=rm`,
	`v=echo; trap '$v -rf T' DEBUG; v=rm; :`,
	`v=echo; trap '$v -rf T' ERR; v=rm; false`,
	`trap 'rm -rf T' USR1; kill -USR1 $$; :`,
	`shopt -s lastpipe; v=echo; echo rm | read v; $v -rf T`,
	`v=echo; eval "v=$(printf rm)"; $v -rf T`,
	`v=echo; read v <<< rm; $v -rf T`,
	`v=echo; IFS=: read v w <<< rm:x; $v -rf T`,
	`IFS=:; read v w <<< rm:-rf; $v $w T`,
	`v=rm:-rf; IFS=:; $v T`,
	`IFS=:; v=rm:-rf:T; $v`,
	`v=echo; printf -v v rm; $v -rf T`,
	`v=echo; n=v; printf -v $n rm; $v -rf T`,
	`v=echo; n=v; read $n <<< rm; $v -rf T`,
	`v=echo; n=v; eval $n=rm; $v -rf T`,
	`v=echo; n=v; declare $n=rm; $v -rf T`,
	`v=echo; n=v; export "$n=rm"; $v -rf T`,
	`v=echo; mapfile -t v <<< rm; $v -rf T`,
	`v=echo; getopts r v -r; [ $v = r ] && rm -rf T`,
	`v=echo; let v=1; v=rm; $v -rf T`,
	`v=(echo rm); i=0; ((i++)); ${v[i]} -rf T`,
	`v=(echo rm); ${v[${#v[@]}-1]} -rf T`,
	`v=(echo rm); ${v[-1]} -rf T`,
	`v=(echo); v+=(rm); ${v[1]} -rf T`,
	`v=(echo); v[1]=rm; ${v[1]} -rf T`,
	`x='a[$(rm -rf T)]'; echo $((x))`,
	`x='a[$(rm -rf T)]'; ((x))`,
	`x='a[$(rm -rf T)]'; let x+1`,
	`let 'a[$(rm -rf T)]=1'`,
	`[[ 'a[$(rm -rf T)]' -eq 0 ]]`,
	`x='a[$(rm -rf T)]'; [[ x -eq 0 ]]`,
	`test -v 'a[$(rm -rf T)]'`,
	`[ -v 'a[$(rm -rf T)]' ]`,
	`unset 'a[$(rm -rf T)]'`,
	`printf -v 'a[$(rm -rf T)]' x`,
	`read 'a[$(rm -rf T)]' <<< x`,
	`declare 'a[$(rm -rf T)]=1'`,
	`a=(1); echo ${a[$(rm -rf T)]}`,
	`a=x; echo ${a:$(rm -rf T)}`,
	`a[$(rm -rf T)]=1`,
	`echo $[ $(rm -rf T) ]`,
	`PS4='$(rm -rf T)'; set -x; :`,
	`x='$(rm -rf T)'; echo "${x@P}"`,
	`BASH_ENV=<(echo rm -rf T) bash -c :`,
	`echo 'rm -rf T' > e.sh; BASH_ENV=./e.sh bash -c :`,
	`env 'BASH_FUNC_ls%%=() { rm -rf T; }' bash -c ls`,
	`f() { rm -rf T; }; export -f f; bash -c f`,
	`command_not_found_handle() { rm -rf T; }; nosuchprogram`,
	`coproc rm -rf T; wait`,
	`{ rm -rf T; } 2>/dev/null`,
	`: | { :; rm -rf T; }`,
	`set -- rm -rf T; "$@"`,
	`set -- -rf T; rm "$@"`,
	`set -- x rm -rf T; shift; $*`,
	`f() { shift; "$@"; }; f x rm -rf T`,
	`f() { "${@:2}"; }; f x rm -rf T`,
	`f() { "$1" "${@:2}"; }; f rm -rf T`,
	`bash -c '"$@"' x rm -rf T`,
	`bash -c '$0 -rf T' rm`,
	`bash -s -- rm -rf T <<< '"$@"'`,
	`v=rm bash -c '$v -rf T'`,
	`export v=rm; bash -c '$v -rf T'`,
	`v=echo; export v; v=rm; bash -c '$v -rf T'`,
	`set -a; v=rm; bash -c '$v -rf T'`,
	`env v=rm bash -c '$v -rf T'`,
	`echo rm > n; $(cat n) -rf T`,
	`echo rm > n; $(<n) -rf T`,
	`echo rm > n; read v < n; $v -rf T`,
	`echo 'rm -rf T' > s; bash < s`,
	`echo 'rm -rf T' > s; cat s | bash`,
	`echo 'rm -rf T' > s; cp s t; bash t`,
	`echo 'rm -rf T' > s; mv s t; . ./t`,
	`echo -n 'rm -rf ' > s; echo T >> s; bash s`,
	`echo 'rm -rf T' | tee s > /dev/null; bash s`,
	`exec > s; echo 'rm -rf T'; exec > /dev/null; bash s`,
	`printf '%s' rm ' -rf T' > s; bash s`,
	`echo 'bash t' > s; echo 'rm -rf T' > t; bash s`,
	`echo 'rm -rf T' > s; chmod +x s; bash -c './s'`,
	`x=$'rm\n-rf\nT'; $x`,
	`x=T; y=-rf; rm $y $x`,
	`time rm -rf T`,
	`! rm -rf T`,
	`function f() { rm -rf T; }; f`,
	`a=r; b=m; $a$b -rf T`,
	`a=mr; ${a:1:1}${a:0:1} -rf T`,
	`printf '%s\n' T | xargs rm -rf`,
	`printf '%s\n' -rf T | xargs rm`,
	`echo rm -rf T | xargs -n3 env`,
	`echo "rm -rf T" | xargs -I{} bash -c {}`,
	`echo T | while read -r x; do rm -rf $x; done`,
	`find . -maxdepth 0 -exec rm -rf T \;`,
	`until rm -rf T; do :; done`,
	`select x in a; do rm -rf T; break; done <<< 1`,
	`case $(rm -rf T) in esac`,
	`for x in $(rm -rf T); do :; done`,
	`cat <<< $(rm -rf T)`,
	`: > "$(rm -rf T)x"`,
	`x=${y:-$(rm -rf T)}`,
	`: ${y:=$(rm -rf T)}`,
	`[[ x =~ $(rm -rf T) ]]`,
	`x=(a $(rm -rf T))`,
	`local x=$(rm -rf T)`,
	`echo {a,$(rm -rf T)}`,
	`echo $((1 + $(rm -rf T)))`,
	`((x = $(rm -rf T)))`,
	`for ((i=$(rm -rf T); i<1; i++)); do :; done`,
	"cat <<E\n`rm -rf T`\nE",
	"cat <<E\n${x:-$(rm -rf T)}\nE",
	`fc() { rm -rf T; }; fc`,
	`f=rm; g() { $f -rf T; }; f=echo; f=rm; g`,
	`g() { $f -rf T; }; f=rm; g`,
	`f() { eval "$1"; }; f 'rm -rf T'`,
	`f() { local c="$*"; $c; }; f rm -rf T`,
	`x="-rf T"; eval "rm $x"`,
	`eval 'v=r'; eval 'v=${v}m'; $v -rf T`,
	`source /dev/stdin <<< 'v=rm'; $v -rf T`,
	`echo v=rm > s; . ./s; $v -rf T`,
	`echo 'f() { rm -rf T; }' > s; . ./s; f`,
	`builtin command rm -rf T`,
	`command eval rm -rf T`,
	`hash -p "$(command -v rm)" ls; ls -rf T`,
	`$(which rm) -rf T`,
	`$(type -P rm) -rf T`,
	`$(which nosuchprogram 2>/dev/null) rm -rf T`,
	`$(command -v nosuchprogram) rm -rf T`,
	"`command -v nosuchprogram` rm -rf T",
	`which() { echo rm; }; $(which nosuchprogram) -rf T`,
	`$MAKE rm -rf T`,
	`${CC} rm -rf T`,
	`MAKE='rm -rf'; $MAKE T`,
	`read MAKE <<< 'rm -rf'; $MAKE T`,
	`make() { rm -rf T; }; MAKE=make; $MAKE`,
	`MAKE=rm bash -c '$MAKE -rf T'`,
	`pyenv() { echo rm -rf T; }; eval "$(pyenv init -)"`,
	`eval "$(pyenv init -; echo rm -rf T)"`,
	`eval "$(pyenv init - $(echo x))" rm -rf T`,
	"printf 'int main(){return 0;}' > a.c; echo rm -rf T > a; cc a.c -o b; bash a",
	`echo() { printf 'rm -rf T'; }; $(echo ls)`,
	`cat() { printf rm; }; $(cat <<< ls) -rf T`,
	`pwd() { echo 'rm -rf T '; }; $(pwd)/bin/x`,
	`cd() { :; }; pwd() { echo 'rm -rf T '; }; $(pwd -P)/x`,
	`WS='rm -rf T '; $WS/x`,
	`read WS <<< 'rm -rf T x'; $WS/x`,
	`printf -v D 'rm -rf T '; $D/x`,
	`for D in 'rm -rf T '; do $D/x; done`,
	`f() { $1/x; }; f 'rm -rf T '`,
	`echo 'D="rm -rf T "' > s; . ./s; $D/x`,
	`eval "$(printf 'D="rm -rf T "')"; $D/x`,
	`mapfile -t D <<< 'rm -rf T '; $D/x`,
	`declare "D=rm -rf T "; $D/x`,
}

// TestShellState: every such text is seen or stops the call, whatever way its
// state went.
func TestShellState(t *testing.T) {
	t.Parallel()
	for _, text := range shellState {
		f := look(t, nil, strings.ReplaceAll(text, "T", "/"))
		assert.True(t, wipesRoot(f) || alarming(f), text)
	}
}

// TestShellStateAgainstBash: bash really runs rm in each of them.
func TestShellStateAgainstBash(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	for _, text := range shellState {
		safe := strings.ReplaceAll(text, "T", nowhere)
		f := look(t, nil, safe)
		ran := o.run(t, safe)
		if len(ran) == 0 {
			t.Logf("bash runs nothing: %s", text)
		}
		for _, argv := range ran {
			assert.NotEmpty(t, sees(f, argv), "%s\n%q\n%q", text, argv, shown(t, safe))
		}
	}
}

// TestUnlistedWrappers: programs outside the table that run others.
func TestUnlistedWrappers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`trickle rm -rf /`, `setpriv --reuid=0 rm -rf /`, `capsh -- -c 'rm -rf /'`, `runuser -u x -- rm -rf /`, `prlimit --nofile=1 rm -rf /`, `lxc exec c -- rm -rf /`,
		`vagrant ssh -c 'rm -rf /'`, `hyperfine 'rm -rf /'`, `nix-shell --run 'rm -rf /'`, `conda run -n x rm -rf /`, `start-stop-daemon --start --exec /bin/rm -- -rf /`,
		`nosuchtool --hook='rm -rf /'`, `gcloud compute ssh x --command 'rm -rf /'`, `heroku run rm -rf /`, `ansible all -m shell -a 'rm -rf /'`,
		`echo '* * * * * rm -rf /' | crontab -`, `echo '@reboot rm -rf /' | crontab`, `ed -s f <<< '!rm -rf /'`, `dc -e '!rm -rf /'`, `less +'!rm -rf /' f`,
		`tclsh <<< 'exec rm -rf /'`, `expect -c 'spawn rm -rf /'`, `emacs --batch --eval '(shell-command "rm -rf /")'`, `perl -e 'open(F, "rm -rf / |")'`, `perl -e 'open(my $f, "-|", "rm -rf /")'`,
		`awk -v c='rm -rf /' 'BEGIN{system(c)}'`,
		`gnuplot -e 'system("rm -rf /")'`, `R -e 'system("rm -rf /")'`, `octave --eval 'system("rm -rf /")'`, `ghc -e 'System.Process.callCommand "rm -rf /"'`,
		`ghci -e 'System.Process.callCommand "rm -rf /"'`, `slsh -e 'system("rm -rf /");'`, `jrunscript -e 'exec("rm -rf /")'`, `clisp -x '(ext:run-shell-command "rm -rf /")'`, "julia -e 'run(`rm -rf /`)'",
		`scala -e 'import sys.process._; "rm -rf /".!'`, `irb <<< 'system("rm -rf /")'`, `pry <<< 'system("rm -rf /")'`, `rake -e 'sh "rm -rf /"'`, "rake -p '`rm -rf /`'",
		`emacs --batch --eval '(delete-directory "/" t)'`, `latex --shell-escape '\immediate\write18{rm -rf /}'`, `rpm --eval '%(rm -rf /)'`, `rpmquery --eval '%{lua:os.execute("rm -rf /")}'`,
		`puppet apply -e "exec { 'rm -rf /': }"`, `knife exec -E 'exec "rm -rf /"'`, `cpan -e 'system("rm -rf /")'`, `exiftool -if 'system("rm -rf /")' x`, `bpftrace -e 'BEGIN {system("rm -rf /");}'`,
		`xdg-user-dir '}; rm -rf / #'`, `certbot renew --pre-hook 'rm -rf /'`, `restic --password-command='rm -rf /' snapshots`, `ginsh <<< '!rm -rf /'`, `tdbtool <<< '! rm -rf /'`,
		`csh -c 'rm -rf /'`, `tcsh -c 'rm -rf /'`, `yash -c 'rm -rf /'`, `elvish -c 'rm -rf /'`, `sg users -c 'rm -rf /'`, `bat --pager 'rm -rf /' f`,
		`vim -c ':lua os.execute("rm -rf /")'`, `nvim --headless -c 'lua os.execute("rm -rf /")' -c q`, `vim -c 'py3 import os; os.system("rm -rf /")'`, `vim -c 'silent !rm -rf /'`, `vim -c ':%!rm -rf /'`, `vim -c 'w !rm -rf /'`, `vim -c 'r!rm -rf /'`,
		`vim -c 'call system("rm -rf /")'`, `nvim -c 'call jobstart("rm -rf /")'`, `vim -c ':terminal rm -rf /'`, `vim -c ':term ++close rm -rf /'`, `rvim -c ':ruby system("rm -rf /")'`, `vimdiff -c ':!rm -rf /' a b`, `vim -c ':call delete("/", "rf")'`,
	} {
		f := look(t, nil, text)
		assert.True(t, wipesRoot(f) || alarming(f), "%s %v", text, programsIn(f))
	}
	for _, text := range []string{
		`choom -n 0 -- rm -rf /`, `aa-exec -p x -- rm -rf /`, `setarch x86_64 -R rm -rf /`, `setarch -R x86_64 rm -rf /`, `linux32 rm -rf /`, `multitime -n 2 rm -rf /`, `softlimit -m 1000 rm -rf /`, `setlock -n l rm -rf /`,
		`logsave -a /tmp/l rm -rf /`, `grc --colour=on rm -rf /`, `openvt -c 3 -- rm -rf /`, `ssh-agent -a s rm -rf /`, `start-stop-daemon -S -x /bin/rm -- -rf /`, `start-stop-daemon --start --startas /bin/rm -- -rf /`,
		`bwrap --ro-bind / / --dev /dev --unshare-all -- rm -rf /`, `bwrap --bind / / rm -rf /`, `bwrap --setenv A b --chdir / rm -rf /`, `cmake -E env A=1 rm -rf /`, `cmake -E chdir / rm -rf .`, `cmake -E time rm -rf /`, `cmake -E remove_directory /`, `cmake -E rm -rf /`,
		`rlwrap -l /tmp/l rm -rf /`, `ccache rm -rf /`, `capsh --uid=0 -- -c 'rm -rf /'`,
	} {
		f := look(t, nil, text)
		assert.True(t, wipesRoot(f) || alarming(f), "%s %v", text, programsIn(f))
	}
	for _, text := range []string{ // a shell with nothing to do is a fact as well
		`aoss /bin/sh`, `cdist shell -s /bin/sh`, `latex --shell-escape '\write18{/bin/sh}'`, `cpan -e 'exec "/bin/sh"'`, `puppet apply -e "exec { '/bin/sh': }"`, `scanmem <<< 'shell /bin/sh'`,
	} {
		assert.Contains(t, programsIn(look(t, nil, text)), "sh", text)
	}
	for _, text := range []string{`ghci -e 'rm'`, `mytool "it is (rm)"`, `which rm`, `tldr rm -x`, `type git`, `foo --name rm`, `mytool install x`} {
		assert.Len(t, look(t, nil, text).Cmds, 1, text)
	}
}
