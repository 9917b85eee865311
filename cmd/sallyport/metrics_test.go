package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDashboardShowsWhatThereIs holds docs/grafana.json to the metrics that the
// daemon really has.
func TestDashboardShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token, _ := h.token("--agent", "ci", "--max-tier", "L1")
	_, _, header := h.post(token, "", initialize)
	h.call(token, header.Get("Mcp-Session-Id"), "read_file", `{"path":"a.txt"}`)
	resp, err := http.Get(h.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	raw, err := os.ReadFile("../../docs/grafana.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	name := regexp.MustCompile(`\b(?:sallyport|mcp|process|go)_[a-z_]+[a-z]\b`)
	label := regexp.MustCompile(`^(?:sallyport_(?:tier|verdict|status)|network_transport)$`)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, metric := range name.FindAllString(target.Expr, -1) {
				if !label.MatchString(metric) {
					assert.Contains(t, string(metrics), "\n"+metric, p.Title)
				}
			}
		}
	}
}
