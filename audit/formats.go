package audit

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
)

// format is a secret that starts with a fixed prefix. After it come at least
// min bytes of set.
type format struct {
	rule, prefix, set string
	min               int
}

const (
	digits = "0123456789"
	hexes  = digits + "abcdefABCDEF"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers = "abcdefghijklmnopqrstuvwxyz"
	alnum  = digits + uppers + lowers
	word   = alnum + "_"
	token  = word + "-"
	dotted = token + "."
	b64    = alnum + "+/="
)

// formats are the secrets that issuers mark with a prefix. Sources: the issuers'
// documentation and their secret-scanning partner pages.
var formats = []format{
	{"aws-key-id", "AKIA", uppers + digits, 16},
	{"aws-key-id", "ASIA", uppers + digits, 16},
	{"aws-key-id", "ABIA", uppers + digits, 16},
	{"aws-key-id", "ACCA", uppers + digits, 16},
	{"github", "ghp_", alnum, 30},
	{"github", "gho_", alnum, 30},
	{"github", "ghu_", alnum, 30},
	{"github", "ghs_", alnum, 30},
	{"github", "ghr_", alnum, 30},
	{"github", "github_pat_", word, 30},
	{"gitlab", "glpat-", dotted, 20},
	{"gitlab", "gldt-", token, 20},
	{"gitlab", "glrt-", token, 20},
	{"gitlab", "glptt-", token, 20},
	{"gitlab", "glcbt-", token, 20},
	{"gitlab", "glsoat-", token, 20},
	{"slack", "xoxa-", token, 10},
	{"slack", "xoxb-", token, 10},
	{"slack", "xoxe-", token, 10},
	{"slack", "xoxp-", token, 10},
	{"slack", "xoxr-", token, 10},
	{"slack", "xoxs-", token, 10},
	{"slack", "xapp-", token, 10},
	{"slack", "hooks.slack.com/services/", token + "/", 20},
	{"stripe", "sk_live_", alnum, 16},
	{"stripe", "sk_test_", alnum, 16},
	{"stripe", "rk_live_", alnum, 16},
	{"stripe", "rk_test_", alnum, 16},
	{"stripe", "whsec_", b64, 24},
	{"anthropic", "sk-ant-", token, 20},
	{"openai", "sk-proj-", token, 20},
	{"openai", "sk-svcacct-", token, 20},
	{"openai", "sk-or-", token, 20},
	{"openai", "sk-", alnum, 32},
	{"xai", "xai-", alnum, 40},
	{"groq", "gsk_", alnum, 40},
	{"perplexity", "pplx-", alnum, 40},
	{"huggingface", "hf_", alnum, 30},
	{"replicate", "r8_", alnum, 30},
	{"google", "AIza", token, 35},
	{"google", "GOCSPX-", token, 24},
	{"google", "ya29.", token, 20},
	{"npm", "npm_", alnum, 36},
	{"pypi", "pypi-AgEI", token, 30},
	{"rubygems", "rubygems_", hexes, 40},
	{"docker", "dckr_pat_", token, 20},
	{"docker", "dckr_oat_", token, 20},
	{"sendgrid", "SG.", dotted, 50},
	{"sendinblue", "xkeysib-", token, 40},
	{"mailgun", "key-", hexes, 32},
	{"shopify", "shpat_", hexes, 32},
	{"shopify", "shpca_", hexes, 32},
	{"shopify", "shppa_", hexes, 32},
	{"shopify", "shpss_", hexes, 32},
	{"square", "sq0atp-", token, 22},
	{"square", "sq0csp-", token, 40},
	{"digitalocean", "dop_v1_", hexes, 64},
	{"digitalocean", "doo_v1_", hexes, 64},
	{"digitalocean", "dor_v1_", hexes, 64},
	{"databricks", "dapi", hexes, 32},
	{"vault", "hvs.", token, 20},
	{"vault", "hvb.", token, 20},
	{"grafana", "glsa_", word, 32},
	{"grafana", "glc_", b64, 32},
	{"linear", "lin_api_", alnum, 32},
	{"notion", "ntn_", alnum, 40},
	{"postman", "PMAK-", token, 50},
	{"newrelic", "NRAK-", alnum, 20},
	{"pulumi", "pul-", hexes, 40},
	{"age", "AGE-SECRET-KEY-1", uppers + digits, 50},
	{"fly", "fo1_", token, 40},
	{"heroku", "HRKU-", token, 30},
	{"doppler", "dp.pt.", alnum, 40},
	{"planetscale", "pscale_tkn_", dotted, 30},
	{"planetscale", "pscale_pw_", dotted, 30},
	{"sentry", "sntrys_", b64 + "_", 40},
	{"sentry", "sntryu_", hexes, 60},
	{"supabase", "sbp_", hexes, 40},
	{"netlify", "nfp_", alnum, 36},
	{"atlassian", "ATATT3", token + "=", 60},
	{"atlassian", "ATBB", alnum, 28},
	{"dynatrace", "dt0c01.", dotted, 60},
	{"tailscale", "tskey-", token, 20},
	{"typeform", "tfp_", dotted, 40},
	{"1password", "ops_eyJ", b64, 60},
	{"azure", "AccountKey=", b64, 60},
	{"azure", "SharedAccessKey=", b64, 30},
	{"azure", "?sig=", token + "%", 30},
	{"azure", "&sig=", token + "%", 30},
	{"jwt", "eyJ", dotted, 40},
}

// shortestFormat is a lower bound of what formats and shapes match: a URL with
// one-letter names, x://a:bcd@.
const shortestFormat = 10

// shape is a secret that a prefix alone does not tell. Group 1, where there is
// one, is the secret.
type shape struct {
	rule, literal string // every match contains the literal, of three bytes at least
	re            *regexp.Regexp
}

var shapes = []shape{
	{"pem", "PRIVATE KEY", regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?`)},
	{"url", "://", regexp.MustCompile(`\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]{3,})@`)},
	{"url", "://", regexp.MustCompile(`\bhttps?://([^\s/:@"'<>]{16,})@`)},
	{"header", "earer ", regexp.MustCompile(`\b[Bb]earer ([A-Za-z0-9._~+/=-]{8,})`)},
	{"header", "asic ", regexp.MustCompile(`\b[Bb]asic ([A-Za-z0-9+/]{12,}={0,2})`)},
	{"header", "oken ", regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["']?token ([^\s"']{8,})`)},
	{"header", "ookie:", regexp.MustCompile(`(?i)\bcookie:[ \t]*([^\s"'` + "`" + `][^\n"'` + "`" + `]{7,})`)},
	{"netrc", "password ", regexp.MustCompile(`\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S+)`)},
	{"userpass", "curl", regexp.MustCompile(`\bcurl\b[^\n|;]*?\s(?:-u|--user)[ =]?["']?[^\s:"']+:([^\s"']{3,})`)},
	{"telegram", ":AA", regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`)},
}

func findFormats(text string, hits []hit) []hit {
	if len(text) < shortestFormat {
		return hits
	}
	may := literalFilter().in(text)
	may.part(0, len(formats), func(i int) { hits = formats[i].find(text, hits) })
	may.part(len(formats), len(shapes), func(i int) { hits = shapes[i].find(text, hits) })
	return hits
}

func (s *shape) find(text string, hits []hit) []hit {
	if strings.Contains(text, s.literal) {
		for _, m := range s.re.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[0], m[1]
			if len(m) > 2 {
				from, to = m[2], m[3]
			}
			if !harmlessValue(text[from:to]) && (s.literal != "asic " || basicAuth(text[from:to])) {
				hits = append(hits, hit{from, to, s.rule})
			}
		}
	}
	return hits
}

// basicAuth reports whether a text is base64 of user:password.
func basicAuth(text string) bool {
	plain, err := base64.StdEncoding.DecodeString(text)
	return err == nil && bytes.IndexByte(plain, ':') > 0
}

func (f *format) find(text string, hits []hit) []hit {
	for at := 0; ; {
		i := strings.Index(text[at:], f.prefix)
		if i < 0 {
			return hits
		}
		from := at + i
		to := from + len(f.prefix)
		for to < len(text) && strings.IndexByte(f.set, text[to]) >= 0 {
			to++
		}
		at = max(to, from+1)
		if to-from-len(f.prefix) < f.min || from > 0 && strings.IndexByte(alnum, text[from-1]) >= 0 && wordByte(f.prefix[0]) {
			continue
		}
		if f.rule == "jwt" && strings.Count(text[from:to], ".") < 2 {
			continue
		}
		hits = append(hits, hit{from, to, f.rule})
	}
}
