package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCorpora measures how much of real command lines is opaque. It asserts
// nothing: set CORPORA to a folder of JSON lines with "cmd", and LIST to one of
// "text", "name" to see the lines.
func TestCorpora(t *testing.T) {
	dir := os.Getenv("CORPORA")
	if dir == "" {
		t.Skip("set CORPORA to a folder of *.jsonl files with a cmd in each line")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	for _, name := range files {
		measure(t, name)
	}
}

func measure(t *testing.T, name string) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var total, text, names, args, cmds int
	var slowest time.Duration
	start := time.Now()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var line struct{ ID, Cmd string }
		require.NoError(t, json.Unmarshal(s.Bytes(), &line))
		total++
		began := time.Now()
		facts := look(t, nil, line.Cmd)
		slowest = max(slowest, time.Since(began))
		cmds += len(facts.Cmds)
		if facts.Opaque != nil {
			text++
			if os.Getenv("LIST") == "text" {
				fmt.Printf("%s\t%s\t%q\n", filepath.Base(name), facts.Opaque.Reason, line.Cmd)
			}
			continue
		}
		n, a := false, false
		for _, c := range facts.Cmds {
			if c.Opaque.Name && !n && os.Getenv("LIST") == "name" {
				fmt.Printf("%s\t%s\t%s\t%q\n", filepath.Base(name), c.Opaque.Reason, c.Text, line.Cmd)
			}
			n, a = n || c.Opaque.Name, a || c.Opaque.Args
		}
		if n {
			names++
		}
		if a {
			args++
		}
	}
	require.NoError(t, s.Err())
	fmt.Printf("%-24s %5d lines %6d commands: opaque text %4d (%.2f %%), name %4d (%.2f %%), argument %4d (%.1f %%); %v a line, slowest %v\n",
		filepath.Base(name), total, cmds, text, 100*float64(text)/float64(total), names, 100*float64(names)/float64(total), args, 100*float64(args)/float64(total),
		(time.Since(start) / time.Duration(max(total, 1))).Round(time.Microsecond), slowest.Round(time.Microsecond))
}
