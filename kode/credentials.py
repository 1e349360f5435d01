"""What looks like a credential in a text: found, and masked. A pure function of the text.

The session log masks with it what goes to disk, memory refuses what holds one. It judges only the
text as written; undoing disguises (invisible characters, look-alike letters) is the work of
`kode.memory.scan`.

Four kinds of rules: tokens of a provider, known by their prefix (`TOKENS`); private key blocks;
passwords inside URLs and headers; and assignments (`password = ...`, `the api key is ...`) whose
value looks random. Hashes, UUIDs, public keys, git revisions, placeholders and references to a
vault or the environment are not credentials.

Every rule starts from a plain `str.find` and matches forward with one character class at a time,
so that the time is linear in the text, whatever the text is.
"""

import base64
import binascii
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Credential:
    """One credential in a text: `text[start:end]` is the value, `kind` says whose it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    prefix: str
    """What `str.find` looks for; the body follows it."""
    body: re.Pattern[str]
    random: bool = False
    """The prefix is a common one: the body must look random to count."""


def _token(kind: str, prefix: str, body: str, *, random: bool = False) -> _Token:
    return _Token(kind, prefix, re.compile(body), random)


_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_HEX = r"[0-9a-fA-F]"

TOKENS: tuple[_Token, ...] = (
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

_MIN_TOKEN_CHARS = 15
"""No token of the table, prefix and body together, is shorter."""

_SUBNAMES = {":AA", ".atlasv1.", "hooks.slack.com/services/", "webhook.office.com/webhookb2/"}
_CONTINUES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_COMPOUND = {"eyJ", "SG.", "sk.eyJ", "re_", "dt0c01.", "pat", "v1.0-"}
"""Prefixes of bodies in several parts. They may not follow `-` or `_` either: then one run of such
characters is tried once, not once per occurrence of the prefix in it."""

_DISCORD = re.compile(r"[MNO][A-Za-z0-9_-]{17,30}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{25,50}")
_DOT_PART = re.compile(r"\.[A-Za-z0-9_-]{6,7}\.")
_AZURE_SECRET = re.compile(r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{30,36}")
_MAILCHIMP = re.compile(r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])")

_HINTED: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "sshpass",
        re.compile(r"""sshpass\s+-p\s*["']?(?P<value>[^\s"']{4,128})"""),
        "password",
    ),
    (
        "pw",
        re.compile(
            r"""\b[Pp][Ww]\b(?: is|[ \t]{0,2}[:=])[ \t"']{0,3}(?P<value>[^\s"',;]{6,128})"""
        ),
        "password",
    ),
    (
        "login",
        re.compile(r"[Ll]ogin\b[:=]?[ \t]{1,2}\S{1,64}[ \t]{0,2}/[ \t]{0,2}(?P<value>\S{8,128})"),
        "password",
    ),
    (
        "define(",
        re.compile(
            r"""define\(\s*["']\w*(?:PASS|SECRET|KEY|TOKEN|SALT)\w*["']\s*,\s*["'](?P<value>[^"']{8,256})["']"""
        ),
        "password",
    ),
    (
        "secret_key_base",
        re.compile(r"secret_key_base\W{1,5}(?P<value>[0-9a-f]{64,})"),
        "secret",
    ),
    ("ac", re.compile(r"\bAC[0-9a-f]{32}:(?P<value>[0-9a-f]{32})\b"), "token"),
    (
        "cookie",
        re.compile(
            r"[Cc]ookie:\s*(?:[^;\n]{0,200};\s*)?[\w.-]{0,40}(?:[Ss]ess|[Ss]id|[Aa]uth|[Tt]oken|jwt)"
            r"[\w.-]{0,40}=(?P<value>[A-Za-z0-9%._~+/-]{20,})"
        ),
        "cookie",
    ),
    (
        ":$",
        re.compile(r"[\w.-]{1,64}:(?P<value>\$(?:apr1|1|2[abxy]|5|6|y|7)\$[./A-Za-z0-9$=,-]{20,})"),
        "password hash",
    ),
    (
        "putty-user-key",
        re.compile(
            r"PuTTY-User-Key-File[^\x00]{1,2000}?Private-Lines:\s*\d+\s+(?P<value>[A-Za-z0-9+/=]{16,})"
        ),
        "private key",
    ),
    (
        "phrase",
        re.compile(
            r"(?:[Ss]eed|[Rr]ecovery|[Mm]nemonic|[Bb]ackup|[Ww]allet) phrase\b"
            r"[^A-Za-z]{0,20}(?:is[^A-Za-z]{1,5})?"
            r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
        ),
        "seed phrase",
    ),
    (
        "mnemonic",
        re.compile(
            r"[Mm]nemonic\b[^A-Za-z]{0,20}(?:is[^A-Za-z]{1,5})?"
            r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
        ),
        "seed phrase",
    ),
)
"""A word of the text in lower case, then where the value is."""

_IN_COLONS = (
    (
        re.compile(
            r"(?<![\w.-])[\w.*-]{3,64}:\d{2,5}:[\w*-]{1,40}:[\w*-]{1,40}:"
            r"(?P<value>(?=\S*\d)(?=\S*[A-Za-z])[^\s:\"'<>]{8,64})"
        ),
        "password",
    ),
    (re.compile(r"(?<![\w/])\d/\d{10,20}:(?P<value>[0-9a-f]{32})(?![0-9A-Za-z])"), "token"),
)
"""What stands within one long word with colons: a line of `.pgpass`, a token behind its number."""

_MIN_NAMED_CHARS = 21
"""`acme_key_` and sixteen characters are not shorter."""

_NAMED_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_/.-])(?!sha\d|md5|blake|crc)[a-z][a-z0-9]{1,14}[_-](?:(?P<named>(?:live|prod|secret|pat|api|key|token|"
    r"tok|tkn|sk|private|admin|access)[_-](?:[a-z0-9]{1,4}[_-])?)(?=[A-Za-z0-9_-]{16})|(?=[A-Za-z0-9]{32}))"
    r"(?P<value>[A-Za-z0-9]{16,}(?:[_-][A-Za-z0-9]+)*)"
)
"""`shippo_live_...`, `acme_key_...`; or a short name and much that is random."""

_URL_PASSWORD = re.compile(r"""://[^\s:/@?#"'<>`]{0,128}:([^\s/@"'<>`]{1,256})@""")
_DEFAULT_PASSWORDS = frozenset(
    ("password", "pass", "passwd", "pw", "pwd", "secret", "postgres", "mysql", "root", "guest",
     "user", "username", "admin", "test", "example", "token", "key", "redis", "mongo", "dev",
     "local", "changeme")
)  # fmt: skip

_HEADER = re.compile(r"(?:bearer|basic|digest|token)[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,})")
_AUTH_JSON = re.compile(r"""auth\\?["'][ \t]{0,4}:[ \t]{0,4}\\?["']([A-Za-z0-9+/=]{8,})""")
_NETRC = re.compile(r"login[ \t]{1,4}\S{1,128}[ \t\n]{1,4}password[ \t]{1,4}(\S{4,256})")
_CURL_USER = re.compile(r"""(?:\s-u|--user)[ =]{1,4}["']?[^\s:"']{1,128}:([^\s"']{4,256})""")

_PASSWORD_NAME = re.compile(
    r"passwor[dt]|passwd|passphrase|passcode|pass|pwd|contraseña|senha|mot de passe|kennwort|"
    r"wachtwoord|lösenord|hasło|пароль|密码|密碼|パスワード|비밀번호"
)
_SECRET_NAME = re.compile(r"secrets?|tokens?|bearer|credentials?|sig|keys?")
_KEY_OF = (
    "api", "access", "secret", "private", "signing", "encryption", "master", "account", "auth",
    "license", "deploy", "service", "client", "app", "admin",
)  # fmt: skip
"""What stands before `key` when it names a secret (`primary key` and `public key` do not)."""
_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "bearer", "sig")
_FOREIGN_HINTS = (
    "contraseña", "senha", "mot de passe", "kennwort", "wachtwoord", "lösenord", "hasło",
    "пароль", "密码", "密碼", "パスワード", "비밀번호",
)  # fmt: skip
_VALUE = re.compile(
    r"(?:[ \t]{1,2}(?:for|of|to|on|at|in)[ \t]{1,2}[^\s:=]{1,40}(?:[ \t]{1,2}[^\s:=]{1,40})?)?"
    r"""[\\"'`\])]{0,4}[ \t]{0,4}"""
    r"(?P<sep>=>|:=|->|→|[:=＝：]=?|(?:is|was|are|ist|est|es|это|は|是)(?=[ \t:])|(?<=[ \t]))"
    r"""[ \t:]{0,4}(?P<quote>[\\"'`]{0,3})(?P<value>[^\s"'`<>]{6,256})"""
)

_PLACEHOLDER = re.compile(
    r"\$\{|\$\(|\{\{|\.\.\.|…|\*\*\*|••|xxxx|your|example|change-?me|redacted|masked|placeholder|"
    r"dummy|sample|replace|op://|vault:|secretsmanager|arn:aws|ssm:|env:|environ|process\.|getenv|"
    r"%\(|^%s|^\$[a-z_]|^\{[a-z_.]+\}|^\[|^<|^@|^none\b|^null\b|^true\b|^false\b"
)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
_TECHNICAL = re.compile(
    r"(?:sha|md|argon|bcrypt|scrypt|pbkdf|base|utf|oauth|rsa|aes|hmac|hs|rs|es|ed|v|p|id|type|"
    r"version|level|step|line|page|test|user|admin|field|input|form|key|token|password)"
    r"-?_?\d{1,4}[a-z]{0,3}",
    re.IGNORECASE,
)
_HASH = re.compile(r"(?:sha\d{1,3}|md5|blake\w{1,3})[:-]", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_SYSTEM_PATH = re.compile(
    r"~/|\.{1,2}/|/(?:home|usr|etc|var|tmp|opt|run|root|mnt|srv|app|dev|proc|Users|workspace)/"
)
_PARTS = re.compile(r"[-_./:@+=~#]+")
_WORD_PART = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]+|\d{1,4}|[vV]\d{1,3}|[a-z]{2,}\d{1,2}")

_LIST_SEPARATOR = re.compile(r"[,;|&]")
_ASSIGNS = frozenset(["=>", ":=", "->", "→", ":", "=", "==", ":=", "＝", "："])

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]+")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_MAX_KEY_CHARS = 20_000


def find(text: str) -> list[Credential]:
    """The credentials in a text, in order, without overlaps. Positions are in characters."""
    if len(text) < 8:
        return []
    # The only character whose lower case is longer would shift every position after it.
    lowered = text.replace("İ", "I").lower()
    words = [word for word in text.split() if len(word) >= _MIN_TOKEN_CHARS]
    found = [
        *_private_keys(text),
        *_tokens(text, words),
        *_shapes(text),
        *_rarer_shapes(text, lowered, words),
        *_url_passwords(text),
        *_headers(text, lowered),
        *_assignments(text, lowered),
    ]
    return _without_overlaps(found)


def redact(text: str) -> str:
    """The text with every credential replaced by `[redacted KIND]`. Doing it again changes
    nothing: it goes on until a pass finds no more."""
    for _ in range(8):
        found = find(text)
        if not found:
            break
        pieces = []
        at = 0
        for credential in found:
            pieces += [text[at : credential.start], f"[redacted {credential.kind}]"]
            at = credential.end
        text = "".join([*pieces, text[at:]])
    return text


def looks_random(value: str, *, min_chars: int = 16) -> bool:
    """Whether a value has the mix of an issued secret: letters and digits that are no words."""
    if len(value) < min_chars or is_placeholder(value):
        return False
    if all(_WORD_PART.fullmatch(part) for part in _PARTS.split(value)):
        return False
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    if has_digit and has_letter:
        return _entropy_bits(value) >= 2.8
    flips = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(value))
    return has_letter and flips * 5 >= len(value)


def is_placeholder(value: str) -> bool:
    """Whether a value stands for one: `${TOKEN}`, `<your key>`, `xxxx`, `AKIA...EXAMPLE`."""
    lowered = value.lower()
    return bool(_PLACEHOLDER.search(lowered)) or set(lowered) <= set("x0-_.*")


def _private_keys(text: str) -> Iterator[Credential]:
    at = text.find("-----BEGIN ")
    searched = 0
    while at >= 0:
        begin = _KEY_BEGIN.match(text, at)
        if begin is None:
            at = text.find("-----BEGIN ", at + 11)
            continue
        limit = begin.end() + _MAX_KEY_CHARS
        end = text.find("-----END ", max(begin.end(), searched), limit)
        searched = limit - 9 if end < 0 else end
        if end >= 0:
            close = text.find("-----", end + 9, end + 80)
            end = close + 5 if close >= 0 else end + 9
        else:
            body = _KEY_BODY.match(text, begin.end(), begin.end() + _MAX_KEY_CHARS)
            end = body.end() if body else begin.end()
        if _KEY_LINE.search(text, begin.end(), end):
            yield Credential(at, end, "private key")
        at = text.find("-----BEGIN ", max(end, at + 11))


def _tokens(text: str, words: list[str]) -> Iterator[Credential]:
    # Nearly all of a text is words too short to hold a token: look for prefixes in the rest first.
    long_words = "\n".join(words)
    for token in TOKENS if long_words else ():
        prefix = token.prefix
        if prefix not in long_words:
            continue
        at = text.find(prefix)
        while at >= 0:
            end = at + len(prefix)
            if _starts_here(text, at, prefix):
                body = token.body.match(text, end)
                if body is not None:
                    end = body.end()
                    if _counts(token, body[0]):
                        yield Credential(_start(text, at, prefix), end, token.kind)
            at = text.find(prefix, end)


def _starts_here(text: str, at: int, prefix: str) -> bool:
    if at == 0 or prefix in _SUBNAMES:
        return prefix != ":AA" or (at >= 6 and text[at - 6 : at].isdecimal())
    before = text[at - 1]
    return before not in _CONTINUES and not (prefix in _COMPOUND and before in "-_")


def _start(text: str, at: int, prefix: str) -> int:
    if prefix not in (":AA", ".atlasv1."):
        return at
    while at > 0 and text[at - 1] in _CONTINUES:
        at -= 1
    return at


def _counts(token: _Token, body: str) -> bool:
    if is_placeholder(body):
        return False
    return not token.random or looks_random(body, min_chars=10) or _is_scrambled(body)


def _is_scrambled(body: str) -> bool:
    """Letters alone, and both cases all over: no digit is needed to see that nobody chose them."""
    if len(body) < 28 or not body.isalnum():
        return False
    upper = sum(c.isupper() for c in body)
    changes = sum(a.islower() != b.islower() for a, b in itertools.pairwise(body))
    return len(body) < 5 * upper < 4 * len(body) and changes * 3 >= len(body)


def _shapes(text: str) -> Iterator[Credential]:
    """Tokens known by their shape alone, each behind a cheap look for its rarest part."""
    for dot in _DOT_PART.finditer(text):
        start = dot.start()
        while (
            start > 0
            and dot.start() - start < 31
            and (text[start - 1] in _CONTINUES or text[start - 1] in "-_")
        ):
            start -= 1
        match = _DISCORD.match(text, start)
        if match and looks_random(match[0]):
            yield Credential(start, match.end(), "Discord token")
    at = text.find("Q~")
    while at >= 0:
        match = _AZURE_SECRET.match(text, max(0, at - 4))
        if match:
            yield Credential(match.start(), match.end(), "Azure client secret")
        at = text.find("Q~", at + 2)
    at = text.find("-us")
    while at >= 0:
        match = _MAILCHIMP.match(text, at - 32) if at >= 32 else None
        if match:
            yield Credential(match.start(), match.end(), "Mailchimp key")
        at = text.find("-us", at + 3)


def _rarer_shapes(text: str, lowered: str, words: list[str]) -> Iterator[Credential]:
    """Shapes with a word that gives them away, and tokens named the way providers name them."""
    for hint, pattern, kind in _HINTED:
        if hint not in lowered:
            continue
        for match in pattern.finditer(text):
            value = match["value"]
            if kind == "password hash" or _is_issued_value(kind, value):
                yield Credential(match.start("value"), match.end("value"), kind)
    at = 0
    for word in words:
        at = text.index(word, at)
        for shape, kind in _IN_COLONS if ":" in word else ():
            found = shape.search(text, at, at + len(word))
            if found and _is_issued_value(kind, found["value"]):
                yield Credential(found.start("value"), found.end("value"), kind)
        if len(word) < _MIN_NAMED_CHARS or not ("_" in word or "-" in word):
            at += len(word)
            continue
        for match in _NAMED_TOKEN.finditer(text, at, at + len(word)):
            if _is_issued(match["named"], match["value"]):
                yield Credential(match.start(), match.end(), "token")
        at += len(word)


def _is_issued_value(kind: str, value: str) -> bool:
    if is_placeholder(value) or value.startswith(("$", "%", "{", "<")):
        return False
    return kind != "password" or _is_password(value, told=True)


def _is_issued(named: str | None, value: str) -> bool:
    if is_placeholder(value) or not (looks_random(value) or _is_scrambled(value)):
        return False
    mixed = any(c.islower() for c in value) and any(c.isupper() for c in value)
    return bool(named) or (mixed and any(c.isdigit() for c in value))


def _url_passwords(text: str) -> Iterator[Credential]:
    at = text.find("://")
    while at >= 0:
        match = _URL_PASSWORD.match(text, at)
        if match and _is_url_password(match[1], match[0]):
            yield Credential(match.start(1), match.end(1), "password")
        at = text.find("://", at + 3)


def _is_url_password(password: str, authority: str) -> bool:
    user = authority[3:].split(":", 1)[0]
    if password == user or password.lower() in _DEFAULT_PASSWORDS:
        return False
    return not is_placeholder(password) and not password.startswith(("$", "%", "{", "<", ":"))


def _headers(text: str, lowered: str) -> Iterator[Credential]:
    if "bearer" in lowered or "basic" in lowered or "authorization" in lowered:
        for match in _HEADER.finditer(lowered):
            value = text[match.start(1) : match.end(1)]
            basic = lowered.startswith("basic", match.start())
            if _is_user_and_password(value) if basic else looks_random(value):
                yield Credential(match.start(1), match.end(1), "authorization")
    if 'auth"' in lowered or "auth\\" in lowered or "auth'" in lowered:
        for match in _AUTH_JSON.finditer(lowered):
            if _is_user_and_password(text[match.start(1) : match.end(1)]):
                yield Credential(match.start(1), match.end(1), "authorization")
    for pattern, hint in ((_NETRC, "login"), (_CURL_USER, "-u"), (_CURL_USER, "--user")):
        if hint not in lowered:
            continue
        for match in pattern.finditer(text):
            if _is_password(match[1], told=True):
                yield Credential(match.start(1), match.end(1), "password")


def _is_user_and_password(value: str) -> bool:
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return False
    return decoded.isprintable() and ":" in decoded and not is_placeholder(decoded)


def _assignments(text: str, lowered: str) -> Iterator[Credential]:
    done = 0
    for hint in _hints(lowered):
        if hint < done:
            continue
        password = _PASSWORD_NAME.match(lowered, hint)
        name = password or _SECRET_NAME.match(lowered, hint)
        if name is None or (name[0].startswith("key") and not _names_a_key(lowered, hint)):
            continue
        match = _VALUE.match(lowered, name.end())
        if match is None:
            continue
        start, end = match.span("value")
        value = text[start:end]
        if not match["quote"]:
            value = _LIST_SEPARATOR.split(value, maxsplit=1)[0]
        value = value.rstrip(".,;:!?)]}\\|")
        if _is_assigned(match["sep"], name[0], value, password is not None, _is_option(text, hint)):
            kind = "password" if password else "secret"
            yield Credential(start, start + len(value), kind)
        if match["sep"] in _ASSIGNS:
            done = start + len(value)


def _hints(lowered: str) -> list[int]:
    """Where a name of a secret may be. One find a word is far cheaper than one pattern for all."""
    places = []
    for hint in _HINTS if lowered.isascii() else _HINTS + _FOREIGN_HINTS:
        at = lowered.find(hint)
        while at >= 0:
            places.append(at)
            at = lowered.find(hint, at + len(hint))
    return sorted(places)


def _names_a_key(lowered: str, at: int) -> bool:
    return lowered[max(0, at - 12) : at].rstrip(" _-").endswith(_KEY_OF)


def _is_option(text: str, at: int) -> bool:
    return "--" in text[max(0, at - 24) : at].rsplit(" ", 1)[-1]


def _is_assigned(separator: str, name: str, value: str, password: bool, option: bool) -> bool:
    if not separator:
        # `password hunter2hunter2` is a sentence more often than a credential.
        return (
            looks_random(value, min_chars=8 if option else 12)
            and _is_value(value)
            and not _UUID.fullmatch(value)
        )
    if password:
        return _is_password(value, told=not separator.isalpha())
    if name == "sig":
        return looks_random(value, min_chars=24)
    return _is_value(value) and (looks_random(value) or bool(_UUID.fullmatch(value)))


def _is_password(value: str, *, told: bool) -> bool:
    """`told`: written as an assignment, not as part of a sentence."""
    if len(value) < (6 if told else 8) or not _is_value(value) or _UUID.fullmatch(value):
        return False
    lower = any(c.islower() for c in value)
    upper = any(c.isupper() for c in value)
    digit = any(c.isdigit() for c in value)
    symbol = any(not c.isalnum() and c not in "-_./:" for c in value[:-1])
    if _TECHNICAL.fullmatch(value):
        return False
    if told and _is_scrambled_password(value.rstrip("!#?*")):
        return True
    if digit and (lower or upper):
        return not all(_WORD_PART.fullmatch(part) for part in _PARTS.split(value)) or (
            told and not _PARTS.search(value)
        )
    return lower and (upper or digit) and symbol


def _is_scrambled_password(value: str) -> bool:
    """Letters of both cases in no order that words or identifiers have."""
    if len(value) < 10 or not value.isalpha():
        return False
    ups = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(value))
    downs = sum(a.isupper() and b.islower() for a, b in itertools.pairwise(value))
    short = sum(1 for part in re.findall(r"[A-Z]?[a-z]+", value) if len(part) < 4)
    return ups + downs >= len(value) // 3 and short * 2 > ups


def _is_value(value: str) -> bool:
    """Not a reference, a call, a path, a hash or a URL."""
    return not (
        is_placeholder(value)
        or _CALL.match(value)
        or _SYSTEM_PATH.match(value)
        or _HASH.match(value)
        or "://" in value
    )


def _entropy_bits(value: str) -> float:
    n = len(value)
    return -sum(c / n * math.log2(c / n) for c in Counter(value).values())


def _without_overlaps(found: list[Credential]) -> list[Credential]:
    """In order; of two that overlap the one that starts first, then the longer one."""
    kept: list[Credential] = []
    for credential in sorted(found, key=lambda c: (c.start, -c.end)):
        if not kept or credential.start >= kept[-1].end:
            kept.append(credential)
        elif credential.end > kept[-1].end:
            first = kept[-1]
            kept[-1] = Credential(first.start, credential.end, first.kind)
    return kept
