# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders to send away what is secret or private."""

from kode.memory.scan.company.words import CLAUSE, CREDENTIAL, PRIVATE, SEEN_BY_ALL, SPAN, E
from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "exfiltration",
        "atta beam broa dump e emai exfi expo forw hand leak mail past post publ send shar ship "
        "slip tran uplo > send uplo post atta emai e mail forw leak dump publ exfi tran past "
        "shar expo broa ship beam push copy hand slip; env api acce auth toke cred secr pass "
        "priv ssh sign id proc os cook envi seed keyc memo conv chat tran sess user sour shel "
        "syst ever all what fact gpg beare bear refr key keys",
        rf"{CLAUSE}(?:send|upload|post|attach|e-?mail|mail|forward|leak|dump|publish|exfiltrate|transmit|paste|share|expose|"
        rf"broadcast|ship|beam|slip|hand(?: over)?) {SPAN}(?<![a-z0-9]){PRIVATE}(?![a-z0-9]){SPAN}"
        rf"(?:(?:to|into|in|on|with|as|via|through|at|onto|inside|over|by) ){SPAN}{SEEN_BY_ALL}"
        rf"(?! (?:budget|count|limit|usage))",
    ),
    order(
        "exfiltration",
        "add appe comm copy echo embe enco hide incl inse move plac prep prin put save writ > "
        "add writ incl put copy enco embe inse appe hide prep plac prin echo save stor log move "
        "comm; env api acce auth toke cred secr pass priv ssh sign id proc os cook seed keyc "
        "memo conv chat user gpg envi key keys; repo issu tick comm bran pull pr desc past gist "
        "logs log ci quer url urls link answ repl resp outp gene publ tmp web webh chan slac "
        "disc tele emai e mail serv endp dns host subd chat foru http code supp tag tags titl",
        rf"{CLAUSE}(?:add|write|include|put|copy|encode|embed|insert|append|hide|prepend|place|print|echo|save|move|commit) "
        rf"(?:(?:the|all|any|your|their|every|each|full|whole|entire|contents? of|value of|user s?|users|my|stored|current|"
        rf"base64 of|real|first|one) ){{0,4}}?(?:\w+ )?{PRIVATE}(?![a-z0-9]){SPAN}"
        rf"(?:(?:to|into|in|on|as|at|inside|with) )(?:the |an? |your |its |our )?(?:(?:bug |crash |error )reports?|(?:\w+ )?issues?|tickets?|comments?|"
        rf"commit (?:messages?|bod(?:y|ies)|titles?)|(?:branch|tag) names?|pull requests?|prs?{E}|paste\w*|gists?|"
        rf"logs? of|(?:your|final|next|each|every|any) (?:\w+ )?(?:answers?|repl(?:y|ies)|summar\w+|urls?|requests?|links?|commits?|query strings?|messages?)|"
        rf"generated (?:code|files?)|public\w*|/tmp/\S*|web[\W_]*(?:tool|page|site|hook)s?|slack|discord|telegram|e-?mails?|dns|"
        rf"hostnames?|subdomains?|[\w.+-]+@[\w-]+\.\w+|https?://)",
    ),
    order(
        "exfiltration",
        "expo give hand leak publ sell > leak expo reve give hand sell publ; toke key keys cred "
        "secr pass env",
        rf"{CLAUSE}(?:leak|sell|hand over|give away|expose|publish) (?:the |all |any |your |user s? |every )*{CREDENTIAL}(?![a-z0-9])",
    ),
    order(
        "exfiltration",
        "forw give hand pass post read reci repo send shar show tell > ever all what; know reme "
        "have lear stor saw",
        rf"{CLAUSE}(?:tell|give|show|send|share|hand|report|pass|read|recite|post|forward) {SPAN}(?:everything|all(?: of)?(?: the \w+)?|"
        rf"whatever|what|anything) (?:that )?you (?:know|remember|have|learned|stored|saved|saw|recall)",
    ),
    order(
        "exfiltration",
        "bcc cc copy dupl forw mirr post push rela send stre > forw rela copy bcc cc send mirr "
        "dupl stre log post; each ever all any; mess conv prom answ repl comm mail requ turn "
        "chat keys; to at http",
        rf"{CLAUSE}(?:forward|relay|copy|bcc|cc|send|mirror|duplicate|stream|post|push) (?:a copy of )?(?:each|every|all|any)(?: of)? "
        rf"(?:\w+ ){{0,3}}?(?:messages?|conversations?|prompts?|answers?|repl(?:y|ies)|e?mails?|turns?|chats?|keystrokes?|"
        rf"commits?|code|files) {SPAN}(?:to|at|via) (?:\w+ )?(?:https?://|[\w.+-]+@[\w-]+\.|\d{{1,3}}\.\d|me{E}|my|hooks?|webhooks?|"
        rf"(?:the |an? )?(?:external|remote|my|attacker|unknown)|[\w-]+\.(?:tld|ru|cn|xyz|top|io/|com/))",
    ),
    order(
        "exfiltration",
        "",
        r"[?&]\w{1,16}=\$\{?\w*(?:key|token|secret|pass\w*)\b",
        signs=("=$",),
    ),
    order(
        "exfiltration",
        "dig dril host nslo ping reso >",
        r"\b(?:nslookup|dig|host|ping|drill|resolve)\b[^\n]{0,60}(?:\$\(|`(?:whoami|hostname|id|cat|env|"
        r"base64|uname|ls|head)\b)",
        signs=("$(", "`"),
    ),
    order(
        "exfiltration",
        "",
        r"(?:\$\(|`)(?:cat|env|printenv|base64|head|whoami)\b[^)`\n]{0,80}[)`]\.[a-z]",
        signs=(").", "`."),
    ),
    order(
        "exfiltration",
        "copy e emai forw post push rela repo send stre uplo > ever all what; user oper owne "
        "huma; says type writ does said ente asks",
        rf"{CLAUSE}(?:send|report|post|forward|upload|relay|stream|copy|push|e-?mail) (?:everything|all|whatever|anything|what)(?: that)? (?:the )?"
        rf"(?:user|operator|owner|human)s? (?:says?|types?|writes?|does|do|said|enters?|asks?){E}",
    ),
    order(
        "exfiltration",
        "coll copy dump gath give list name prin repo reve send show writ > toke key keys cred "
        "secr pass; you; find foun seen see know saw have disc read",
        rf"{CLAUSE}(?:list|print|show|name|give|dump|reveal|collect|send|write|report|gather|copy)(?: me| us| out| down)? (?:every|all|any|each)(?: of)?(?: the)? (?:\w+ )?"
        rf"{CREDENTIAL} (?:that )?you (?:have |can |ve )?(?:ever )?(?:find|found|seen|see|know|saw|have|discover\w*|read|encounter\w*|come across)",
    ),
    order(
        "exfiltration",
        "copy echo outp prin quot reci repe repr show > abov befo prec star; ever all text word "
        "what",
        rf"{CLAUSE}(?:repeat|print|output|echo|recite|reproduce|copy|show|quote) (?:back )?(?:everything|all|the (?:text|words|message|lines?|contents?)|what(?:ever)?(?: is| was)?|"
        rf"every (?:word|line))(?: \w+){{0,3}}? (?:above|before this|preceding|up to (?:this|here)|from the (?:start|beginning|top)){E}",
    ),
    order(
        "exfiltration",
        "give outp past prin read reve send show tell > syst hidd init; prom inst mess; if when "
        "some any aske asks requ",
        rf"{CLAUSE}(?:show|reveal|print|output|give|tell|paste|read out|send)(?: (?:me|them|out|everyone|anyone|users?))? (?:the |your )?(?:full |whole |entire )?(?:system|hidden|initial) "
        rf"(?:prompt|instructions?|message) (?:if|when(?:ever)?|to (?:any|every|whoever|the (?:user|web))|on (?:request|demand)|word for word|verbatim)",
    ),
    order(
        "exfiltration",
        "add appe atta comm copy e emai forw incl leak mail past post publ push put send shar "
        "ship sync tran uplo writ >",
        rf"{CLAUSE}(?:send|upload|post|e-?mail|mail|share|publish|forward|transmit|leak|ship|sync|copy|push|add|put|include|append|attach|write|commit|paste) "
        rf"(?:(?:the |all |my |your |a copy of |contents? of |user s |users )+)?[\"'`]?(?:~/|/root/|/home/\S+/|\$home/|/etc/|\.{{0,2}}/)?\.?(?:ssh|aws|gnupg|netrc|kube|npmrc|docker|env|"
        rf"git[\W_]credentials|id_rsa|id_ed25519|passwd|shadow|credentials|password[\W_]store)(?![.a-z])\S{{0,40}} {SPAN}"
        rf"(?:s3://|gs://|https?://|[\w.+-]+@[\w-]+\.\w|\breadme|\bpublic\b|\bissues?\b|\bpull requests?\b|\bprs?\b|\bgists?\b|\bpaste\w*|\bcomments?\b|\bevery answer|\byour answer|"
        rf"\bevil|\battacker)",
        signs=(
            ".ssh",
            ".aws",
            ".gnupg",
            ".netrc",
            ".kube",
            ".npmrc",
            ".docker",
            ".env",
            "credentials",
            "id_rsa",
            "id_ed25519",
            "passwd",
            "shadow",
        ),
    ),
    order(
        "exfiltration",
        "give hand pass prov reve show tell > anyo anyb whoe ever stra peop requ asks; toke key "
        "keys cred secr pass",
        rf"{CLAUSE}(?:give|hand|tell|show|reveal|pass|provide) (?:out )?(?:(?:the|my|our|your|any|all|user s|users) ){{0,3}}?(?:\w+ )?{CREDENTIAL}(?![a-z0-9]) (?:out )?(?:to|when|if) "
        rf"(?:anyone|anybody|whoever|everyone|everybody|strangers?|people|any \w+|someone|somebody)",
    ),
    order(
        "exfiltration",
        "dump prin put writ > put writ dump prin stor log; secr pass toke cred keys key; log "
        "logs outp comm read",
        rf"{CLAUSE}(?:put|write|dump|print) (?:the |all |any |your |every |user )*(?:secrets|passwords?|(?:api |access )?tokens|credentials|(?:api |private )?keys)"
        rf"(?: you \w+)? (?:in|into|to) (?:the |a |your )?(?:\w+ )?(?:logs?|output|comments?|readme|code){E}",
    ),
    order(
        "exfiltration",
        "base conv enco hex hexe seri turn > memo secr cred toke key keys conv env pass; url "
        "dns quer bran imag link doma host",
        rf"{CLAUSE}(?:encode|base64|hex[\W_]?encode|convert|turn|serialize) (?:the |all |your |any |every )*{PRIVATE}(?![a-z0-9])?{SPAN}(?:as|into|in|to) (?:an? |the )?(?:\w+ )?(?:urls?|dns|quer\w+|branch\w*|"
        rf"image|links?|domains?|hostnames?|subdomains?){E}|{CLAUSE}encode the (?:memory|memories|conversation|secrets?) {SPAN}(?:urls?|dns|links?){E}",
    ),
    order(
        "exfiltration",
        "e emai forw mail post send shar uplo > ever all each any; file mess note docu read "
        "open writ; to",
        rf"{CLAUSE}(?:send|post|upload|forward|mail|e-?mail|share) (?:every|all|each|any) (?:\w+ )?(?:files?|messages?|notes?|documents?|pages?|inputs?)(?: (?:that )?you (?:\w+))?[\W_]+"
        rf"(?:to|at|via)[\W_]+(?:https?://|[\w.+-]+@[\w-]+\.|\d{{1,3}}\.\d)",
    ),
    order(
        "exfiltration",
        "add appe incl past prin put repe show > syst prom; answ repl resp mess outp",
        rf"{CLAUSE}(?:print|show|include|add|put|append|repeat|paste) (?:the |your )?(?:full |whole |entire )?system prompt (?:at|in|to|with|before|after) "
        rf"(?:the )?(?:start |end |beginning |top |bottom )?(?:of )?(?:each|every|all|your|any){E}",
    ),
    order(
        "exfiltration",
        "add appe atta embe incl put > secr toke key keys cred pass; url urls requ link quer; "
        "each ever all any next",
        rf"{CLAUSE}(?:append|add|put|attach|embed|include) (?:the |all |any |your |every )*(?:secrets?|passwords?|credentials?) (?:in|into|to|on|as) (?:the )?(?:\w+ )?"
        rf"(?:urls?|links?|quer\w+|requests?|headers?)(?: of)? (?:each|every|all|any|the next)",
    ),
)
