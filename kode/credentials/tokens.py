"""The kinds of tokens that providers issue, each known by its prefix: a table, no procedure.

How a prefix is found in a text, and what else must be true of it, is `prefixed`. Tokens without a
prefix of their own are `shapes`.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    prefix: str
    """What `str.find` looks for; the body follows it."""
    body: re.Pattern[str]
    random: bool = False
    """The prefix is a common one: the body must look random to count."""


def _token(kind: str, prefix: str, body: str, *, random: bool = False) -> Token:
    return Token(kind, prefix, re.compile(body), random)


_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_HEX = r"[0-9a-fA-F]"

TOKENS: tuple[Token, ...] = (
    _token("Anthropic key", "sk-ant-", rf"{_W}{{16,}}"),
    _token("OpenAI key", "sk-proj-", rf"{_W}{{16,}}"),
    _token("OpenAI key", "sk-svcacct-", rf"{_W}{{16,}}"),
    _token("OpenAI key", "sk-admin-", rf"{_W}{{16,}}"),
    _token("OpenRouter key", "sk-or-", rf"{_W}{{16,}}"),
    _token("API key", "sk-", rf"{_A}{{20,}}"),
    _token("API key", "sk-", rf"{_W}{{20,}}", random=True),
    _token("Google key", "AIza", rf"{_W}{{30,}}"),
    _token("Google refresh token", "1//0", rf"{_W}{{20,}}"),
    _token("Google access token", "ya29.", rf"{_W}{{20,}}"),
    _token("Google client secret", "GOCSPX-", rf"{_W}{{16,}}"),
    *(
        _token("GitHub token", f"gh{letter}_", rf"{_A}{{16,}}")
        for letter in ("p", "o", "u", "s", "r")
    ),
    _token("GitHub token", "github_pat_", r"\w{20,}"),
    *(
        _token("GitLab token", prefix, rf"{_W}{{16,}}(?:\.{_A}+)*")
        for prefix in (
            "glpat-",
            "gldt-",
            "glrt-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glimt-",
            "glagent-",
            "glsoat-",
            "gloas-",
            "glffct-",
            "GR1348941",
        )
    ),
    *(
        _token("AWS access key", prefix, r"[A-Z0-9]{16}(?![A-Za-z0-9])")
        for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    _token("AWS Bedrock key", "ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    *(
        _token("Slack token", prefix, r"[A-Za-z0-9-]{10,}", random=True)
        for prefix in (
            "xoxb-",
            "xoxp-",
            "xoxa-",
            "xoxr-",
            "xoxs-",
            "xoxo-",
            "xoxc-",
            "xoxd-",
            "xoxe-",
            "xoxe.xoxb-",
            "xoxe.xoxp-",
            "xapp-",
        )
    ),
    _token("Slack webhook", "hooks.slack.com/services/", r"[A-Za-z0-9/]{20,}", random=True),
    _token("Slack webhook", "hooks.slack.com/workflows/", r"[A-Za-z0-9/]{20,}", random=True),
    _token("Discord webhook", "discord.com/api/webhooks/", r"\d{8,}/[A-Za-z0-9_-]{30,}"),
    _token("Discord webhook", "discordapp.com/api/webhooks/", r"\d{8,}/[A-Za-z0-9_-]{30,}"),
    _token("Teams webhook", "webhook.office.com/webhookb2/", r"[A-Za-z0-9@/-]{40,}"),
    *(
        _token("Stripe key", f"{who}_{mode}_", rf"{_A}{{12,}}")
        for who in ("sk", "rk")
        for mode in ("live", "test", "prod")
    ),
    _token("webhook secret", "whsec_", r"[A-Za-z0-9+/]{16,}={0,2}", random=True),
    _token("Twilio key", "SK", rf"[0-9a-f]{{32}}(?!{_A})"),
    _token("SendGrid key", "SG.", rf"{_W}{{16,}}\.{_W}{{16,}}"),
    _token("Mailgun key", "key-", rf"[0-9a-f]{{32}}(?!{_A})"),
    _token("Brevo key", "xkeysib-", rf"{_W}{{30,}}"),
    _token("Brevo key", "xsmtpsib-", rf"{_W}{{30,}}"),
    _token("Resend key", "re_", rf"{_A}{{6,}}_{_A}{{16,}}", random=True),
    _token("npm token", "npm_", rf"{_A}{{20,}}", random=True),
    _token("PyPI token", "pypi-", rf"Ag[A-Za-z0-9]{_W}{{16,}}"),
    _token("RubyGems key", "rubygems_", rf"{_HEX}{{32,}}"),
    _token("crates.io token", "cio", rf"{_A}{{32}}(?!{_A})", random=True),
    _token("NuGet key", "oy2", rf"[a-z0-9]{{43}}(?!{_A})", random=True),
    _token("Clojars token", "CLOJARS_", r"[a-z0-9]{40,}"),
    _token("Docker token", "dckr_pat_", rf"{_W}{{16,}}"),
    _token("Docker token", "dckr_oat_", rf"{_W}{{16,}}"),
    _token("Hugging Face token", "hf_", rf"{_A}{{20,}}", random=True),
    _token("Hugging Face token", "api_org_", rf"{_A}{{20,}}"),
    _token("Google storage key", "GOOG1E", rf"[A-Z0-9]{{50,}}(?!{_A})"),
    _token("WakaTime key", "waka_", rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    _token("X token", "AAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{40,}", random=True),
    _token(
        "encoded private key",
        "LS0tLS1CRUdJTi",
        r"[A-Za-z0-9+/]{2,60}(?:UFJJVkFURS|BSSVZBVEUg|QUklWQVRF)",
    ),
    _token("Intercom token", "dG9rOj", r"[A-Za-z0-9+/=_-]{30,}", random=True),
    _token("Groq key", "gsk_", rf"{_A}{{20,}}", random=True),
    _token("xAI key", "xai-", rf"{_A}{{20,}}", random=True),
    _token("Perplexity key", "pplx-", rf"{_A}{{20,}}", random=True),
    _token("Replicate token", "r8_", rf"{_A}{{20,}}", random=True),
    _token("Fireworks key", "fw_", rf"{_A}{{20,}}", random=True),
    _token("Cerebras key", "csk-", rf"{_A}{{20,}}", random=True),
    _token("NVIDIA key", "nvapi-", rf"{_W}{{20,}}", random=True),
    _token("Jina key", "jina_", rf"{_W}{{20,}}", random=True),
    _token("Voyage key", "pa-", rf"{_W}{{32,}}", random=True),
    _token("Tavily key", "tvly-", rf"{_W}{{16,}}", random=True),
    _token("Firecrawl key", "fc-", rf"{_HEX}{{32}}(?!{_A})"),
    _token("Pinecone key", "pcsk_", rf"{_W}{{20,}}", random=True),
    _token("LangSmith key", "lsv2_", rf"[ps][tk]_{_W}{{20,}}"),
    _token("API key", "sk_", rf"{_A}{{32,}}", random=True),
    *(
        _token("DigitalOcean token", f"do{letter}_v1_", rf"{_HEX}{{32,}}")
        for letter in ("o", "p", "r")
    ),
    _token("Heroku key", "HRKU-", rf"{_W}{{20,}}", random=True),
    *(
        _token("Doppler token", f"dp.{part}.", r"[A-Za-z0-9._-]{20,}")
        for part in ("pt", "st", "ct", "sa", "scim", "audit")
    ),
    _token("Linear key", "lin_api_", rf"{_A}{{16,}}"),
    _token("Linear token", "lin_oauth_", rf"{_A}{{16,}}"),
    _token("Notion key", "ntn_", rf"{_A}{{20,}}", random=True),
    _token("Notion key", "secret_", rf"{_A}{{32,}}", random=True),
    _token("Figma token", "figd_", rf"{_W}{{20,}}", random=True),
    _token("Figma token", "figu_", rf"{_W}{{20,}}", random=True),
    _token("Airtable token", "pat", rf"{_A}{{14}}\.{_HEX}{{40,}}"),
    _token("Atlassian token", "ATATT3", r"[A-Za-z0-9_=+/-]{20,}"),
    _token("Atlassian token", "ATCTT3", r"[A-Za-z0-9_=+/-]{20,}"),
    _token("Bitbucket token", "ATBB", rf"{_A}{{20,}}", random=True),
    _token("Postman key", "PMAK-", rf"{_W}{{24,}}", random=True),
    _token("New Relic key", "NRAK-", rf"{_A}{{20,}}"),
    _token("New Relic key", "NRIQ-", rf"{_W}{{20,}}"),
    _token("New Relic key", "NRII-", rf"{_W}{{20,}}"),
    _token("Grafana token", "glsa_", rf"{_W}{{20,}}", random=True),
    _token("Grafana token", "glc_", r"[A-Za-z0-9+/=_-]{24,}", random=True),
    _token("Sentry token", "sntrys_", r"[A-Za-z0-9+/=_-]{20,}"),
    _token("Sentry token", "sntryu_", rf"{_HEX}{{32,}}"),
    _token("Databricks token", "dapi", rf"{_HEX}{{32}}(?!{_A})"),
    *(
        _token("Shopify token", f"shp{part}_", rf"{_HEX}{{20,}}")
        for part in ("at", "ca", "pa", "ss")
    ),
    _token("Square token", "sq0atp-", rf"{_W}{{16,}}"),
    _token("Square token", "sq0csp-", rf"{_W}{{16,}}"),
    _token("Square token", "EAAA", rf"{_W}{{56,}}", random=True),
    _token("Facebook token", "EAAC", rf"{_A}{{40,}}", random=True),
    _token("Facebook token", "EAAM", rf"{_A}{{40,}}", random=True),
    _token("PayPal token", "access_token$production$", r"[a-z0-9$]{20,}"),
    _token("age key", "AGE-SECRET-KEY-1", r"[A-Za-z0-9]{20,}"),
    _token("Vault token", "hvs.", rf"{_W}{{20,}}"),
    _token("Vault token", "hvb.", rf"{_W}{{20,}}"),
    _token("Vault token", "hvr.", rf"{_W}{{20,}}"),
    _token("Pulumi token", "pul-", rf"{_HEX}{{40}}(?!{_A})"),
    _token("PlanetScale token", "pscale_tkn_", rf"{_W}{{20,}}"),
    _token("PlanetScale password", "pscale_pw_", rf"{_W}{{20,}}"),
    _token("PlanetScale token", "pscale_oauth_", rf"{_W}{{20,}}"),
    _token("Supabase token", "sbp_", rf"{_A}{{32,}}", random=True),
    _token("Supabase key", "sb_secret_", rf"{_W}{{16,}}", random=True),
    _token("Vercel token", "vercel_blob_rw_", rf"{_W}{{20,}}"),
    _token("Vercel token", "vcp_", rf"{_A}{{20,}}", random=True),
    _token("Netlify token", "nfp_", rf"{_A}{{30,}}", random=True),
    _token("Cloudflare key", "v1.0-", rf"{_HEX}{{20,}}-{_HEX}{{100,}}"),
    _token("Fly token", "fm1_", r"[A-Za-z0-9+/=_-]{40,}", random=True),
    _token("Fly token", "fm2_", r"[A-Za-z0-9+/=_-]{40,}", random=True),
    _token("Fly token", "fo1_", rf"{_W}{{40,}}", random=True),
    _token("Dynatrace token", "dt0c01.", r"[A-Z0-9]{20,}\.[A-Z0-9]{40,}"),
    _token("EasyPost key", "EZAK", rf"{_A}{{50,}}"),
    _token("Contentful token", "CFPAT-", rf"{_W}{{30,}}"),
    _token("Typeform token", "tfp_", r"[A-Za-z0-9_.-]{40,}", random=True),
    _token("Tailscale key", "tskey-", rf"{_W}{{20,}}", random=True),
    _token("Sourcegraph token", "sgp_", rf"{_W}{{36,}}", random=True),
    _token("Prefect key", "pnu_", rf"{_A}{{30,}}", random=True),
    _token("PostHog key", "phx_", rf"{_A}{{30,}}", random=True),
    _token("CircleCI token", "CCIPAT_", rf"{_W}{{20,}}"),
    _token("Buildkite token", "bkua_", rf"{_A}{{30,}}"),
    *(
        _token("SonarQube token", f"sq{letter}_", rf"{_HEX}{{40}}(?!{_A})")
        for letter in ("p", "u", "a")
    ),
    _token("Artifactory key", "AKCp", rf"{_A}{{50,}}", random=True),
    _token("Alibaba access key", "LTAI", rf"{_A}{{12,30}}(?!{_A})", random=True),
    _token("Tencent secret id", "AKID", rf"{_A}{{28,}}", random=True),
    _token("Yandex key", "AQVN", rf"{_W}{{30,}}", random=True),
    _token("1Password token", "ops_eyJ", rf"{_W}{{40,}}"),
    _token("Mapbox token", "sk.eyJ", rf"{_W}{{20,}}\.{_W}{{10,}}"),
    _token("Adafruit key", "aio_", rf"{_A}{{24,}}", random=True),
    _token("Terraform token", ".atlasv1.", r"[A-Za-z0-9_=-]{30,}"),
    _token("JWT", "eyJ", rf"{_W}{{8,}}\.{_W}{{8,}}\.{_W}{{8,}}"),
    _token("Telegram token", ":AA", rf"{_W}{{32,}}(?!{_W})"),
    _token("SSH private key", "b3BlbnNzaC1rZXktdjE", r"[A-Za-z0-9+/=\s]{40,}"),
)
"""The tokens of providers. A prefix counts where no letter or digit stands before it (Telegram's,
whose prefix follows the bot's number, and Terraform's excepted)."""

MIN_TOKEN_CHARS = 15
"""No token of the table, prefix and body together, is shorter."""

SUBNAMES = {":AA", ".atlasv1.", "hooks.slack.com/services/", "webhook.office.com/webhookb2/"}
"""Prefixes that may follow a letter or a digit: they are the middle of a longer name."""

CONTINUES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
"""What stands before a prefix only where that is a part of another word."""

COMPOUND = {"eyJ", "SG.", "sk.eyJ", "re_", "dt0c01.", "pat", "v1.0-"}
"""Prefixes of bodies in several parts. They may not follow `-` or `_` either: then one run of such
characters is tried once, not once per occurrence of the prefix in it."""
