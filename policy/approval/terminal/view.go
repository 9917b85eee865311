package terminal

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// footer is the height of the lines beneath: a rule, a notice, the keys.
const footer = 3

// wide is the width from which list and request stand side by side.
const wide = 100

// The styles, in the terminal's own sixteen colours so that they fit its theme.
var (
	title    = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	chosen   = lipgloss.NewStyle().Reverse(true)
	warning  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	danger   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	good     = lipgloss.NewStyle().Foreground(lipgloss.Green)
	ruleLine = lipgloss.NewStyle().Faint(true)
)

// listWidth and listHeight are what the list takes from the request's part.
func (m model) listWidth() int {
	if m.width < wide {
		return 0
	}
	return min(48, m.width/3) + 3
}

func (m model) listHeight() int {
	if m.width >= wide {
		return 2
	}
	return min(len(m.all)+1, max(3, m.height/4)) + 3
}

// View draws the screen.
func (m model) View() tea.View {
	m.layout()
	head := title.Render("Sallyport") + faint.Render(fmt.Sprintf("  %d waiting", len(m.all)))
	if m.o.Name != "" {
		head += faint.Render("  ·  " + approval.Visible(m.o.Name))
	}
	if len(m.tips) > 0 {
		tip := "  ·  g spares answers"
		if m.width >= wide {
			tip = fmt.Sprintf("  ·  the same answer %d times in an hour: g shows a way to spare it", m.tips[0].Count)
		}
		head += warning.Render(tip)
	}
	body := m.body.View()
	if m.shown == nil && m.mode != advised {
		body = faint.Render("No agent is asking. This view follows along by itself.")
	}
	var middle string
	if m.width >= wide {
		w := m.listWidth() - 3
		list := lipgloss.NewStyle().Width(w).Height(m.body.Height()).MaxHeight(m.body.Height()).Render(m.rows(w, m.body.Height()))
		bar := ruleLine.Render(strings.TrimSuffix(strings.Repeat(" │ \n", m.body.Height()), "\n"))
		middle = lipgloss.JoinHorizontal(lipgloss.Top, list, bar, body)
	} else {
		middle = m.rows(m.width, m.listHeight()-3) + "\n" + ruleLine.Render(strings.Repeat("─", m.width)) + "\n" + body
	}
	middle = lipgloss.NewStyle().Height(m.height - 2 - footer).MaxHeight(m.height - 2 - footer).Render(middle)
	v := tea.NewView(head + "\n\n" + middle + "\n" + m.foot())
	v.AltScreen = true
	v.WindowTitle = fmt.Sprintf("(%d) Sallyport approvals", len(m.all))
	return v
}

// rows is the list, with the selection in view.
func (m model) rows(width, height int) string {
	if len(m.all) == 0 {
		return faint.Render("Nothing waits.")
	}
	at := slices.IndexFunc(m.all, func(r approval.Request) bool { return r.ID == m.selected })
	first := max(0, min(at-height/2, len(m.all)-height))
	var out []string
	for _, r := range m.all[first:min(len(m.all), first+height)] {
		line := fmt.Sprintf("%s %s %4s  ", r.ID, r.Tier, approval.Ago(m.o.Now().Sub(r.Created)))
		line += shorten(approval.Visible(r.Summary), width-lipgloss.Width(line))
		switch {
		case r.ID == m.selected:
			line = chosen.Render(line + strings.Repeat(" ", max(0, width-lipgloss.Width(line))))
		case r.Tier >= policy.L3:
			line = danger.Render(line)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// shorten is s on at most width columns; an ellipsis tells that there is more.
func shorten(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && lipgloss.Width(string(r))+1 > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// tail is the end of s on at most width columns.
func tail(s string, width int) string {
	r := []rune(s)
	for len(r) > 0 && lipgloss.Width(string(r)) > width {
		r = r[1:]
	}
	return string(r)
}

// foot is the notice and the keys that mean something now.
func (m model) foot() string {
	notice := m.notice
	switch {
	case m.mode == denying:
		notice = warning.Render("deny: ") + tail(approval.Visible(m.reason), m.width-8) + chosen.Render(" ")
		if m.reason == "" {
			notice += faint.Render(shorten(" why not, and what instead (reaches the agent)", m.width-8))
		}
	case m.mode == sure:
		notice = danger.Render(m.selected + " is L3: approve it really? y / n")
	case m.bad:
		notice = danger.Render(shorten(notice, m.width))
	default:
		notice = good.Render(shorten(notice, m.width))
	}
	keys := "↑↓ choose   pgup pgdn scroll   a approve once   s for the session   d deny   q leave"
	switch {
	case m.mode == advised:
		keys = "↑↓ scroll   any other key back"
	case m.mode == denying:
		keys = "enter deny   esc back"
	case m.width < wide:
		keys = "↑↓ choose  pgdn scroll  a once  s session  d deny  q leave"
	}
	if p := m.body; m.shown != nil && !p.AtBottom() {
		keys += "   ▼ more below"
	}
	return ruleLine.Render(strings.Repeat("─", m.width)) + "\n" + notice + "\n" + faint.Render(shorten(keys, m.width))
}
