// Package secret is the one table of the forms by which issuers and protocols mark
// secrets. The log redacts by it and the content scan reports by it: what is only
// hidden may be taken loosely, what is reported to a person must be certain.
package secret

// Sets of bytes that follow a prefix.
const (
	Digits = "0123456789"
	Hexes  = Digits + "abcdefABCDEF"
	Uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Lowers = "abcdefghijklmnopqrstuvwxyz"
	Alnum  = Digits + Uppers + Lowers
	Word   = Alnum + "_"
	Token  = Word + "-"
	Dotted = Token + "."
	Base64 = Alnum + "+/="
)

// Format is one form of a secret. It has a loose form, either Set and Min or
// Loose, or a strict one, or both.
type Format struct {
	Kind    string // names it in a placeholder; "" where there is no loose form
	Literal string // is in every such secret, three bytes at least where there is a loose form; looked for first
	// Set and Min: at least Min bytes of Set follow the literal.
	Set string
	Min int
	// Loose is an expression; its group 1, where it has one, is the secret.
	Loose string
	// Finding names it in a report, and Strict is the expression it is reported by.
	Finding string
	Strict  string
}

// Formats lists them. Sources: the issuers' documentation and their secret-scanning
// partner pages.
func Formats() []Format { return append([]Format(nil), formats...) }

var formats = []Format{
	{Kind: "aws-key-id", Literal: "AKIA", Set: Uppers + Digits, Min: 16, Finding: "aws-key", Strict: `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`},
	{Kind: "aws-key-id", Literal: "ASIA", Set: Uppers + Digits, Min: 16, Finding: "aws-key", Strict: `\bASIA[A-Z2-7]{16}\b`},
	{Kind: "aws-key-id", Literal: "ABIA", Set: Uppers + Digits, Min: 16},
	{Kind: "aws-key-id", Literal: "ACCA", Set: Uppers + Digits, Min: 16},
	{Kind: "github", Literal: "ghp_", Set: Alnum, Min: 30, Finding: "github-token", Strict: `\bghp_[A-Za-z0-9]{36,}\b`},
	{Kind: "github", Literal: "gho_", Set: Alnum, Min: 30, Finding: "github-token", Strict: `\bgho_[A-Za-z0-9]{36,}\b`},
	{Kind: "github", Literal: "ghu_", Set: Alnum, Min: 30, Finding: "github-token", Strict: `\bghu_[A-Za-z0-9]{36,}\b`},
	{Kind: "github", Literal: "ghs_", Set: Alnum, Min: 30, Finding: "github-token", Strict: `\bghs_[A-Za-z0-9]{36,}\b`},
	{Kind: "github", Literal: "ghr_", Set: Alnum, Min: 30, Finding: "github-token", Strict: `\bghr_[A-Za-z0-9]{36,}\b`},
	{Kind: "github", Literal: "github_pat_", Set: Word, Min: 30, Finding: "github-pat", Strict: `\bgithub_pat_[A-Za-z0-9_]{60,}\b`},
	{Kind: "gitlab", Literal: "glpat-", Set: Dotted, Min: 20, Finding: "gitlab-token", Strict: `\bglpat-[A-Za-z0-9_-]{20,}`},
	{Kind: "gitlab", Literal: "gldt-", Set: Token, Min: 20, Finding: "gitlab-token", Strict: `\bgldt-[A-Za-z0-9_-]{20,}`},
	{Kind: "gitlab", Literal: "glrt-", Set: Token, Min: 20, Finding: "gitlab-token", Strict: `\bglrt-[A-Za-z0-9_-]{20,}`},
	{Kind: "gitlab", Literal: "glptt-", Set: Token, Min: 20},
	{Kind: "gitlab", Literal: "glcbt-", Set: Token, Min: 20},
	{Kind: "gitlab", Literal: "glsoat-", Set: Token, Min: 20},
	{Kind: "slack", Literal: "xoxa-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xoxb-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xoxe-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xoxp-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xoxr-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xoxs-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "xapp-", Set: Token, Min: 10},
	{Kind: "slack", Literal: "hooks.slack.com/services/", Set: Token + "/", Min: 20, Finding: "slack-webhook", Strict: `hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,}`},
	{Kind: "stripe", Literal: "sk_live_", Set: Alnum, Min: 16, Finding: "stripe-key", Strict: `\bsk_live_[A-Za-z0-9]{16,}`},
	{Kind: "stripe", Literal: "sk_test_", Set: Alnum, Min: 16},
	{Kind: "stripe", Literal: "rk_live_", Set: Alnum, Min: 16, Finding: "stripe-key", Strict: `\brk_live_[A-Za-z0-9]{16,}`},
	{Kind: "stripe", Literal: "rk_test_", Set: Alnum, Min: 16},
	{Kind: "stripe", Literal: "whsec_", Set: Base64, Min: 24},
	{Kind: "anthropic", Literal: "sk-ant-", Set: Token, Min: 20, Finding: "anthropic-key", Strict: `\bsk-ant-[A-Za-z0-9_-]{32,}`},
	{Kind: "openai", Literal: "sk-proj-", Set: Token, Min: 20, Finding: "openai-key", Strict: `\bsk-proj-[A-Za-z0-9_-]{32,}`},
	{Kind: "openai", Literal: "sk-svcacct-", Set: Token, Min: 20},
	{Kind: "openai", Literal: "sk-or-", Set: Token, Min: 20},
	{Kind: "openai", Literal: "sk-", Set: Alnum, Min: 32, Finding: "openai-key", Strict: `\bsk-(?:svcacct-)?[A-Za-z0-9]{40,}\b`},
	{Kind: "xai", Literal: "xai-", Set: Alnum, Min: 40},
	{Kind: "groq", Literal: "gsk_", Set: Alnum, Min: 40},
	{Kind: "perplexity", Literal: "pplx-", Set: Alnum, Min: 40},
	{Kind: "huggingface", Literal: "hf_", Set: Alnum, Min: 30, Finding: "huggingface-token", Strict: `\bhf_[A-Za-z0-9]{30,}\b`},
	{Kind: "replicate", Literal: "r8_", Set: Alnum, Min: 30},
	{Kind: "google", Literal: "AIza", Set: Token, Min: 35, Finding: "google-key", Strict: `\bAIza[A-Za-z0-9_-]{35}`},
	{Kind: "google", Literal: "GOCSPX-", Set: Token, Min: 24, Finding: "google-oauth", Strict: `\bGOCSPX-[A-Za-z0-9_-]{28}`},
	{Kind: "google", Literal: "ya29.", Set: Token, Min: 20, Finding: "google-token", Strict: `\bya29\.[A-Za-z0-9_-]{20,}`},
	{Kind: "npm", Literal: "npm_", Set: Alnum, Min: 36, Finding: "npm-token", Strict: `\bnpm_[A-Za-z0-9]{36}\b`},
	{Kind: "pypi", Literal: "pypi-AgEI", Set: Token, Min: 30},
	{Kind: "rubygems", Literal: "rubygems_", Set: Hexes, Min: 40},
	{Kind: "docker", Literal: "dckr_pat_", Set: Token, Min: 20, Finding: "docker-pat", Strict: `\bdckr_pat_[A-Za-z0-9_-]{27,}`},
	{Kind: "docker", Literal: "dckr_oat_", Set: Token, Min: 20},
	{Kind: "sendgrid", Literal: "SG.", Set: Dotted, Min: 50, Finding: "sendgrid-key", Strict: `\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}`},
	{Kind: "sendinblue", Literal: "xkeysib-", Set: Token, Min: 40},
	{Kind: "mailgun", Literal: "key-", Set: Hexes, Min: 32, Finding: "mailgun-key", Strict: `\bkey-[0-9a-f]{32}\b`},
	{Kind: "shopify", Literal: "shpat_", Set: Hexes, Min: 32},
	{Kind: "shopify", Literal: "shpca_", Set: Hexes, Min: 32},
	{Kind: "shopify", Literal: "shppa_", Set: Hexes, Min: 32},
	{Kind: "shopify", Literal: "shpss_", Set: Hexes, Min: 32},
	{Kind: "square", Literal: "sq0atp-", Set: Token, Min: 22},
	{Kind: "square", Literal: "sq0csp-", Set: Token, Min: 40},
	{Kind: "digitalocean", Literal: "dop_v1_", Set: Hexes, Min: 64, Finding: "digitalocean-token", Strict: `\bdop_v1_[a-f0-9]{64}\b`},
	{Kind: "digitalocean", Literal: "doo_v1_", Set: Hexes, Min: 64},
	{Kind: "digitalocean", Literal: "dor_v1_", Set: Hexes, Min: 64},
	{Kind: "databricks", Literal: "dapi", Set: Hexes, Min: 32, Finding: "databricks-token", Strict: `\bdapi[a-f0-9]{32}\b`},
	{Kind: "vault", Literal: "hvs.", Set: Token, Min: 20, Finding: "vault-token", Strict: `\bhvs\.[A-Za-z0-9_-]{24,}`},
	{Kind: "vault", Literal: "hvb.", Set: Token, Min: 20},
	{Kind: "grafana", Literal: "glsa_", Set: Word, Min: 32, Finding: "grafana-token", Strict: `\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}`},
	{Kind: "grafana", Literal: "glc_", Set: Base64, Min: 32},
	{Kind: "linear", Literal: "lin_api_", Set: Alnum, Min: 32, Finding: "linear-key", Strict: `\blin_api_[A-Za-z0-9]{32,}`},
	{Kind: "notion", Literal: "ntn_", Set: Alnum, Min: 40, Finding: "notion-token", Strict: `\bntn_[A-Za-z0-9]{40,}`},
	{Kind: "postman", Literal: "PMAK-", Set: Token, Min: 50, Finding: "postman-key", Strict: `\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}`},
	{Kind: "newrelic", Literal: "NRAK-", Set: Alnum, Min: 20, Finding: "newrelic-key", Strict: `\bNRAK-[A-Z0-9]{27}`},
	{Kind: "pulumi", Literal: "pul-", Set: Hexes, Min: 40, Finding: "pulumi-token", Strict: `\bpul-[a-f0-9]{40}\b`},
	{Kind: "age", Literal: "AGE-SECRET-KEY-1", Set: Uppers + Digits, Min: 50, Finding: "age-key", Strict: `\bAGE-SECRET-KEY-1[A-Z0-9]{58}`},
	{Kind: "fly", Literal: "fo1_", Set: Token, Min: 40},
	{Kind: "heroku", Literal: "HRKU-", Set: Token, Min: 30},
	{Kind: "doppler", Literal: "dp.pt.", Set: Alnum, Min: 40},
	{Kind: "planetscale", Literal: "pscale_tkn_", Set: Dotted, Min: 30},
	{Kind: "planetscale", Literal: "pscale_pw_", Set: Dotted, Min: 30},
	{Kind: "sentry", Literal: "sntrys_", Set: Base64 + "_", Min: 40},
	{Kind: "sentry", Literal: "sntryu_", Set: Hexes, Min: 60},
	{Kind: "supabase", Literal: "sbp_", Set: Hexes, Min: 40},
	{Kind: "netlify", Literal: "nfp_", Set: Alnum, Min: 36},
	{Kind: "atlassian", Literal: "ATATT3", Set: Token + "=", Min: 60},
	{Kind: "atlassian", Literal: "ATBB", Set: Alnum, Min: 28},
	{Kind: "dynatrace", Literal: "dt0c01.", Set: Dotted, Min: 60},
	{Kind: "tailscale", Literal: "tskey-", Set: Token, Min: 20},
	{Kind: "typeform", Literal: "tfp_", Set: Dotted, Min: 40},
	{Kind: "1password", Literal: "ops_eyJ", Set: Base64, Min: 60},
	{Kind: "azure", Literal: "AccountKey=", Set: Base64, Min: 60, Finding: "azure-key", Strict: `AccountKey=[A-Za-z0-9+/]{60,}={0,2}`},
	{Kind: "azure", Literal: "SharedAccessKey=", Set: Base64, Min: 30},
	{Kind: "azure", Literal: "?sig=", Set: Token + "%", Min: 30},
	{Kind: "azure", Literal: "&sig=", Set: Token + "%", Min: 30},
	{Kind: "jwt", Literal: "eyJ", Set: Dotted, Min: 40, Finding: "jwt", Strict: `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`},

	// What a prefix and a set of bytes do not tell.
	{Kind: "pem", Literal: "PRIVATE KEY", Loose: `-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?`},
	{Kind: "url", Literal: "://", Loose: `\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]{3,})@`},
	{Kind: "url", Literal: "://", Loose: `\bhttps?://([^\s/:@"'<>]{16,})@`},
	{Kind: "header", Literal: "earer ", Loose: `\b[Bb]earer ([A-Za-z0-9._~+/=-]{8,})`},
	{Kind: "header", Literal: "asic ", Loose: `\b[Bb]asic ([A-Za-z0-9+/]{12,}={0,2})`},
	{Kind: "header", Literal: "oken ", Loose: `(?i)\bauthorization["']?\s*[:=]\s*["']?token ([^\s"']{8,})`},
	{Kind: "header", Literal: "ookie:", Loose: `(?i)\bcookie:[ \t]*([^\s"'` + "`" + `][^\n"'` + "`" + `]{7,})`},
	{Kind: "netrc", Literal: "password ", Loose: `\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S+)`},
	{Kind: "userpass", Literal: "curl", Loose: `\bcurl\b[^\n|;]*?\s(?:-u|--user)[ =]?["']?[^\s:"']+:([^\s"']{3,})`},
	{Kind: "telegram", Literal: ":AA", Loose: `\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`},

	// Findings whose strict form spans several of the rows above, or that are left to
	// the names they are given to where text is only redacted.
	{Literal: "xox", Finding: "slack-token", Strict: `\bxox[abeoprs]-[A-Za-z0-9-]{10,}`},
	{Literal: "pypi-", Finding: "pypi-token", Strict: `\bpypi-[A-Za-z0-9_-]{50,}`},
	{Literal: "SK", Finding: "twilio-key", Strict: `\bSK[0-9a-f]{32}\b`},
	{Literal: "shp", Finding: "shopify-token", Strict: `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`},
	{Literal: "sq0", Finding: "square-token", Strict: `\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}`},
	{Literal: ".atlasv1.", Finding: "terraform-token", Strict: `\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}`},
	{Literal: "dp.", Finding: "doppler-token", Strict: `\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,}`},
	{Literal: "FlyV1 ", Finding: "fly-token", Strict: `\bFlyV1 fm2_[A-Za-z0-9+/=,_-]{40,}`},
	{Literal: ":AA", Finding: "telegram-token", Strict: `\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`},
	{Literal: "/api/webhooks/", Finding: "discord-webhook", Strict: `discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}`},
	{Literal: "-----BEGIN", Finding: "private-key", Strict: `-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----`},
	{Literal: "://", Finding: "url-password", Strict: `\b[a-z][a-z0-9+.-]{1,15}://[^/\s:@'"$<>{}]{1,64}:[^/\s:@'"$<>{}]{6,}@[A-Za-z0-9.-]+`},
}
