// Package bench writes the rows of `make bench`. Only benchmarks import it.
package bench

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is one comparison as build/bench.json holds it.
type row struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Ours     float64 `json:"ours"`
	Peer     float64 `json:"peer,omitempty"`
	PeerName string  `json:"peer_name,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"` // ours through peer
}

// Row adds a comparison to the file that BENCH_JSON names, and to the
// benchmark's own output. Without a peer its name is "".
func Row(b *testing.B, name, unit string, ours, peer float64, peerName string) {
	b.Helper()
	r := row{Name: name, Unit: unit, Ours: ours}
	b.ReportMetric(ours, strings.ReplaceAll(name+"-"+unit, " ", "_"))
	if peerName != "" {
		r.Peer, r.PeerName, r.Ratio = peer, peerName, ours/peer
		b.Logf("%s: %.4g %s, %s %.4g, ratio %.2f", name, ours, unit, peerName, peer, r.Ratio)
	} else {
		b.Logf("%s: %.4g %s", name, ours, unit)
	}
	path := os.Getenv("BENCH_JSON")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(r); err != nil {
		b.Fatal(err)
	}
}

// Medians runs the contenders in turn, rounds times, and gives the median time
// of each: the machine is shared, and turns share its noise.
func Medians(rounds int, contenders ...func()) []time.Duration {
	took := make([][]time.Duration, len(contenders))
	for i := range rounds {
		for j := range contenders {
			k := (i + j) % len(contenders)
			at := time.Now()
			contenders[k]()
			took[k] = append(took[k], time.Since(at))
		}
	}
	medians := make([]time.Duration, len(contenders))
	for i, t := range took {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians
}
