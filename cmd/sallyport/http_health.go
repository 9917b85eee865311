package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sallyport/policy/approval"
)

// health answers whether the daemon lives (/healthz) and whether a call that
// came now could be judged, recorded and run (/readyz).
type health struct {
	d *daemon

	mu     sync.Mutex
	at     time.Time // of the last look
	report report
}

// report is what /readyz says. Problems make it unready, warnings do not.
type report struct {
	Ready    bool     `json:"ready"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

// lookEvery spares the disk from whoever polls.
const lookEvery = 2 * time.Second

func (h *health) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"alive": true, "version": version})
}

func (h *health) readyz(w http.ResponseWriter, _ *http.Request) {
	rep := h.look(time.Now())
	w.Header().Set("Content-Type", "application/json")
	if !rep.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(rep)
}

func (h *health) look(now time.Time) report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.at) < lookEvery {
		return h.report
	}
	rep := report{Problems: []string{}, Warnings: []string{}}
	if err := writable(h.d.place.state); err != nil {
		rep.Problems = append(rep.Problems, "no call can be recorded: the state folder cannot be written")
		h.d.logger.Error("look at the state folder", "err", err)
	}
	if _, err := h.d.desk.List(approval.Filter{States: []approval.State{approval.StatePending}}); err != nil {
		rep.Problems = append(rep.Problems, "no approval can be asked for: the desk cannot be read")
		h.d.logger.Error("look at the approvals", "err", err)
	}
	if len(h.d.desk.Freezes()) > 0 {
		rep.Warnings = append(rep.Warnings, "a person has frozen calls")
	}
	loaded, enough := context.WithTimeout(context.Background(), time.Second)
	defer enough()
	if bad := h.d.judges.ready(loaded); bad != nil {
		rep.Problems = append(rep.Problems, "no call can be judged: the policy is not loaded")
	} else if h.d.judges.base.engine.LastError() != nil {
		rep.Warnings = append(rep.Warnings, "the last policy was refused; the one before it decides")
	}
	rep.Ready = len(rep.Problems) == 0
	h.at, h.report = now, rep
	return rep
}

// writable makes a few bytes durable in a folder and takes them away again, as a
// record would be.
func writable(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, ".ready"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4<<10))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
