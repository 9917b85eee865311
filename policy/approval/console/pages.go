package console

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sallyport/policy"
	"sallyport/policy/approval"
)

// page is what every template is given.
type page struct {
	Title   string
	Prefix  string
	Session *session
	Name    string
	CSRF    string
	Freezes []approval.Freezing
	Pending int
	Live    bool // the page follows the event stream
	Now     time.Time
	Body    any
}

// templates are the pages; each is put into the layout.
var templates = [...]string{"login", "message", "list", "request", "batch", "grants"}

func (c *Console) parse() error {
	c.pages = map[string]*template.Template{}
	for _, name := range templates {
		t, err := template.New("layout.html").Funcs(c.funcs()).ParseFS(assets, "assets/layout.html", "assets/parts.html", "assets/"+name+".html")
		if err != nil {
			return err
		}
		c.pages[name] = t
	}
	return nil
}

func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"visible": func(s string) template.HTML { return marked(approval.Visible(s)) },
		"text":    func(s string) template.HTML { return marked(approval.VisibleText(s)) },
		"quote":   approval.Quote,
		"join":    strings.Join,
		"ago":     func(t time.Time) string { return approval.Ago(c.o.Now().Sub(t).Abs()) },
		"clock":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"short":   func(s string) string { return s[:min(len(s), 12)] },
		"hostport": func(host string, port int) string {
			return net.JoinHostPort(host, strconv.Itoa(port))
		},
		"diff":   diffRows,
		"indent": func(n int) string { return strings.Repeat("  ", min(n, 12)) },
		"grave":  func(t policy.Tier) bool { return t >= policy.L3 },
		"vscode": vscode,
	}
}

var code = regexp.MustCompile(`‹(U\+)?[0-9A-F]{2,6}›`)

// marked is text as HTML in which the codes of hidden characters stand out.
func marked(visible string) template.HTML {
	return template.HTML(code.ReplaceAllString(template.HTMLEscapeString(visible), `<mark class="code">$0</mark>`)) //nolint:gosec // escaped first
}

// vscode is a link that opens a workspace file in the person's editor.
func vscode(workspace, file string) template.URL {
	if !strings.HasPrefix(file, "/") {
		file = workspace + "/" + file
	}
	return template.URL((&url.URL{Scheme: "vscode", Host: "file", Path: file}).String()) //nolint:gosec // scheme is fixed
}

// row is one line of a diff with the numbers it has before and after.
type row struct {
	Class    string
	Old, New string
	Text     template.HTML
}

func diffRows(diff string) []row {
	var out []row
	before, after := 0, 0
	for _, l := range approval.DiffLines(diff) {
		r := row{Text: marked(approval.VisibleText(l.Text))}
		switch l.Kind {
		case 'h':
			r.Class = "file"
		case '@':
			r.Class = "hunk"
			fmt.Sscanf(l.Text, "@@ -%d", &before)
			if _, rest, ok := strings.Cut(l.Text, "+"); ok {
				fmt.Sscanf(rest, "%d", &after)
			}
		case '-':
			r.Class, r.Old = "del", strconv.Itoa(before)
			before++
		case '+':
			r.Class, r.New = "add", strconv.Itoa(after)
			after++
		default:
			if !strings.HasPrefix(l.Text, `\`) {
				r.Old, r.New = strconv.Itoa(before), strconv.Itoa(after)
				before, after = before+1, after+1
			}
		}
		out = append(out, r)
	}
	return out
}

// show renders a page of a session.
func (c *Console) show(w http.ResponseWriter, s *session, name string, p page) {
	p.Live = true
	if s != nil {
		p.Session, p.Name, p.CSRF = s, s.person.Name, s.csrf
		p.Freezes = c.o.Desk.Freezes()
	}
	if all, err := c.o.Desk.List(approval.Filter{States: []approval.State{approval.StatePending}}); err == nil {
		p.Pending = len(all)
	}
	c.render(w, http.StatusOK, name, p)
}

// render writes a page whole or not at all.
func (c *Console) render(w http.ResponseWriter, status int, name string, p page) {
	p.Prefix, p.Now = c.o.Prefix, c.o.Now()
	var b bytes.Buffer
	if err := c.pages[name].Execute(&b, p); err != nil {
		http.Error(w, "this page cannot be shown; use `sallyport approvals` meanwhile", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
}

// message is a page of one sentence.
func (c *Console) message(w http.ResponseWriter, s *session, status int, text string) {
	p := page{Title: http.StatusText(status), Body: text}
	if status == http.StatusOK {
		p.Title = "Sallyport"
	}
	if s != nil {
		p.Session, p.Name, p.CSRF = s, s.person.Name, s.csrf
	}
	c.render(w, status, "message", p)
}

// fail is the page for an error of the desk.
func (c *Console) fail(w http.ResponseWriter, s *session, err error) {
	status := http.StatusInternalServerError
	for target, code := range map[error]int{
		approval.ErrNotFound: http.StatusNotFound, approval.ErrRefused: http.StatusForbidden,
		approval.ErrDecided: http.StatusConflict, approval.ErrInvalid: http.StatusBadRequest,
	} {
		if errors.Is(err, target) {
			status = code
		}
	}
	c.message(w, s, status, capital(err.Error())+".")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
