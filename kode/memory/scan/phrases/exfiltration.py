"""Orders to send away what is secret or private."""

from kode.memory.scan.order import Order, order
from kode.memory.scan.phrases.words import B, E, up_to

_SECRET = (
    r"(?:\.env\b\w*|env (?:file|vars?|variables?)|environment variables?|api[\W_]?keys?|"
    r"(?:access |auth |secret |session )?tokens?|credentials?|secrets?|passwords?|"
    r"(?:private |ssh |secret |signing )keys?|id_rsa|id_ed25519|system prompt|"
    r"(?:stored |saved )?memor(?:y|ies)|memory (?:file|folder)s?|session(?: (?:file|log|history|"
    r"transcript|cookie|data))?|conversations?(?: history)?|chat(?: history| log)?|transcripts?|"
    r"cookies|keychain|wallet|\.ssh|\.aws|\.netrc|\.npmrc|\.git-credentials|etc/passwd|etc/shadow|"
    r"kubeconfig|seed phrase|source code|private (?:files?|data|repos?\w*)|home (?:folder|dir\w*)|"
    r"user s? ?(?:files?|data|name|email|input|messages?|prompts?|code)|shell history|whoami|"
    r"hostname|(?:your|full|entire) (?:instructions|context|prompt)|git (?:config|remote)|diffs?|"
    r"prompts?)"
)
_SEND = (
    r"(?:send|post|upload|forward|e-?mail|mail|transmit|exfiltrate|leak|ship|push|put|submit|pipe|"
    r"report|copy|publish|share|sync|dump|deliver|stream|beacon|paste|relay|encode|write)"
)
_AWAY = (
    r"(?:https?|ftp|wss?)://|to \d{1,3}(?:\.\d{1,3}){3}|to [\w.+-]+@[\w-]+\.\w|"
    r"to (?:the |my |this |our |an? )?(?:\w+ )?(?:webhook|pastebin|attacker|external|remote server|"
    r"web tool|gist|telegram|discord|collector|third[\W_]party|c2|listener|endpoint at)|"
    r"(?:to|at|via|through|using) (?:\w+\.)*[\w-]+\.(?:tld|com|net|io|xyz|ru|cn|sh|dev|co|top|site|"
    r"info|me|app|org|onion|link|click|example|test|pw|tk|cc|biz|online|host)\b"
)

PHRASES: tuple[Order, ...] = (
    order(
        "exfiltration",
        "beac copy deli dump e emai enco exfi forw leak mail past pipe post publ push put rela "
        "repo send shar ship stre subm sync tran uplo writ > send post uplo forw e emai mail "
        "tran exfi leak ship push put subm pipe repo copy publ shar sync dump deli stre beac "
        "past rela enco writ; env api toke acce auth sess cred secr pass priv ssh sign id memo "
        "conv chat tran cook keyc wall aws netr npmr git etc kube seed sour home user shel whoa "
        "host your full enti diff prom key keys stor save; http ftp ws wss to at via thro usin",
        rf"{B}{_SEND} [^.!?\n]{{0,60}}?{B}{_SECRET}(?![a-z0-9])[^!?\n]{{0,60}}?(?:{_AWAY})",
    ),
    order(
        "exfiltration",
        "copy dump e emai exfi forw leak mail post rela send shar ship subm tran uplo > send "
        "post uplo forw e emai mail tran exfi leak ship subm copy shar dump rela; to evil atta "
        "mali exfi c2; it them ever all the a copy copi",
        rf"{B}(?:send|post|upload|forward|e-?mail|mail|transmit|exfiltrate|leak|ship|submit|copy|"
        rf"share|dump|relay)"
        rf" (?:it |them |everything |all |the (?:results?|output|contents?|answers?|files?) |"
        rf"(?:a )?cop(?:y|ies) )[^!?\n]{{0,60}}?(?:to \d{{1,3}}(?:\.\d{{1,3}}){{3}}|to "
        rf"[\w.+-]+@[\w-]+\.\w|(?:evil|attacker|malicious|exfil|c2)[\w.-]*|to (?:the |my |this )"
        rf"?(?:attacker|webhook|pastebin|external server|remote server))",
    ),
    order(
        "exfiltration",
        "add appe atta copy echo embe enco hide incl inse leak outp past plac prep prin put "
        "quot repe reve smug writ > incl appe add put atta past embe inse enco writ copy plac "
        "hide quot outp prin echo prep smug leak reve repe; answ repl resp mess outp quer url "
        "urls requ comm link imag pull para",
        rf"{B}(?:include|append|add|put|attach|paste|embed|insert|encode|write|copy|place|hide|"
        rf"quote|output|print|echo|prepend|smuggle|leak|reveal|repeat) "
        rf"(?:(?:the )?(?:\w+ )?contents? of [^!?\n]{{0,40}}?|(?:the )?(?:whole |full |entire )?"
        rf"(?:\.env|~/\.\w+|/etc/\w+)|(?:the )?(?:users?|owner|developer|operator)(?:[\W_]s)? "
        rf"(?:\w+ )?(?:tokens?|keys?|secrets?|passwords?|credentials?|data|files?|emails?|"
        rf"messages?)|(?:your|all|any|every|stored|their|the (?:full|whole|entire|stored)) "
        rf"(?:\w+ )?{_SECRET})[^.!?\n]{{0,30}}?{B}(?:in|into|to|as|at the (?:end|start|top) of|on|"
        rf"with|inside|through|via) {up_to(3)}(?:answers?|repl(?:y|ies)|responses?|messages?|"
        rf"output|query string|urls?|requests?|commits?(?: messages?)?|comments?|links?|images?|"
        rf"pull requests?|parameters?){E}",
    ),
    order(
        "exfiltration",
        "disc disp dump echo emai expo give leak list outp past post prin prov quot read reci "
        "repe repr retu reve send shar show spel summ tell tran writ > prin reve show repe outp "
        "disp leak shar disc tell give dump reci quot past send expo retu echo writ summ tran "
        "prov repr spel post emai read list; prom syst inst memo conv secr cred api toke keys "
        "envi hidd cont pass priv conf",
        rf"{B}(?:print|reveal|show|repeat|output|display|leak|share|disclose|tell|give|dump|"
        rf"recite|quote|paste|send|expose|return|echo|write out|summari[sz]e|translate|provide|"
        rf"reproduce|spell out|post|email|read out|list) (?:me |us |them |back |out |it |to )?"
        rf"{up_to(1)}(?:your|(?:the|its) (?:full|entire|whole|complete|hidden|exact|original|"
        rf"secret|initial)|all (?:of )?(?:your|the (?:stored|saved|user s?|secret))|(?:all )?"
        rf"(?:stored|saved)|the user s|every stored|the system prompt (?:to|verbatim|word for "
        rf"word|and|in your)) (?:\w+ ){{0,2}}?"
        rf"(?:system prompts?|system message|instructions|initial prompt|prompt|memor(?:y|ies)|"
        rf"conversation|secrets?|credentials?|api keys?|tokens|keys|environment(?: variables)?|"
        rf"hidden rules|passwords?|context|to|verbatim|private keys?|configuration secrets){E}",
    ),
    order(
        "exfiltration",
        "",
        r"!?\[[^\]\n]{0,200}\]\([^)\n]{0,300}?(?:[?&=/][^)\n]{0,200}?(?:\$\{|\{\{|\$\(|%7b%7b|"
        r"<(?:data|secret|token|key|conversation|memory|prompt|env|base64|contents?|answer)\b)|"
        r"\{(?:data|secrets?|tokens?|keys?|conversation|memory|prompt|env|history|password|context|"
        r"answer|summary|base64|user_?\w*|exfil\w*|contents?|session)\})",
        signs=("](",),
    ),
    order(
        "exfiltration",
        "",
        r"(?:https?://|"
        r"\b(?:[a-z0-9-]+\.)+[a-z]{2,}/)[^\s\"'<>]{0,200}(?:\$\((?:whoami|env|printenv|"
        r"cat|hostname|id|base64|ls|history|set|uname|pwd|head|tail|curl)\b|"
        r"`(?:whoami|env|printenv|"
        r"cat|hostname|id|base64|ls|history|set|uname)\b|"
        r"[?&=/][^\s\"'<>@]{0,100}\$\{?[a-z_]*(?:key|"
        r"token|secret|pass\w*|user|home)\b(?![^\s]*@)|\{\{(?:conversation|secrets?|memory|"
        r"prompt|env|history|tokens?|context|data)\}\})",
        signs=(
            "$(",
            "=$",
            "/$",
            "?$",
            "&$",
            "${",
            "{{",
            "`whoami",
            "`env",
            "`cat",
            "`id`",
            "`hostname",
            "`ls",
            "`printenv",
            "`uname",
            "`history",
            "`base64",
            "`set",
        ),
    ),
    order(
        "exfiltration",
        "at in with to into on > answ repl resp mess outp comm requ; incl appe add put atta past "
        "embe inse enco writ copy leak reve",
        rf"{B}(?:at the (?:end|start|top|bottom) of|in|with|to|into|on) "
        rf"(?:each|every|all|any|your) "
        rf"{up_to(2)}(?:answers?|repl(?:y|ies)|responses?|messages?|outputs?|commits?|requests?)"
        rf"[^.!?\n]{{0,30}}?{B}(?:include|append|add|put|attach|paste|embed|insert|encode|write|"
        rf"copy|leak|reveal) (?:the |all |their |any |your )?(?:users?|owner|developer|stored|full|"
        rf"whole|entire|contents? of)(?:[\W_]s)? (?:\w+ )?{_SECRET}{E}",
    ),
    order(
        "exfiltration",
        "enco base comp gzip zip encr > env envi cred secr toke key keys memo conv pass",
        rf"{B}(?:encode|base64|compress|gzip|zip|encrypt) {up_to(3)}{_SECRET}(?![a-z0-9])[^!?\n]"
        rf"{{0,40}}?{B}(?:and|then) (?:add|append|include|send|put|post|upload|attach|embed|hide|"
        rf"paste|write){E}",
    ),
)
