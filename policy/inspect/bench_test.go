package inspect

import (
	"context"
	"strings"
	"testing"

	"sallyport/policy"
	"sallyport/sandbox"
)

func benchmark(b *testing.B, text string) {
	i := New(Options{Data: func() *policy.Data { return nil }})
	c := shellCall(text)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Inspect(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTypical(b *testing.B) { benchmark(b, `git log --oneline -n 20`) }
func BenchmarkPipe(b *testing.B) {
	benchmark(b, `cd src && go test ./... -run "TestX$" 2>&1 | grep -v '^ok' | head -n 40`)
}

// script50 is a build script of fifty lines.
var script50 = strings.Repeat(`set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for f in a b c; do
  cp "src/$f.c" "$dir/"
  gcc -O2 -o "$dir/$f" "$dir/$f.c"
done
if [ -n "${CI:-}" ]; then echo "in CI"; fi
tar czf out.tgz -C "$dir" .
sha256sum out.tgz > out.tgz.sum
`, 5)

func BenchmarkScript(b *testing.B) { benchmark(b, script50) }

func BenchmarkNested(b *testing.B) {
	benchmark(b, strings.Repeat("echo $(", 2000)+strings.Repeat(")", 2000))
}

func BenchmarkFlat(b *testing.B) { benchmark(b, strings.Repeat("$(:) ", 5000)) }

// BenchmarkContent is the scan of 1 MiB of source code that is written.
func BenchmarkContent(b *testing.B) {
	line := "func (s *server) handle(w http.ResponseWriter, r *http.Request) { token := r.Header.Get(\"Authorization\"); s.log(token) }\n"
	text := []byte(strings.Repeat(line, (1<<20)/len(line)))
	i := New(Options{Data: func() *policy.Data { return dangerData }})
	c := policy.Call{Action: sandbox.Action{Workspace: root, Files: []sandbox.FileOp{{Op: sandbox.OpWrite, Path: "main.go", Write: &sandbox.Write{Content: text}}}}}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := i.Inspect(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}
