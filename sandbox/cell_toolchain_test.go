//go:build linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestToolchains runs what developers run, with the default profile, writes
// and no network: each must work as it does outside.
func TestToolchains(t *testing.T) {
	if testing.Short() {
		t.Skip("builds take a minute")
	}
	const goFiles = `cat > go.mod <<'X'
module example.com/m
go 1.22
X
cat > m.go <<'X'
package m

func Add(a, b int) int { return a + b }
X
cat > m_test.go <<'X'
package m

import "testing"

func TestAdd(t *testing.T) {
	done := make(chan int)
	go func() { done <- Add(1, 2) }()
	if got := <-done; got != 3 {
		t.Fatal(got)
	}
}
X
`
	for _, tc := range []struct {
		name, needs, cmd, want string
	}{
		{"git commit and history", "git", `git init -q . && echo a > a && git add a && git commit -qm one && echo b >> a && git commit -qam two &&
			git log --format=%s && git diff HEAD~1 --stat | tail -1`, "two\none\n 1 file changed, 1 insertion(+)\n"},
		{"git branch, merge, stash, tag", "git", `git init -q . && git commit -q --allow-empty -m r && git switch -qc x && echo x > x && git add x &&
			git commit -qm x && git switch -q - && git merge -q --no-ff -m m x && echo y >> x && git stash -q && git stash pop -q && git tag v1 && git describe --tags`, "v1\n"},
		{"git gc and fsck", "git", `git init -q . && for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git gc -q && git fsck 2>/dev/null && git log --oneline | wc -l`, "3\n"},
		{"git worktree", "git", `git init -q . && git commit -q --allow-empty -m r && git worktree add -q wt && cd wt && git commit -q --allow-empty -m w && git log --oneline | wc -l`, "2\n"},
		{"git rebase", "git", `git init -q . && git commit -q --allow-empty -m r && git switch -qc x && echo x > x && git add x && git commit -qm x &&
			git switch -q - && echo y > y && git add y && git commit -qm y && git switch -q x && git rebase -q - && git log --format=%s`, "x\ny\nr\n"},
		{"git clone of a path", "git", `git init -q a && git -C a commit -q --allow-empty -m r && git clone -q a b && git -C b log --format=%s`, "r\n"},
		// One workspace, and so one cache: the standard library is built once.
		{"go build, vet, run, test, test -race, cgo", "go", goFiles + `mkdir cmd c &&
			printf 'package main\n\nimport ("fmt"; "example.com/m")\n\nfunc main() { fmt.Println(m.Add(2, 2)) }\n' > cmd/main.go &&
			printf 'package main\n\n// int seven(void) { return 7; }\nimport "C"\nimport "fmt"\n\nfunc main() { fmt.Println(C.seven()) }\n' > c/main.go &&
			go vet ./... && go run ./cmd && go run ./c && go test . | cut -f1,2 && go test -race . | cut -f1,2`,
			"4\n7\nok  \texample.com/m\nok  \texample.com/m\n"},
		{"gcc and make -j", "gcc", `printf 'int main(void){return 0;}\n' > a.c && printf 'all: a b c\na b c: a.c\n\tgcc -O1 -o $@ a.c\n' > Makefile && make -s -j4 && ./a && ./b && ./c && echo built`, "built\n"},
		{"g++ with threads", "g++", `printf '#include <thread>\n#include <cstdio>\nint main(){int n=0;std::thread t([&]{n=5;});t.join();std::printf("%%d\\n",n);}\n' > t.cc && g++ -pthread -o t t.cc && ./t`, "5\n"},
		{"python", "python3", `python3 -c 'import ssl, sqlite3, json; c = sqlite3.connect("db"); c.execute("create table t(x)"); c.execute("insert into t values (1)"); c.commit(); print(c.execute("select x from t").fetchall())'`, "[(1,)]\n"},
		{"python venv", "python3", `python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'`, "True\n"},
		{"python multiprocessing", "python3", `printf 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n    with m.Pool(3) as p: print(p.map(f, range(4)))\n    q = m.Queue(); q.put(1); print(q.get()); l = m.Lock(); l.acquire()\n' > p.py && python3 p.py`, "[0, 1, 4, 9]\n1\n"},
		{"python asyncio and subprocess", "python3", `python3 -c '
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode().strip())
    async def serve(r, w): w.write(await r.readline()); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"line\n"); print((await r.read()).decode().strip())
asyncio.run(main())'`, "sub\nline\n"},
		{"python shared memory", "python3", `python3 -c '
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=16); s.buf[0] = 7; o = shared_memory.SharedMemory(s.name); print(o.buf[0]); o.close(); s.close(); s.unlink()'`, "7\n"},
		{"node", "node", `node -e 'const {Worker, isMainThread} = require("worker_threads"); const http = require("http"); const s = http.createServer((q, r) => r.end("hi")).listen(0, () =>
			http.get({port: s.address().port}, r => r.on("data", d => { console.log(String(d)); s.close() })))'`, "hi\n"},
		{"node child process and files", "node", `node -e 'const c = require("child_process"), fs = require("fs"); fs.writeFileSync("x", "1"); fs.watch("."); console.log(c.execSync("cat x") + c.spawnSync("sh", ["-c", "echo 2"]).stdout); process.exit(0)'`, "12\n\n"},
		{"npm scripts", "npm", `printf '{"name":"x","version":"1.0.0","scripts":{"test":"node -e \\"console.log(42)\\""}}' > package.json && npm test --silent`, "42\n"},
		{"npm pack and install of a folder", "npm", `mkdir dep && printf '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json && echo 'module.exports = 9' > dep/i.js &&
			printf '{"name":"x","version":"1.0.0"}' > package.json && npm install --silent --offline --no-audit --no-fund ./dep && node -p 'require("dep")'`, "9\n"},
		{"java", "javac", `printf 'class A { public static void main(String[] a) { System.out.println(6 * 7); } }' > A.java && javac A.java && java A`, "42\n"},
		{"rust", "rustc", `printf 'fn main() { println!("{}", std::thread::spawn(|| 8).join().unwrap()); }' > a.rs && rustc a.rs && ./a`, "8\n"},
		{"cargo", "cargo", `cargo init -q --name x . && cargo run -q --offline`, "Hello, world!\n"},
		{"perl", "perl", `perl -MFile::Temp -e 'my $t = File::Temp->new; print "$$\n" > 0 ? "ok\n" : ""'`, "ok\n"},
		{"shell pipes and substitution", "bash", `diff <(seq 3) <(seq 3 | sort -n) && cat <<< here && mkfifo p && (echo fifo > p &) && cat p`, "here\nfifo\n"},
		{"pseudo terminal", "script", `script -qec 'tty | cut -c1-9; stty size >/dev/null && echo sized' /dev/null | tr -d '\r'`, "/dev/pts/\nsized\n"},
		{"unix sockets", "python3", `python3 -c '
import socket, os
a = socket.socket(socket.AF_UNIX); a.bind("s"); a.listen(); b = socket.socket(socket.AF_UNIX); b.connect("s"); c, _ = a.accept(); b.send(b"u"); print(c.recv(1).decode())'`, "u\n"},
		{"tar, rsync-like copies and find", "tar", `mkdir d && echo 1 > d/f && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cp -a d e && find . -name f | sort`, "./d/f\n./e/f\n"},
		{"sed -i, sort, xargs -P", "sed", `seq 5 > n && sed -i s/3/x/ n && xargs -P4 -n1 echo < n | sort | tr -d '\n'`, "1245x"},
		{"locks and temporary files", "flock", `flock lock echo locked && mktemp | cut -d/ -f2`, "locked\ntmp\n"},
		{"whoami, id, nproc, date", "bash", `whoami; nproc | grep -q '^[0-9]' && date +%Y | grep -q 20 && locale >/dev/null 2>&1; df . >/dev/null && free >/dev/null && uptime >/dev/null && echo fine`, "cell\nfine\n"},
		{"gdb-less crash report", "bash", `sh -c 'kill -SEGV $$'; echo $?`, "139\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); err != nil {
				t.Skip(tc.needs + " is not installed")
			}
			r, ws := newRunner(t), newWorkspace(t)
			res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell(tc.cmd, WriteDirect)},
				Terms{Write: WriteDirect, Limits: Limits{Wall: 4 * time.Minute}})
			require.NoError(t, err)
			if strings.Contains(string(res.Stderr.Data), "command not found") && os.Geteuid() != 0 {
				t.Skip(tc.needs + " lies where this user's cells do not see it")
			}
			assert.Equal(t, tc.want, string(res.Stdout.Data), "exit %d, stderr: %s", res.Exit, res.Stderr.Data)
		})
	}
}

// TestDebugProfile: tracing one's own children works there and nowhere else.
func TestDebugProfile(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	r, ws := newRunner(t), newWorkspace(t)
	for profile, want := range map[string]bool{profileDebug: true, profileDefault: false} {
		res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("strace -o /dev/null true", WriteNone)}, Terms{Profile: profile})
		require.NoError(t, err)
		assert.Equal(t, want, res.Exit == 0, "%s: %s", profile, res.Stderr.Data)
	}
}

// TestNoDeleteProfile is the source design's filter: nothing is unlinked, and
// the refusal says so.
func TestNoDeleteProfile(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	put(t, ws, map[string]string{"a": "a", "d/b": "b"})
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("rm a; rm -r d; python3 -c 'import os; os.unlink(\"a\")'; echo new > a; cat a", WriteDirect)},
		Terms{Write: WriteDirect, Profile: profileNoDelete})
	require.NoError(t, err)
	assert.Equal(t, "new\n", string(res.Stdout.Data))
	require.NotEmpty(t, res.Denials)
	assert.Equal(t, "removal of a refused: the no-delete profile stops unlink, unlinkat and rmdir", res.Denials[0].What)
}

// TestForeignCallsAreNamed runs a program of another architecture's calls.
func TestForeignCallsAreNamed(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	r, ws := newRunner(t), newWorkspace(t)
	require.NoError(t, os.WriteFile(filepath.Join(ws, "foreign"), elf64, 0o755))
	res := run(t, r, ws, &Exec{Argv: []string{"./foreign"}})
	assert.Equal(t, "SIGSYS", res.Signal)
	require.NotEmpty(t, res.Denials)
	assert.Contains(t, res.Denials[0].What, "i386 or x32")
}

func TestStrictProfile(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	res, err := r.Run(context.Background(), Action{Workspace: ws, Exec: shell("echo works; python3 -c 'import socket; socket.socket()'", WriteNone)}, Terms{Profile: profileStrict})
	require.NoError(t, err)
	assert.Equal(t, "works\n", string(res.Stdout.Data))
	assert.NotZero(t, res.Exit)
}

// TestBuildsAreFastTheSecondTime: the workspace's cache survives its cells.
func TestBuildsAreFastTheSecondTime(t *testing.T) {
	t.Parallel()
	r, ws := newRunner(t), newWorkspace(t)
	run(t, r, ws, shell("mkdir -p $GOCACHE && echo kept > $GOCACHE/x && echo gone > ~/x && echo gone > /tmp/x", WriteNone))
	assert.Equal(t, "kept\n", string(run(t, r, ws, shell("cat $GOCACHE/x ~/x /tmp/x", WriteNone)).Stdout.Data))
	assert.Empty(t, string(run(t, r, newWorkspace(t), shell("cat $GOCACHE/x", WriteNone)).Stdout.Data), "another workspace has its own")
}
