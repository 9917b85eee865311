package webhook

// Fill queues n messages for a target.
func (h *Hook) Fill(target string, n int) {
	for range n {
		h.queue(h.targets[target], item{kind: kindWaiting})
	}
}
