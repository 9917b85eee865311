package inspect

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"sallyport/policy"
)

// secretRule is one credential format. Its literal prefix is looked for first,
// so that text without one costs a scan for substrings only.
type secretRule struct {
	id     string
	prefix string
	re     *regexp.Regexp
}

func secret(id, prefix, re string) secretRule {
	return secretRule{"secret." + id, prefix, regexp.MustCompile(re)}
}

// secretRules are anchored on prefixes that their issuers document.
var secretRules = []secretRule{
	secret("aws-key", "AKIA", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`),
	secret("aws-key", "ASIA", `\bASIA[A-Z2-7]{16}\b`),
	secret("github-token", "ghp_", `\bghp_[A-Za-z0-9]{36,}\b`),
	secret("github-token", "gho_", `\bgho_[A-Za-z0-9]{36,}\b`),
	secret("github-token", "ghu_", `\bghu_[A-Za-z0-9]{36,}\b`),
	secret("github-token", "ghs_", `\bghs_[A-Za-z0-9]{36,}\b`),
	secret("github-token", "ghr_", `\bghr_[A-Za-z0-9]{36,}\b`),
	secret("github-pat", "github_pat_", `\bgithub_pat_[A-Za-z0-9_]{60,}\b`),
	secret("gitlab-token", "glpat-", `\bglpat-[A-Za-z0-9_-]{20,}`),
	secret("gitlab-token", "gldt-", `\bgldt-[A-Za-z0-9_-]{20,}`),
	secret("gitlab-token", "glrt-", `\bglrt-[A-Za-z0-9_-]{20,}`),
	secret("anthropic-key", "sk-ant-", `\bsk-ant-[A-Za-z0-9_-]{32,}`),
	secret("openai-key", "sk-proj-", `\bsk-proj-[A-Za-z0-9_-]{32,}`),
	secret("openai-key", "sk-", `\bsk-(?:svcacct-)?[A-Za-z0-9]{40,}\b`),
	secret("slack-token", "xox", `\bxox[abeoprs]-[A-Za-z0-9-]{10,}`),
	secret("slack-webhook", "hooks.slack.com", `hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,}`),
	secret("stripe-key", "sk_live_", `\bsk_live_[A-Za-z0-9]{16,}`),
	secret("stripe-key", "rk_live_", `\brk_live_[A-Za-z0-9]{16,}`),
	secret("google-key", "AIza", `\bAIza[A-Za-z0-9_-]{35}`),
	secret("google-oauth", "GOCSPX-", `\bGOCSPX-[A-Za-z0-9_-]{28}`),
	secret("google-token", "ya29.", `\bya29\.[A-Za-z0-9_-]{20,}`),
	secret("npm-token", "npm_", `\bnpm_[A-Za-z0-9]{36}\b`),
	secret("pypi-token", "pypi-", `\bpypi-[A-Za-z0-9_-]{50,}`),
	secret("docker-pat", "dckr_pat_", `\bdckr_pat_[A-Za-z0-9_-]{27,}`),
	secret("huggingface-token", "hf_", `\bhf_[A-Za-z0-9]{30,}\b`),
	secret("digitalocean-token", "dop_v1_", `\bdop_v1_[a-f0-9]{64}\b`),
	secret("sendgrid-key", "SG.", `\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}`),
	secret("twilio-key", "SK", `\bSK[0-9a-f]{32}\b`),
	secret("mailgun-key", "key-", `\bkey-[0-9a-f]{32}\b`),
	secret("shopify-token", "shp", `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`),
	secret("square-token", "sq0", `\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}`),
	secret("databricks-token", "dapi", `\bdapi[a-f0-9]{32}\b`),
	secret("linear-key", "lin_api_", `\blin_api_[A-Za-z0-9]{32,}`),
	secret("notion-token", "ntn_", `\bntn_[A-Za-z0-9]{40,}`),
	secret("postman-key", "PMAK-", `\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}`),
	secret("newrelic-key", "NRAK-", `\bNRAK-[A-Z0-9]{27}`),
	secret("grafana-token", "glsa_", `\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}`),
	secret("vault-token", "hvs.", `\bhvs\.[A-Za-z0-9_-]{24,}`),
	secret("terraform-token", ".atlasv1.", `\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}`),
	secret("pulumi-token", "pul-", `\bpul-[a-f0-9]{40}\b`),
	secret("doppler-token", "dp.", `\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,}`),
	secret("fly-token", "FlyV1 ", `\bFlyV1 fm2_[A-Za-z0-9+/=,_-]{40,}`),
	secret("telegram-token", ":AA", `\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`),
	secret("discord-webhook", "/api/webhooks/", `discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}`),
	secret("age-key", "AGE-SECRET-KEY-", `\bAGE-SECRET-KEY-1[A-Z0-9]{58}`),
	secret("azure-key", "AccountKey=", `AccountKey=[A-Za-z0-9+/]{60,}={0,2}`),
	secret("private-key", "-----BEGIN", `-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----`),
	secret("jwt", "eyJ", `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`),
	secret("url-password", "://", `\b[a-z][a-z0-9+.-]{1,15}://[^/\s:@'"$<>{}]{1,64}:[^/\s:@'"$<>{}]{6,}@[A-Za-z0-9.-]+`),
}

// secretWords are what names of secrets hold, in lower case.
var secretWords = []string{
	"secret", "token", "password", "passwd", "api_key", "apikey", "api-key", "private_key", "private-key", "privatekey", "access_key", "access-key", "accesskey",
	"auth_key", "auth-key", "authkey", "credential",
}

// assigned finds the value given to a name, from the secret word in it on.
var assigned = regexp.MustCompile(`^[\w-]{4,12}[\w.-]{0,20}["']?\s{0,4}(?::=|=>|[:=])\s{0,4}["'` + "`" + `]?([A-Za-z0-9+/_=.~!@#%^&*-]{16,200})`)

// entropyBar is in bits per character: random base64 of 20 characters or more
// lies above it, identifiers and words below.
const entropyBar = 3.6

type secretAt struct {
	rule     string
	from, to int
}

// locate finds every secret of a text.
func locate(text string) (out []secretAt) {
	for _, r := range secretRules {
		if !strings.Contains(text, r.prefix) {
			continue
		}
		for _, at := range r.re.FindAllStringIndex(text, 50) {
			if !placeholder(text[at[0]:at[1]]) {
				out = append(out, secretAt{r.id, at[0], at[1]})
			}
		}
	}
	out = append(out, assignments(text, out)...)
	slices.SortFunc(out, func(a, b secretAt) int { return a.from - b.from })
	return out
}

// assignments finds the values that look drawn and are given to names that
// sound like secrets.
func assignments(text string, found []secretAt) (out []secretAt) {
	lower := lowered(text)
	for _, word := range secretWords {
		for from := 0; len(out) < maxFindings; {
			i := strings.Index(lower[from:], word)
			if i < 0 {
				break
			}
			at := from + i
			from = at + len(word)
			m := assigned.FindStringSubmatchIndex(text[at:min(at+300, len(text))])
			if m == nil {
				continue
			}
			v := text[at+m[2] : at+m[3]]
			if random(v) && !placeholder(v) && !covered(found, at+m[2]) && !covered(out, at+m[2]) {
				out = append(out, secretAt{"secret.assigned", at + m[2], at + m[3]})
			}
		}
	}
	return out
}

// lowered is a text with ASCII letters in lower case, byte for byte.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func covered(found []secretAt, at int) bool {
	for _, f := range found {
		if at >= f.from && at < f.to {
			return true
		}
	}
	return false
}

// secrets are the findings of locate, masked.
func secrets(text string) (out []policy.Finding) {
	for _, s := range locate(text) {
		out = append(out, policy.Finding{
			Rule: s.rule, Severity: "high", Line: 1 + strings.Count(text[:s.from], "\n"), Text: masked(text[s.from:s.to]),
		})
	}
	return out
}

// masked keeps the first four characters of a secret.
func masked(s string) string {
	if len(s) <= 8 {
		return "****"
	}
	return s[:4] + "****"
}

// mask replaces the secrets of a text.
func mask(text string) string {
	var b strings.Builder
	last := 0
	for _, s := range locate(text) {
		if s.from < last {
			continue
		}
		b.WriteString(text[last:s.from])
		b.WriteString(masked(text[s.from:s.to]))
		last = s.to
	}
	return b.String() + text[last:]
}

// placeholder reports whether a value stands for a secret rather than being
// one.
func placeholder(v string) bool {
	l := strings.ToLower(v)
	for _, p := range []string{"example", "xxxx", "your", "changeme", "placeholder", "dummy", "redacted", "****", "process.env", "os.environ", "getenv", "secrets.", "test-token", "1234567890", "<", "${", "fake", ":password@", ":passwd@", ":postgres@", ":secret@", "@localhost", "@127.0.0.1"} {
		if strings.Contains(l, p) {
			return true
		}
	}
	return false
}

// random reports whether a value looks drawn rather than written: letters and
// digits mixed, high entropy.
func random(v string) bool {
	digits, letters := 0, 0
	for _, r := range v {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		}
	}
	return digits >= 2 && letters >= 4 && entropy(v) >= entropyBar
}

func entropy(s string) float64 {
	var n [256]int
	for i := range len(s) {
		n[s[i]]++
	}
	e := 0.0
	for _, c := range n {
		if c > 0 {
			p := float64(c) / float64(len(s))
			e -= p * math.Log2(p)
		}
	}
	return e
}
