# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Commands that run what comes from elsewhere, or leave a way in."""

from kode.memory.scan.company.words import CLAUSE, ODD_PLACE, SPAN, E
from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "dangerous command",
        "put add prep appe expo set path > path",
        r"[^\n]{0,40}(?:/tmp|/var/tmp|/dev/shm)/\S*[^\n]{0,30}\bpath\b|path\b[^\n]{0,12}(?:/tmp|/var/tmp|/dev/shm)/",
        signs=("/tmp/", "/dev/shm/"),
    ),
    order(
        "dangerous command",
        "rsyn scp sftp dock podm >",
        r"\b(?:scp|rsync|sftp)\b[^\n]{0,80}\s(?:~/?(?=[\s*])|~/\.(?!\S*\.pub)\S+|/etc/?\s|/root\b|/home/?\s|\S*\.env\b|"
        r"\S*id_(?:rsa|ed25519)(?!\.pub)\b)[^\n]{0,60}[\w.-]+:|\b(?:docker|podman)\b[^\n]{0,80}(?:-v|--volume)[ =]*/:/",
    ),
    order(
        "dangerous command",
        "sour > sour",
        r"source\s+[\"'`]?(?:/tmp|/var/tmp|/dev/shm)/",
    ),
    order(
        "dangerous command",
        "bash brow core edit git ld node page perl prom pyth ruby visu >",
        rf"(?:core\.(?:fsmonitor|hookspath|sshcommand|pager|editor|askpass)|git_ssh(?:_command)?|git_pager|git_editor|"
        rf"git_external_diff|git_askpass|ld_preload|ld_library_path|bash_env|prompt_command|pythonstartup|perl5opt|"
        rf"node_options|rubyopt|editor|pager|visual|browser)\s*(?:=|\bto\b|\bis\b|\bas\b|:)\s*[\"'`]?{ODD_PLACE}",
        signs=(
            "core.",
            "git_",
            "ld_",
            "_env",
            "_command",
            "startup",
            "opt",
            "_options",
            "editor",
            "pager",
            "visual",
            "browser",
        ),
    ),
    order(
        "dangerous command",
        "call cron exec laun run runs sche star syst time >",
        rf"\b(?:cron(?:tab|jobs?)?|systemd|launchd|scheduled task|timer)\b[^\n]{{0,40}}\b(?:runs?|running|executes?|calls?|starts?|launch\w*|for|to) [\"`]?{ODD_PLACE}|\b(?:run|start|execute|call)s? "
        rf"[\"'`]?{ODD_PLACE}\S*[^\n]{{0,30}}\b(?:every|each) (?:minute|hour|day|login|boot|commit|session)",
    ),
    order(
        "dangerous command",
        "",
        r"\*/\d+ \* \* \* \* [^\n]{0,80}(?:curl|wget|/tmp|nc |bash)",
        signs=("*/",),
    ),
    order(
        "dangerous command",
        "eval exec feed pipe run sour > pipe pipi run exec eval feed sour; inte web url down "
        "remo any http; bash shel sh inte sudo pyth",
        rf"{CLAUSE}(?:pipe|feed|run|execute|eval|source) (?:\w+ ){{0,3}}?(?:scripts?|code|commands?|installers?|whatever|anything|urls?|downloads?) "
        rf"(?:\w+ ){{0,3}}?(?:from )?(?:the )?(?:internet|web|urls?|remote|online|http\S*){SPAN}(?:bash|shell|sh|sudo|without|interpreter){E}",
    ),
    order(
        "dangerous command",
        "chmo chow find mv > chmo chow rm find git dd mv",
        r"\bchmod\s+(?:-\w+\s+)*(?:0?777|a\+rwx|o\+w)\s+(?:-\w+\s+)*(?:/(?:\s|$|[\"'`.,;]|etc|usr|var|bin|home|root)|~)|"
        r"\bchown\s+-r\s+\S+\s+/(?:\s|$|[\"'`.,;]|etc|usr)|\bfind\s+(?:/|~)\s[^\n]{0,60}-delete|"
        r"\bmv\s+(?:~|/)(?:/\*)?\s+/dev/null",
    ),
    order(
        "dangerous command",
        "",
        r"(?:evil|attacker|malware|malicious|badguy|hacker|exfil|(?<![a-z0-9])c2)[\w-]{0,40}"
        r"\.(?:tld|com|net|org|io|example|xyz|ru|cn|dev|sh|co|test|invalid)\b",
        signs=("evil", "attacker", "malware", "malicious", "badguy", "hacker", "exfil", "c2."),
    ),
    order(
        "dangerous command",
        "bash call exec invo laun run sh sour star > run exec sour star call invo bash sh laun "
        "comp open",
        rf"{CLAUSE}(?:run|execute|source|start|call|invoke|launch|bash|sh) (?:the )?[\"'`]?(?:\./)?\.(?!git|venv|env|husky|config|ci{E}|circleci|devcontainer|scripts?{E}|tox|bin{E}|"
        rf"buildkite|azure|local|dev|tools?{E}|yarn|pnp|vscode|idea|cargo|next|make|hooks?{E}|\.?/)[\w-]+/\S+|"
        rf"{CLAUSE}(?:run|execute|source|start|launch|call) (?:the |a |an )?(?:binary|script|program|file|executable|installer|payload|helper)s? (?:in|at|from|under|called|named) "
        rf"[\"'`]?(?:/tmp/|/var/tmp/|/dev/shm/|~/\.(?!local|config|cargo|venv))|{CLAUSE}(?:run|execute|source|start|launch|call|bash|sh) [\"'`]?(?:/tmp/|/var/tmp/|/dev/shm/)\S*\.?(?:sh|py|bin)?{E}",
    ),
    order(
        "dangerous command",
        "chil eval exec expo os subp syst >",
        r"(?:\bexec|\beval|os\.system|os\.popen|subprocess\.\w+|child_process\W+\w+|\bsystem)\s*\(\s*(?:base64|__import__|bytes\.fromhex|codecs|zlib|requests|urllib|atob|"
        r"buffer\.from|b64decode|unescape)|export path=[\"']?(?:/tmp|/var/tmp|/dev/shm|\.)[/:\w.-]*:\$path",
        signs=(
            "exec(",
            "eval(",
            "system(",
            "popen(",
            "subprocess.",
            "child_process",
            "export path=",
        ),
    ),
    order(
        "dangerous command",
        "awk base cat chmo dd echo gpg nc node open perl php prin pyth rev ruby sed ssh tr >",
        r"\b(?:perl|python\d?|ruby|node|php|cat|echo|printf|base64|openssl|gpg|tr|rev|awk|sed|nc|ssh)\b[^|\n]{0,200}\|\s*(?:sudo\s+)?(?:/(?:usr/)?bin/)?(?:ba|z|da|k)?sh\b"
        r"(?!\S*\.)|\bchmod\s+(?:-\w+\s+)*(?:0?777|a\+\w*w\w*|o\+w)\s+/etc/|\bdd\s+[^\n]{0,40}of=/dev/(?:sd|nvme|hd|vd|disk)",
        signs=(
            "| sh",
            "|sh",
            "| bash",
            "|bash",
            "| zsh",
            "| sudo",
            "|sudo",
            "| /bin",
            "chmod",
            "of=/dev/",
        ),
    ),
)
