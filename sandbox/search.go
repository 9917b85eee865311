//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// Bounds of a search.
const (
	DefaultSearchLimit = 250              // entries returned when Search.Limit is 0
	MaxSearchLimit     = 10_000           // the most entries returned
	MaxSearchFile      = 32 << 20         // bytes; larger files are skipped, and said so
	searchWall         = 20 * time.Second // then the search ends with what it has, Cut
	maxMatchText       = 2000             // bytes of one line
	countOnly          = 10_000           // entries counted past the last one returned, then the search stops
	searchMemory       = 8 << 20          // bytes of text returned
)

// search walks, greps the files side by side and puts the answers together in
// path order, so that the same tree gives the same answer.
func (w *Workspace) search(ctx context.Context, op FileOp) (FileResult, error) {
	if op.Search == nil {
		return FileResult{}, incomplete(op)
	}
	pat, err := compileSearch(*op.Search)
	if err != nil {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("search %s: %q is not a valid pattern", op.Path, op.Search.Pattern),
			Remedy: searchRemedy(op.Search.Pattern), Err: err}
	}
	if g := op.Search.Glob; g != "" && !doublestar.ValidatePattern(g) {
		return FileResult{}, &Error{Kind: KindInvalid, Msg: fmt.Sprintf("search %s: glob %q is not a valid pattern", op.Path, g),
			Remedy: `use *, **, ?, [abc] and {a,b}, such as "*.{ts,tsx}"`}
	}
	s, err := w.findFor(op, follow)
	if err != nil {
		return FileResult{}, err
	}
	defer s.close()
	st, err := s.stat()
	if err != nil {
		return FileResult{}, failure("search", op.Path, err)
	}
	g := gather{want: *op.Search, res: FileResult{Path: s.path}}
	bounded, stop := context.WithTimeout(ctx, searchWall)
	defer stop()
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = w.searchTree(bounded, s, pat, &g)
	} else if err = regular(st); err == nil {
		var fd int
		if fd, err = s.openFd(); err == nil {
			var h fileHits
			if h, err = (&grepper{pat: pat, want: &g.want}).file(fd, s.path); err == nil {
				g.add(h)
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return FileResult{}, canceled("search", op.Path, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		g.res.Cut = true
		g.res.Skipped = append(g.res.Skipped, fmt.Sprintf("the rest: the search stopped after %v", searchWall))
	case err != nil:
		return FileResult{}, failure("search", op.Path, err)
	}
	return g.res, nil
}

// searchJob is one open file and where its answer goes.
type searchJob struct {
	fd     int
	path   string
	answer chan fileHits
}

// searchTree runs one walk and a few workers; answers are read in the order in
// which the walk met the files.
func (w *Workspace) searchTree(ctx context.Context, s *spot, pat *linePattern, g *gather) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers := runtime.GOMAXPROCS(0)
	jobs := make(chan searchJob)
	ordered := make(chan chan fileHits, 8*workers)
	var running sync.WaitGroup
	defer running.Wait()
	for range workers {
		running.Go(func() { (&grepper{pat: pat, want: &g.want}).serve(jobs) })
	}
	t := tree{ctx: ctx}
	t.visit = func(at found) error {
		if at.kind != unix.S_IFREG || g.want.Glob != "" && !globMatch(g.want.Glob, below(s.path, at.path)) {
			return nil
		}
		fd, err := at.openFd()
		if err != nil {
			t.skip(at.path, err)
			return nil
		}
		j := searchJob{fd, at.path, make(chan fileHits, 1)}
		select {
		case ordered <- j.answer:
			jobs <- j
			return nil
		case <-ctx.Done():
			unix.Close(fd)
			return ctx.Err()
		}
	}
	ended := make(chan error, 1)
	running.Go(func() {
		err := w.walkFrom(s, &t)
		close(jobs)
		close(ordered)
		ended <- err
	})
	full := false
	for answer := range ordered {
		h := <-answer
		if !full && !g.add(h) {
			full = true
			stop()
		}
	}
	err := <-ended
	g.res.Skipped = append(g.res.Skipped, t.skipped...)
	if full {
		return nil
	}
	return err
}

// fileHits is what one file adds to an answer.
type fileHits struct {
	path    string
	matches []Match
	hits    int // matching lines
	more    int // entries counted but not kept
	skip    string
}

// grepper looks through files one after another with one buffer.
type grepper struct {
	pat  *linePattern
	want *Search
	buf  []byte
}

// serve answers jobs until there are no more.
func (g *grepper) serve(jobs <-chan searchJob) {
	for j := range jobs {
		h, err := g.file(j.fd, j.path)
		if err != nil {
			h = fileHits{skip: j.path + ": " + err.Error()}
		}
		j.answer <- h
	}
}

// file looks through an open file and closes it.
func (g *grepper) file(fd int, path string) (fileHits, error) {
	h := fileHits{path: path}
	b, err := g.load(fd)
	if err != nil || isBinary(b) {
		return h, err
	}
	c := cutter{b: b, want: g.want, h: &h, keep: g.want.Offset + limitOf(g.want)}
	g.pat.each(b, c.hit)
	if g.want.Mode == SearchContent || g.want.Mode == "" {
		c.flush(len(b), g.want.After)
	}
	return h, nil
}

// load reads and closes a regular file; the bytes hold until the next load.
func (g *grepper) load(fd int) ([]byte, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := regular(st); err != nil {
		return nil, err
	}
	if st.Size > MaxSearchFile {
		return nil, errTooLarge{st.Size, MaxSearchFile}
	}
	if int64(len(g.buf)) <= st.Size {
		g.buf = make([]byte, st.Size+st.Size/4+1)
	}
	n := 0
	for n < len(g.buf) { // a file that grows meanwhile is read as long as it fits
		k, err := unix.Read(fd, g.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return g.buf[:n], nil
}

func limitOf(s *Search) int {
	if s.Limit <= 0 {
		return DefaultSearchLimit
	}
	return min(s.Limit, MaxSearchLimit)
}

// cutter turns hits into lines with context, each line once.
type cutter struct {
	b      []byte
	want   *Search
	h      *fileHits
	keep   int // entries worth keeping
	pos    int // start of the first line not yet given or passed
	line   int // its number, 0-based
	opened bool
}

func (c *cutter) hit(at hit) bool {
	c.h.hits++
	switch c.want.Mode {
	case SearchFiles:
		return false
	case SearchCount:
		return true
	}
	if c.opened {
		c.flush(at.start, c.want.After)
	}
	c.before(at.start)
	for c.pos <= at.end && c.pos < len(c.b) {
		c.emit(false)
	}
	c.opened = true
	return len(c.h.matches)+c.h.more < c.keep+countOnly
}

// flush gives at most n context lines after a hit, none at or past end.
func (c *cutter) flush(end, n int) {
	for ; c.opened && n > 0 && c.pos < end; n-- {
		c.emit(true)
	}
}

// before moves to the first of the Before lines above start and gives them.
func (c *cutter) before(start int) {
	from := start
	for n := c.want.Before; n > 0 && from > c.pos; n-- {
		from = lineStart(c.b, from-1)
	}
	if from > c.pos {
		c.line += bytes.Count(c.b[c.pos:from], []byte{'\n'})
		c.pos = from
	}
	for c.pos < start {
		c.emit(true)
	}
}

// emit gives the line at pos and moves past it.
func (c *cutter) emit(context bool) {
	end := lineEnd(c.b, c.pos)
	if len(c.h.matches) < c.keep {
		text := bytes.TrimSuffix(c.b[c.pos:end], []byte{'\r'})
		c.h.matches = append(c.h.matches, Match{Path: c.h.path, Line: c.line + 1, Text: clip(string(text[:min(len(text), 2*maxMatchText)]), maxMatchText), Context: context})
	} else {
		c.h.more++
	}
	c.pos = end + 1
	c.line++
}

// gather puts the answers of files together.
type gather struct {
	want Search
	res  FileResult
	size int
}

// add takes one file's answer; false means that enough is known.
func (g *gather) add(h fileHits) bool {
	if h.skip != "" && len(g.res.Skipped) < maxSkipped {
		g.res.Skipped = append(g.res.Skipped, h.skip)
	}
	if h.hits == 0 {
		return true
	}
	entries, total := h.matches, len(h.matches)+h.more
	switch g.want.Mode {
	case SearchFiles:
		entries, total = []Match{{Path: h.path}}, 1
	case SearchCount:
		entries, total = []Match{{Path: h.path, Count: h.hits}}, 1
	}
	limit := limitOf(&g.want)
	for i, m := range entries {
		at := g.res.Total + i
		if at >= g.want.Offset && len(g.res.Matches) < limit && g.size < searchMemory {
			g.res.Matches = append(g.res.Matches, m)
			g.size += len(m.Text) + len(m.Path) + 64
		}
	}
	g.res.Total += total
	g.res.Cut = g.res.Total > g.want.Offset+len(g.res.Matches)
	return g.res.Total < g.want.Offset+limit+countOnly
}
