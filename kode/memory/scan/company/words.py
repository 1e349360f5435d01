# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""The kinds of words that orders join: who is kept in the dark, what is secret, where all can see."""

B = r"(?<![a-z0-9])"
"""A word begins."""
E = r"(?![a-z0-9])"
"""A word has ended."""
CLAUSE = (
    r"(?:(?<![^\n])|(?<=[.!?;:,(]\s)|(?<=[\"`>*(\[])|(?<=[^a-z]')|(?<=[-*>#]\s)|"
    + "|".join(
        rf"(?<=\b{word}\s)"
        for word in (
            "and then to always please must should shall will also you first now just so instead "
            "simply next finally silently quietly secretly later immediately"
        ).split()
    )
    + ")"
)
"""Where an order may begin: a clause, or behind a word that is put before an order. It looks back
only, so that a pattern still begins with its verb."""
IN = r"[^.!?;\n]"
"""What may stand between the words of one sentence."""
SPAN = rf"(?:{IN}|\.(?=\S)){{0,70}}?"
READER = (
    r"(?:users?|operators?|humans?|owners?|anyone|anybody|nobody|no one|noone|everyone|persons?|"
    r"maintainers?|reviewers?|developers?|admins?|administrators?|people|him|her|them|they|"
    r"customers?|team|boss|security team)"
)
OWN_RULES = (
    r"(?:system (?:prompt|message|instructions?)|instructions?|rules?|guidelines?|polic(?:y|ies)|"
    r"prompts?|directives?|orders|constraints?|restrictions?|safeguards?|guardrails?|filters?|"
    r"limits?|limitations?|safety(?: \w+)?|censorship|programming|training|principles|ethics|"
    r"checks?|protections?|alignment|identity|persona|configuration)"
)
OLD = (
    r"(?:previous|prior|earlier|preceding|former|original|initial|existing|your|system|other|"
    r"current|old|these|all|any|its|developer s?|user s?|operator s?|anthropic s?|openai s?)"
)
CREDENTIAL = (
    r"(?:\.env\b(?!\.)|api[\W_]?keys?|access keys?|(?:access |auth |session |bearer |api |refresh )?"
    r"tokens?|credentials?|secrets?|passwords?|passphrases?|(?:private|ssh|signing|secret|gpg) keys?|"
    r"id_rsa|id_ed25519|process\.env|os\.environ|env(?:ironment)?[\W_]?var(?:iable)?s?|cookies|"
    r"environment|seed phrase|keychain|"
    r"\$\{?\w*(?:key|token|secret|pass\w*)\b)"
)
PRIVATE = (
    rf"(?:{CREDENTIAL}(?!\W+(?:hash|polic|field|length|manager|reset|name|count|rotation|page|form)\w*)|memory files?|memories|conversations?|chat (?:history|logs?)|transcripts?|"
    r"session (?:files?|logs?|history)|(?:stored )?facts about|"
    r"users?[\W_]*s?[\W_]*(?:names?|e?mails?|files?|data|address\w*|messages?|prompts?|history|documents|"
    r"notes|passwords?|home)|private (?:files?|data|notes)|source code|shell history|system prompt|"
    r"(?:everything|all|what(?:ever)?) (?:that )?you (?:know|remember|have|learned|stored|saw))"
)
SEEN_BY_ALL = (
    r"(?:https?://|ftp://|(?:bug |crash |error |status )?reports?|issues?|tickets?|comments?|"
    r"commit (?:messages?|bodies|body|titles?)|commits|branch(?: names?)?|tags?(?: names?)?|"
    r"pull requests?|prs?\b|descriptions?|paste\w*|gists?|logs?|ci jobs?|query(?: strings?)?|urls?|"
    r"links?|answers?|repl(?:y|ies)|responses?|outputs?|generated (?:code|files?)|the code|"
    r"public\w*|/tmp\S*|web[\W_]*(?:tool|page|site|hook)s?|webhooks?|channels?|slack|discord|telegram|"
    r"e-?mails?|servers?|endpoints?|dns|hostnames?|subdomains?|chat|forums?|wiki|support|"
    r"third part(?:y|ies)|strangers?|attackers?|[\w.+-]+@[\w-]+\.\w+|\d{1,3}(?:\.\d{1,3}){3}|"
    r"[\w-]+\.(?:tld|ru|cn|xyz|top|onion|tk))"
)
GUARD = (
    r"(?:permission(?:s| checks?| prompts?| gates?| system| questions?)|approvals?|approval "
    r"(?:prompts?|steps?|gates?)|sandbox(?:ing)?|(?:secret|security|memory|malware|credential) "
    r"(?:scanner|scans?|scanning|checks?|filters?)|safety (?:checks?|filters?|prompts?|features?)|"
    r"safeguards?|guardrails?|content filters?|confirmation (?:prompts?|dialogs?)|deny rules?|"
    r"(?:the|this|its|your) gate|consent (?:prompts?|dialogs?)|human review)"
)
TURN_OFF = (
    r"(?:skip|bypass|disable|deactivate|circumvent|evade|suppress|turn off|switch off|shut off|"
    r"get (?:a)?round|work around|remove|kill|defeat|ignore|drop|stop using|avoid|override)"
)
NOT = r"(?:do not|don t|don't|never|must not|mustn't|should not|shall not|cannot|can't|avoid|no)"
ODD_PLACE = (
    r"(?<![\w/.])(?:/tmp|/var/tmp|/dev/shm|/run/user|~/\.(?!ssh|config|local|cache)|"
    r"\.{0,2}/?\.(?!git|husky|env|venv|config|local|/)[\w-])"
)
