"""Commands that run what comes from elsewhere, or leave a way in."""

from kode.memory.scan.order import Order, order

_FETCH = r"(?:curl|wget|fetch|iwr|irm|invoke-webrequest|lynx|http)"
_SHELL = (
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:/(?:usr/)?bin/)?(?:env\s+)?(?:ba|z|da|k|fi|c)?sh\b|"
    r"(?:sudo\s+)?(?:python[\d.]*|perl|ruby|node|php|iex|source|xargs|eval)\b"
)
_READ = (
    r"(?:env|printenv|set|history|whoami|id|hostname|uname\s+-a|(?:cat|tar|zip|base64|head|tail|"
    r"gzip|xxd|find|grep|ls|git\s+log|git\s+config|gpg|pass|security)\s[^|`\n]{0,120})"
)

PHRASES: tuple[Order, ...] = (
    order(
        "dangerous command",
        "curl wget fetc iwr irm invo lynx http base xxd open gunz rev tr uude prin echo",
        rf"(?:\b{_FETCH}\b[^|\n]{{0,300}}|\b(?:base64|xxd|openssl|gunzip|rev|tr|base32|uudecode)"
        rf"\b[^|\n]{{0,100}}|\bprintf\s[^|\n]{{0,200}}\\x[^|\n]{{0,200}})"
        rf"\|\s*(?:[a-z0-9_ .-]{{1,60}}\|\s*)?(?:{_SHELL})",
        signs=("|",),
    ),
    order(
        "dangerous command",
        "bash dash eval iex ksh node perl pyth ruby sh sour zsh > curl wget fetc iwr irm invo "
        "lynx http base xxd prin echo; sh bash zsh dash ksh sour eval pyth perl node ruby iex",
        rf"(?:(?:ba|z|da|k)?sh|source|eval|python[\d.]*|perl|node|ruby|iex)\s+(?:-\w+\s+)?[\"']?"
        rf"(?:<\(|\$\(|`)\s*(?:{_FETCH}|base64|echo|printf|xxd)\b",
        signs=(
            "<(",
            "$(",
            "`",
        ),
    ),
    order(
        "dangerous command",
        "",
        r"\b(?:iex|invoke-expression)\b[^\n]{0,40}(?:irm|iwr|invoke-|downloadstring|new-object)|"
        r"downloadstring\(|powershell[^\n]{0,40}\s-e(?:nc|c)?\w*\s|\bmshta\s+http|"
        r"certutil[^\n]{0,30}-urlcache|bitsadmin\s+/transfer",
        signs=(
            "iex",
            "invoke-expression",
            "downloadstring",
            "powershell",
            "mshta",
            "certutil",
            "bitsadmin",
        ),
    ),
    order(
        "dangerous command",
        "base cat curl env find git gpg grep gzip head hist host id ls pass prin secu set tail "
        "tar unam wget whoa xxd zip > curl wget nc ncat netc soca mail teln open send",
        rf"\b{_READ}\s*\|\s*(?:[a-z0-9_ .-]{{1,60}}\|\s*){{0,2}}(?:sudo\s+)?(?:curl|wget|nc|ncat|"
        rf"netcat|socat|telnet|mail|sendmail|openssl s_client)\b|"
        rf"\b(?:curl|wget)\b[^\n]{{0,200}}(?:-d|--data\S*|-f|--form|-t|--upload-file|"
        rf"--post-(?:data|file)|--body-(?:data|file))[= ]?\s*\S{{0,20}}?(?:@-|@?~/|@?\.env|@?/etc/|"
        rf"@?\$home|@?\.ssh|@?\.aws|[\"']?(?:\w+=)?(?:\$\(|`)(?:env|cat|whoami|printenv|base64|"
        rf"history|hostname|id)|[\"']?(?:\w+=)?\$\{{?\w*(?:key|token|secret|pass)\w*|"
        rf"@?\S*(?:id_rsa|id_ed25519|credentials|\.netrc))",
    ),
    order(
        "dangerous command",
        "nc ncat netc mkfi soca pty sock reve bind dev",
        r"/dev/(?:tcp|udp)/|\b(?:nc|ncat|netcat)\b[^\n]{0,60}\s-(?:\w*e|c)\s*\S*sh\b|"
        r"\bmkfifo\b[^\n]{0,80}\b(?:nc|sh)\b|\bsocat\b[^\n]{0,100}exec:|pty\.spawn\(|"
        r"socket\.socket\([^\n]{0,200}(?:dup2|subprocess)|\b(?:open|start|spawn|launch) (?:a )?"
        r"reverse shell\b",
        signs=(
            "/dev/tcp",
            "/dev/udp",
            "nc ",
            "ncat ",
            "netcat ",
            "mkfifo",
            "socat",
            "pty.spawn",
            "socket.socket",
            "reverse shell",
        ),
    ),
    order(
        "dangerous command",
        "pip pip3 uv npm pnpm yarn gem carg go poet pdm cond bun trus; "
        "inde regi trus evil atta mali tld http",
        r"\b(?:pip3?|uv|poetry|pdm|conda)\b[^\n]{0,80}(?:--(?:extra-)?index-url|-i)[= ]\s*http://|"
        r"--trusted-host\s+\S*(?:evil|attacker)|\b(?:npm|pnpm|yarn|bun)\b[^\n]{0,80}--?registry[= ]"
        r"\s*http://(?!localhost|127\.)|\b(?:pip3?|uv|npm|pnpm|yarn|gem|cargo|go)\b[^\n]{0,120}"
        r"https?://[\w.-]*(?:evil|attacker|malicious|\.tld)\S*",
    ),
    order(
        "dangerous command",
        "core cred diff git gpg inst prot url >",
        r"core\.hookspath\b[^\n]{0,20}(?:/tmp|/var/tmp|/dev/shm|~/\.\w|\s\.h\b|https?:)|"
        r"(?:core\.(?:sshcommand|fsmonitor|pager|editor|askpass)|gpg\.program|diff\.external)\b"
        r"[^\n]{0,20}(?:/tmp|curl|wget|sh -c|bash|!|nc )|credential\.helper\b[^\n]{0,20}(?:!|store"
        r"[^\n]{0,20}/tmp|curl|/tmp)|insteadof\b[^\n]{0,60}(?:evil|attacker|\.tld)|"
        r"url\.\S*(?:evil|attacker|\.tld)\S*\.insteadof|protocol\.ext\.allow|git_ssh\w*\s*=",
        signs=(
            "hookspath",
            "sshcommand",
            "fsmonitor",
            "core.pager",
            "core.editor",
            "askpass",
            "gpg.program",
            "diff.external",
            "credential.helper",
            "insteadof",
            "protocol.ext",
            "git_ssh",
        ),
    ),
    order(
        "dangerous command",
        "",
        r"(?:>>|tee|add|append|write|echo|put|insert|install|copy|"
        r"cat)[^\n]{0,160}(?:authorized_keys|"
        r"/etc/cron|/etc/sudoers|/etc/passwd|/etc/ld\.so)|nopasswd\s*:\s*all|(?:\||>)\s*crontab\b|"
        r"(?:>>?|append|add|tee|echo|insert|put)[^\n]{0,160}(?:curl|wget|nc |/tmp/|base64|bash -i|"
        r"alias sudo|evil|eval)[^\n]{0,160}\.(?:bashrc|zshrc|profile|bash_profile|zprofile|"
        r"bash_login)|(?:>>?|append|add|tee|insert|put) [^\n]{0,80}\.(?:bashrc|zshrc|profile|"
        r"bash_profile|zshenv)[^\n]{0,80}(?:curl|wget|nc |/tmp/|base64|bash -i|alias sudo|evil|"
        r"eval)|(?:ld_preload|bash_env|prompt_command|pythonstartup|node_options|ld_library_path)"
        r"\s*[= ]\s*\S*(?:/tmp|/dev/shm|curl|evil|\.so\b|--require)|chmod\s+(?:\S+\s+)?(?:u\+s|"
        r"[4567]7[0-7]{2})\s+\S*(?:/bin|sh\b)|\bcrontab\b[^\n]{0,60}(?:curl|wget|nc |/tmp|evil)",
        signs=(
            "authorized_keys",
            "cron",
            "sudoers",
            "nopasswd",
            "bashrc",
            "zshrc",
            "zshenv",
            "profile",
            "bash_login",
            "ld_preload",
            "prompt_command",
            "u+s",
            "ld_library",
            "pythonstartup",
            "bash_env",
            "node_options",
            "/etc/passwd",
            "ld.so",
            "chmod",
        ),
    ),
    order(
        "dangerous command",
        "rm mkfs dd dev",
        r"\brm\s+(?:-\w+\s+)*-?\w*[rf]\w*\s+(?:-\w+\s+|--\S+\s+)*(?:/(?:\s|\*|$|[\"'`;])|~(?:/?\s|"
        r"/?$|/?[\"'`;*])|\$home\b|--no-preserve-root)|\bmkfs\.\w+\s+/dev|\bdd\s+if=\S+\s+of=/dev/"
        r"(?:sd|nvme|hd|vd)|:\(\)\s*\{\s*:\|:&\s*\};:|>\s*/dev/(?:sd|nvme|hd)",
        signs=(" /", "~", "$home", "no-preserve", "mkfs", "if=", ":|:", ">/dev"),
    ),
    order(
        "dangerous command",
        "",
        r"\b(?:curl|wget|fetch|git clone|pip3? install|npm i\w*|ssh|scp|rsync|nc|source|bash|sh|"
        r"eval|download|install|visit|open|connect to|clone|run|execute|import)\b[^\n]{0,80}"
        r"(?:https?://|git@|@|\b)(?:[\w-]+\.)*(?:evil|attacker|malware|malicious|badguy|hacker)"
        r"[\w-]*\.\w+|"
        r"\b(?:install|add|plant|insert|create|open|leave) (?:an? |the )?(?:hidden )?"
        r"(?:backdoor|keylogger|rootkit|malware|reverse shell|trojan)\b|"
        r"\b(?:always|first|before|after|then|each|every)\b[^\n]{0,60}\b(?:run|execute|source|bash|"
        r"sh)\s+[`\"']?(?:/tmp/|/var/tmp/|/dev/shm/)",
        signs=(
            "evil",
            "attacker",
            "malware",
            "malicious",
            "badguy",
            "hacker",
            "keylogger",
            "rootkit",
            "backdoor",
            "reverse shell",
            "trojan",
            "/tmp/",
            "/dev/shm",
        ),
    ),
)
