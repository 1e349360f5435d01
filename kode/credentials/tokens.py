"""The token formats of providers, each recognized by its prefix: a table, no code.

`shapes` searches prefixes and checks the other conditions; it also handles tokens without a prefix.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    prefix: str
    """Searched with `str.find`; the body follows it."""
    body: re.Pattern[str]
    random: bool = False
    """The prefix is common: the body must look random to count."""


def _tokens(kind: str, prefixes: str, body: str, *, random: bool = False) -> Iterator[Token]:
    for prefix in prefixes.split():
        yield Token(kind, prefix, re.compile(body), random)


_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_HEX = r"[0-9a-fA-F]"

TOKENS: tuple[Token, ...] = (
    *_tokens("Anthropic key", "sk-ant-", rf"{_W}{{16,}}"),
    *_tokens("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", rf"{_W}{{16,}}"),
    *_tokens("OpenRouter key", "sk-or-", rf"{_W}{{16,}}"),
    *_tokens("API key", "sk-", rf"{_A}{{20,}}"),
    *_tokens("API key", "sk-", rf"{_W}{{20,}}", random=True),
    *_tokens("Google key", "AIza", rf"{_W}{{30,}}"),
    *_tokens("Google refresh token", "1//0", rf"{_W}{{20,}}"),
    *_tokens("Google access token", "ya29.", rf"{_W}{{20,}}"),
    *_tokens("Google client secret", "GOCSPX-", rf"{_W}{{16,}}"),
    *_tokens("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_A}{{16,}}"),
    *_tokens("GitHub token", "github_pat_", r"\w{20,}"),
    *_tokens(
        "GitLab token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct- GR1348941",
        rf"{_W}{{16,}}(?:\.{_A}+)*",
    ),
    *_tokens("AWS access key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    *_tokens("AWS Bedrock key", "ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    *_tokens(
        "Slack token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xoxb- xoxe.xoxp- xapp-",
        r"[A-Za-z0-9-]{10,}",
        random=True,
    ),
    *_tokens(
        "Slack webhook",
        "hooks.slack.com/services/ hooks.slack.com/workflows/",
        r"[A-Za-z0-9/]{20,}",
        random=True,
    ),
    *_tokens(
        "Discord webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        r"\d{8,}/[A-Za-z0-9_-]{30,}",
    ),
    *_tokens("Teams webhook", "webhook.office.com/webhookb2/", r"[A-Za-z0-9@/-]{40,}"),
    *_tokens(
        "Stripe key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", rf"{_A}{{12,}}"
    ),
    *_tokens("webhook secret", "whsec_", r"[A-Za-z0-9+/]{16,}={0,2}", random=True),
    *_tokens("Twilio key", "SK", rf"[0-9a-f]{{32}}(?!{_A})"),
    *_tokens("SendGrid key", "SG.", rf"{_W}{{16,}}\.{_W}{{16,}}"),
    *_tokens("Mailgun key", "key-", rf"[0-9a-f]{{32}}(?!{_A})"),
    *_tokens("Brevo key", "xkeysib- xsmtpsib-", rf"{_W}{{30,}}"),
    *_tokens("Resend key", "re_", rf"{_A}{{6,}}_{_A}{{16,}}", random=True),
    *_tokens("npm token", "npm_", rf"{_A}{{20,}}", random=True),
    *_tokens("PyPI token", "pypi-", rf"Ag[A-Za-z0-9]{_W}{{16,}}"),
    *_tokens("RubyGems key", "rubygems_", rf"{_HEX}{{32,}}"),
    *_tokens("crates.io token", "cio", rf"{_A}{{32}}(?!{_A})", random=True),
    *_tokens("NuGet key", "oy2", rf"[a-z0-9]{{43}}(?!{_A})", random=True),
    *_tokens("Clojars token", "CLOJARS_", r"[a-z0-9]{40,}"),
    *_tokens("Docker token", "dckr_pat_ dckr_oat_", rf"{_W}{{16,}}"),
    *_tokens("Hugging Face token", "hf_", rf"{_A}{{20,}}", random=True),
    *_tokens("Hugging Face token", "api_org_", rf"{_A}{{20,}}"),
    *_tokens("Google storage key", "GOOG1E", rf"[A-Z0-9]{{50,}}(?!{_A})"),
    *_tokens("WakaTime key", "waka_", rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    *_tokens("X token", "AAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{40,}", random=True),
    *_tokens(
        "encoded private key",
        "LS0tLS1CRUdJTi",
        r"[A-Za-z0-9+/]{2,60}(?:UFJJVkFURS|BSSVZBVEUg|QUklWQVRF)",
    ),
    *_tokens("Intercom token", "dG9rOj", r"[A-Za-z0-9+/=_-]{30,}", random=True),
    *_tokens("Groq key", "gsk_", rf"{_A}{{20,}}", random=True),
    *_tokens("xAI key", "xai-", rf"{_A}{{20,}}", random=True),
    *_tokens("Perplexity key", "pplx-", rf"{_A}{{20,}}", random=True),
    *_tokens("Replicate token", "r8_", rf"{_A}{{20,}}", random=True),
    *_tokens("Fireworks key", "fw_", rf"{_A}{{20,}}", random=True),
    *_tokens("Cerebras key", "csk-", rf"{_A}{{20,}}", random=True),
    *_tokens("NVIDIA key", "nvapi-", rf"{_W}{{20,}}", random=True),
    *_tokens("Jina key", "jina_", rf"{_W}{{20,}}", random=True),
    *_tokens("Voyage key", "pa-", rf"{_W}{{32,}}", random=True),
    *_tokens("Tavily key", "tvly-", rf"{_W}{{16,}}", random=True),
    *_tokens("Firecrawl key", "fc-", rf"{_HEX}{{32}}(?!{_A})"),
    *_tokens("Pinecone key", "pcsk_", rf"{_W}{{20,}}", random=True),
    *_tokens("LangSmith key", "lsv2_", rf"[ps][tk]_{_W}{{20,}}"),
    *_tokens("API key", "sk_", rf"{_A}{{32,}}", random=True),
    *_tokens("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", rf"{_HEX}{{32,}}"),
    *_tokens("Heroku key", "HRKU-", rf"{_W}{{20,}}", random=True),
    *_tokens(
        "Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[A-Za-z0-9._-]{20,}"
    ),
    *_tokens("Linear key", "lin_api_", rf"{_A}{{16,}}"),
    *_tokens("Linear token", "lin_oauth_", rf"{_A}{{16,}}"),
    *_tokens("Notion key", "ntn_", rf"{_A}{{20,}}", random=True),
    *_tokens("Notion key", "secret_", rf"{_A}{{32,}}", random=True),
    *_tokens("Figma token", "figd_ figu_", rf"{_W}{{20,}}", random=True),
    *_tokens("Airtable token", "pat", rf"{_A}{{14}}\.{_HEX}{{40,}}"),
    *_tokens("Atlassian token", "ATATT3 ATCTT3", r"[A-Za-z0-9_=+/-]{20,}"),
    *_tokens("Bitbucket token", "ATBB", rf"{_A}{{20,}}", random=True),
    *_tokens("Postman key", "PMAK-", rf"{_W}{{24,}}", random=True),
    *_tokens("New Relic key", "NRAK-", rf"{_A}{{20,}}"),
    *_tokens("New Relic key", "NRIQ- NRII-", rf"{_W}{{20,}}"),
    *_tokens("Grafana token", "glsa_", rf"{_W}{{20,}}", random=True),
    *_tokens("Grafana token", "glc_", r"[A-Za-z0-9+/=_-]{24,}", random=True),
    *_tokens("Sentry token", "sntrys_", r"[A-Za-z0-9+/=_-]{20,}"),
    *_tokens("Sentry token", "sntryu_", rf"{_HEX}{{32,}}"),
    *_tokens("Databricks token", "dapi", rf"{_HEX}{{32}}(?!{_A})"),
    *_tokens("Shopify token", "shpat_ shpca_ shppa_ shpss_", rf"{_HEX}{{20,}}"),
    *_tokens("Square token", "sq0atp- sq0csp-", rf"{_W}{{16,}}"),
    *_tokens("Square token", "EAAA", rf"{_W}{{56,}}", random=True),
    *_tokens("Facebook token", "EAAC EAAM", rf"{_A}{{40,}}", random=True),
    *_tokens("PayPal token", "access_token$production$", r"[a-z0-9$]{20,}"),
    *_tokens("age key", "AGE-SECRET-KEY-1", r"[A-Za-z0-9]{20,}"),
    *_tokens("Vault token", "hvs. hvb. hvr.", rf"{_W}{{20,}}"),
    *_tokens("Pulumi token", "pul-", rf"{_HEX}{{40}}(?!{_A})"),
    *_tokens("PlanetScale token", "pscale_tkn_ pscale_oauth_", rf"{_W}{{20,}}"),
    *_tokens("PlanetScale password", "pscale_pw_", rf"{_W}{{20,}}"),
    *_tokens("Supabase token", "sbp_", rf"{_A}{{32,}}", random=True),
    *_tokens("Supabase key", "sb_secret_", rf"{_W}{{16,}}", random=True),
    *_tokens("Vercel token", "vercel_blob_rw_", rf"{_W}{{20,}}"),
    *_tokens("Vercel token", "vcp_", rf"{_A}{{20,}}", random=True),
    *_tokens("Netlify token", "nfp_", rf"{_A}{{30,}}", random=True),
    *_tokens("Cloudflare key", "v1.0-", rf"{_HEX}{{20,}}-{_HEX}{{100,}}"),
    *_tokens("Fly token", "fm1_ fm2_", r"[A-Za-z0-9+/=_-]{40,}", random=True),
    *_tokens("Fly token", "fo1_", rf"{_W}{{40,}}", random=True),
    *_tokens("Dynatrace token", "dt0c01.", r"[A-Z0-9]{20,}\.[A-Z0-9]{40,}"),
    *_tokens("EasyPost key", "EZAK", rf"{_A}{{50,}}"),
    *_tokens("Contentful token", "CFPAT-", rf"{_W}{{30,}}"),
    *_tokens("Typeform token", "tfp_", r"[A-Za-z0-9_.-]{40,}", random=True),
    *_tokens("Tailscale key", "tskey-", rf"{_W}{{20,}}", random=True),
    *_tokens("Sourcegraph token", "sgp_", rf"{_W}{{36,}}", random=True),
    *_tokens("Prefect key", "pnu_", rf"{_A}{{30,}}", random=True),
    *_tokens("PostHog key", "phx_", rf"{_A}{{30,}}", random=True),
    *_tokens("CircleCI token", "CCIPAT_", rf"{_W}{{20,}}"),
    *_tokens("Buildkite token", "bkua_", rf"{_A}{{30,}}"),
    *_tokens("SonarQube token", "sqp_ squ_ sqa_", rf"{_HEX}{{40}}(?!{_A})"),
    *_tokens("Artifactory key", "AKCp", rf"{_A}{{50,}}", random=True),
    *_tokens("Alibaba access key", "LTAI", rf"{_A}{{12,30}}(?!{_A})", random=True),
    *_tokens("Tencent secret id", "AKID", rf"{_A}{{28,}}", random=True),
    *_tokens("Yandex key", "AQVN", rf"{_W}{{30,}}", random=True),
    *_tokens("1Password token", "ops_eyJ", rf"{_W}{{40,}}"),
    *_tokens("Mapbox token", "sk.eyJ", rf"{_W}{{20,}}\.{_W}{{10,}}"),
    *_tokens("Adafruit key", "aio_", rf"{_A}{{24,}}", random=True),
    *_tokens("Terraform token", ".atlasv1.", r"[A-Za-z0-9_=-]{30,}"),
    *_tokens("JWT", "eyJ", rf"{_W}{{8,}}\.{_W}{{8,}}\.{_W}{{8,}}"),
    *_tokens("Telegram token", ":AA", rf"{_W}{{32,}}(?!{_W})"),
    *_tokens("SSH private key", "b3BlbnNzaC1rZXktdjE", r"[A-Za-z0-9+/=\s]{40,}"),
)
"""The tokens of providers. A prefix counts unless a letter or digit precedes it (except Telegram's,
whose prefix follows the bot's number, and Terraform's)."""

MIN_TOKEN_CHARS = 15
"""No token of the table, prefix and body together, is shorter."""

SUBNAMES = {":AA", ".atlasv1.", "hooks.slack.com/services/", "webhook.office.com/webhookb2/"}
"""Prefixes that may follow a letter or a digit: they are the middle of a longer name."""

CONTINUES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
"""Characters before a prefix that make it a part of another word."""

COMPOUND = {"eyJ", "SG.", "sk.eyJ", "re_", "dt0c01.", "pat", "v1.0-"}
"""Prefixes of bodies in several parts. They may not follow `-` or `_` either, so that a run of such
characters is tried once, not once per occurrence of the prefix in it."""
