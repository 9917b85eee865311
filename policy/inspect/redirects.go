package inspect

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"sallyport/policy"
)

// redirects records where a command's streams go.
func (w *walker) redirects(rs []*syntax.Redirect, c *policy.Cmd) {
	for _, r := range rs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			continue
		}
		for _, to := range w.fieldsOf(r.Word) {
			if (r.Op == syntax.DplIn || r.Op == syntax.DplOut) && descriptor(to.s) {
				continue
			}
			rd := policy.Redirect{Op: r.Op.String(), Scope: policy.ScopeOutside}
			f := w.in.file("", w.sc.dir(), to)
			rd.Scope, rd.Guard = f.Scope, f.Guard
			if to.opaque {
				c.Opaque.Args, c.Opaque.Reason = true, "a redirect is known only when it runs"
			} else {
				rd.Path = w.in.abs(w.sc.dir(), to.s)
				w.in.devNet(rd.Path)
			}
			c.Redirects = append(c.Redirects, rd)
		}
	}
}

// fieldsOf expands a redirect's word, which bash splits like an argument.
func (w *walker) fieldsOf(wd *syntax.Word) []word {
	if wd == nil {
		return nil
	}
	return w.fields([]*syntax.Word{wd})
}

func descriptor(s string) bool {
	s = strings.TrimSuffix(s, "-")
	_, err := strconv.Atoi(s)
	return s == "" || err == nil
}
