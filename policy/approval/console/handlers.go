package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// recent is how many ended requests the list shows.
const recent = 12

// listed is what the first page shows.
type listed struct {
	Waiting     []entry
	Recent      []approval.Request
	Suggestions []suggestion
	Done        *approval.Request // the one just decided
}

// entry is one request that waits, or a batch of them.
type entry struct {
	approval.Request
	More []approval.Request // the others of its batch
}

type suggestion struct {
	approval.Suggestion
	GrantJSON string
}

func (c *Console) list(w http.ResponseWriter, r *http.Request, s *session) {
	waiting, err := c.o.Desk.List(approval.Filter{States: []approval.State{approval.StatePending}})
	if err != nil {
		c.fail(w, s, err)
		return
	}
	all, err := c.o.Desk.List(approval.Filter{All: true, Limit: len(waiting) + recent})
	if err != nil {
		c.fail(w, s, err)
		return
	}
	body := listed{Waiting: grouped(waiting)}
	for _, o := range all {
		if o.State != approval.StatePending && len(body.Recent) < recent {
			body.Recent = append(body.Recent, o)
		}
	}
	if done := r.URL.Query().Get("done"); done != "" {
		if o, err := c.o.Desk.Get(done); err == nil {
			body.Done = &o
		}
	}
	hints, err := c.o.Desk.Suggest()
	if err != nil {
		c.fail(w, s, err)
		return
	}
	for _, h := range hints {
		raw, err := json.Marshal(h.Grant)
		if err != nil {
			c.fail(w, s, err)
			return
		}
		body.Suggestions = append(body.Suggestions, suggestion{h, string(raw)})
	}
	c.show(w, s, "list", page{Title: "Waiting", Body: body})
}

// grouped puts the requests of a batch together, oldest first: who waited longest
// is looked at first.
func grouped(newestFirst []approval.Request) []entry {
	var out []entry
	at := map[string]int{}
	for i := len(newestFirst) - 1; i >= 0; i-- {
		r := newestFirst[i]
		if k, ok := at[r.Batch]; ok && r.Batch != "" {
			out[k].More = append(out[k].More, r)
			continue
		}
		at[r.Batch] = len(out)
		out = append(out, entry{Request: r})
	}
	return out
}

// shown is one request with what helps to judge it.
type shown struct {
	approval.Request
	Similar []approval.Request
	Wider   bool // it may be approved for the session
	Yours   bool // this person has approved it, and more people are needed
}

func (c *Console) request(w http.ResponseWriter, r *http.Request, s *session) {
	body, err := c.look(r.PathValue("id"), s)
	if err != nil {
		c.fail(w, s, err)
		return
	}
	c.show(w, s, "request", page{Title: body.ID, Body: body})
}

func (c *Console) look(id string, s *session) (shown, error) {
	o, err := c.o.Desk.Get(id)
	if err != nil {
		return shown{}, err
	}
	return c.judged(o, s)
}

// judged adds to a request what helps to judge it.
func (c *Console) judged(o approval.Request, s *session) (shown, error) {
	similar, err := c.o.Desk.Similar(o, 3)
	if err != nil {
		return shown{}, err
	}
	b := shown{Request: o, Similar: similar, Wider: o.Tier < policy.L3 && len(o.Cut) == 0 && o.Approvers < 2 && len(o.Roles) == 0}
	for _, v := range o.Votes {
		b.Yours = b.Yours || v.Approve && strings.EqualFold(v.Person.Name, s.person.Name)
	}
	return b, nil
}

type batched struct {
	ID    string
	Shown string
	Calls []shown
}

func (c *Console) batch(w http.ResponseWriter, r *http.Request, s *session) {
	all, err := c.o.Desk.Batch(r.PathValue("id"))
	if errors.Is(err, approval.ErrDecided) {
		c.message(w, s, http.StatusNotFound, "No call of this batch waits any more.")
		return
	}
	if err != nil {
		c.fail(w, s, err)
		return
	}
	body := batched{ID: all.ID, Shown: all.Shown}
	for _, o := range all.Calls {
		b, err := c.judged(o, s)
		if err != nil {
			c.fail(w, s, err)
			return
		}
		body.Calls = append(body.Calls, b)
	}
	c.show(w, s, "batch", page{Title: "Batch " + body.ID, Body: body})
}

func (c *Console) approve(w http.ResponseWriter, r *http.Request, s *session) {
	o := approval.ApproveOptions{
		Scope: approval.Reach(r.PostFormValue("scope")), Note: r.PostFormValue("note"), Shown: r.PostFormValue("shown"),
	}
	if refused := c.unread(r); refused != "" {
		c.message(w, s, http.StatusBadRequest, refused)
		return
	}
	if o.Scope == "grant" {
		g, err := c.grantOf(r)
		if err != nil {
			c.message(w, s, http.StatusBadRequest, capital(err.Error())+".")
			return
		}
		o.Scope, o.Grant = approval.Once, &g
	}
	done, err := c.o.Desk.Approve(r.PathValue("id"), s.by(r), o)
	c.decided(w, r, s, done, err)
}

// unread says what is wrong when an L3 call is approved without the tick that one
// has looked at it.
func (c *Console) unread(r *http.Request) string {
	o, err := c.o.Desk.Get(r.PathValue("id"))
	if err == nil && o.Tier >= policy.L3 && r.PostFormValue("read") == "" {
		return "This call is L3. Go back and tick that you have looked at all of it; nothing was approved."
	}
	return ""
}

// grantOf reads the grant of an approval that reaches further.
func (c *Console) grantOf(r *http.Request) (approval.Grant, error) {
	uses, usesErr := strconv.Atoi(r.PostFormValue("uses"))
	hours, hoursErr := strconv.Atoi(r.PostFormValue("hours"))
	if usesErr != nil || hoursErr != nil || uses < 0 || hours < 1 || hours > maxHours {
		return approval.Grant{}, fmt.Errorf("a grant is for a number of uses and for 1 to %d hours; nothing was approved", maxHours)
	}
	g := approval.Grant{
		Paths: globs(r.PostFormValue("paths")), Branches: globs(r.PostFormValue("branches")),
		Uses: uses, Until: c.o.Now().Add(time.Duration(hours) * time.Hour), Reason: r.PostFormValue("note"),
	}
	if r.PostFormValue("session") != "" {
		g.Session = "this" // the desk puts the request's in its place
	}
	return g, nil
}

// maxHours is the longest life of a grant made on the page: a week.
const maxHours = 168

// globs reads a list of globs separated by commas.
func globs(s string) []string {
	var out []string
	for g := range strings.SplitSeq(s, ",") {
		if g = strings.TrimSpace(g); g != "" {
			out = append(out, g)
		}
	}
	return out
}

func (c *Console) deny(w http.ResponseWriter, r *http.Request, s *session) {
	done, err := c.o.Desk.Deny(r.PathValue("id"), s.by(r), r.PostFormValue("note"), r.PostFormValue("shown"))
	c.decided(w, r, s, done, err)
}

// by is the person of a session as seen in this request.
func (s *session) by(r *http.Request) approval.Person {
	p := s.person
	p.From = r.RemoteAddr
	return p
}

func (c *Console) decided(w http.ResponseWriter, r *http.Request, s *session, done approval.Request, err error) {
	if err != nil {
		c.fail(w, s, err)
		return
	}
	http.Redirect(w, r, c.o.Prefix+"/?done="+done.ID, http.StatusSeeOther)
}

type granted struct {
	Active []approval.Grant
	Ended  []endedGrant
}

type endedGrant struct {
	approval.Grant
	How string
}

func (c *Console) grants(w http.ResponseWriter, _ *http.Request, s *session) {
	all, err := c.o.Desk.Grants()
	if err != nil {
		c.fail(w, s, err)
		return
	}
	var body granted
	for _, g := range all {
		if how := g.State(c.o.Now()); how != "active" {
			body.Ended = append(body.Ended, endedGrant{g, how})
			continue
		}
		body.Active = append(body.Active, g)
	}
	c.show(w, s, "grants", page{Title: "Grants", Body: body})
}

// addGrant takes a grant the first page suggested. The desk checks it as any
// other; the person is the session's, whatever the form says.
func (c *Console) addGrant(w http.ResponseWriter, r *http.Request, s *session) {
	var g approval.Grant
	if err := json.Unmarshal([]byte(r.PostFormValue("grant")), &g); err != nil {
		c.message(w, s, http.StatusBadRequest, "This is not a grant. Reload the page and try again.")
		return
	}
	g.By = s.by(r)
	if _, err := c.o.Desk.AddGrant(g); err != nil {
		c.fail(w, s, err)
		return
	}
	http.Redirect(w, r, c.o.Prefix+"/grants", http.StatusSeeOther)
}

func (c *Console) revoke(w http.ResponseWriter, r *http.Request, s *session) {
	if _, err := c.o.Desk.Revoke(r.PathValue("id"), s.by(r)); err != nil {
		c.fail(w, s, err)
		return
	}
	http.Redirect(w, r, c.o.Prefix+"/grants", http.StatusSeeOther)
}

// scope is whom a freeze form names; no agent means all.
func scope(r *http.Request) approval.Scope {
	agent := r.PostFormValue("agent")
	return approval.Scope{Agent: agent, All: agent == ""}
}

func (c *Console) freeze(w http.ResponseWriter, r *http.Request, s *session) {
	c.back(w, r, s, c.o.Desk.Freeze(scope(r), s.by(r)))
}

func (c *Console) lift(w http.ResponseWriter, r *http.Request, s *session) {
	c.back(w, r, s, c.o.Desk.Lift(scope(r), s.by(r)))
}

func (c *Console) back(w http.ResponseWriter, r *http.Request, s *session, err error) {
	if err != nil {
		c.fail(w, s, err)
		return
	}
	http.Redirect(w, r, c.o.Prefix+"/", http.StatusSeeOther)
}
