package limits

import "time"

// window is an exact sliding window: the times of the last n calls, in a ring.
// A nil or empty window has no limit.
type window struct {
	at   []time.Time
	next int
}

func newWindow(most int) *window { return &window{at: make([]time.Time, max(0, most))} }

// wait is how long until one more call fits; 0 means now.
func (w *window) wait(now time.Time, span time.Duration) time.Duration {
	if w == nil || len(w.at) == 0 {
		return 0
	}
	oldest := w.at[w.next]
	if oldest.IsZero() {
		return 0
	}
	return max(0, oldest.Add(span).Sub(now))
}

func (w *window) add(now time.Time) {
	if w == nil || len(w.at) == 0 {
		return
	}
	w.at[w.next] = now
	w.next = (w.next + 1) % len(w.at)
}

// quiet reports whether the newest call is older than span.
func (w *window) quiet(now time.Time, span time.Duration) bool {
	if len(w.at) == 0 {
		return true
	}
	newest := w.at[(w.next+len(w.at)-1)%len(w.at)]
	return now.Sub(newest) > span
}

// resized keeps the newest times that fit.
func (w *window) resized(most int) *window {
	out := newWindow(most)
	if w == nil || len(w.at) == 0 || len(out.at) == 0 {
		return out
	}
	if len(w.at) == len(out.at) {
		return w
	}
	for i := range w.at {
		if t := w.at[(w.next+i)%len(w.at)]; !t.IsZero() {
			out.add(t)
		}
	}
	return out
}
