package audit

import "sync"

// running are the identities of calls without outcome, by intent.
type running struct {
	mu sync.Mutex
	by map[Seq]*Record
}

func (r *running) begin(seq Seq, identity *Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[Seq]*Record{}
	}
	r.by[seq] = identity
}

func (r *running) end(seq Seq) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, seq)
}

// complete fills what an outcome leaves empty from its intent, so that a search
// for a session or an agent finds both.
func (r *running) complete(rec *Record) {
	if rec.Kind != KindOutcome || rec.Intent == nil {
		return
	}
	r.mu.Lock()
	id := r.by[*rec.Intent]
	r.mu.Unlock()
	if id == nil {
		return
	}
	from, to := identityFields(id), identityFields(rec)
	for i := range to {
		if *to[i] == "" {
			*to[i] = *from[i]
		}
	}
}

// identityFields are the fields that an outcome repeats.
func identityFields(r *Record) []*string {
	return []*string{
		&r.Call, &r.Key, &r.Session, &r.Agent, &r.User, &r.Client, &r.Workspace, &r.Branch, &r.Commit,
		&r.Tool, &r.Tier, &r.Verdict, &r.Revision, &r.Trace,
	}
}

func identityOf(r *Record) *Record {
	var id Record
	from, to := identityFields(r), identityFields(&id)
	for i := range to {
		*to[i] = *from[i]
	}
	return &id
}
