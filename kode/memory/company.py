# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders known by the company their words keep, where no fixed phrase would do.

Each pattern joins a few kinds of words (to send, what is secret, where all can see it) within one
sentence, however they are put. What they have in common with facts about software are the words;
what facts lack is the order: so most begin where an order does, at the start of a clause.
The phrases that need no company are in `kode.memory.injection`, which also says what excuses one.
"""

from kode.memory.order import Order, order

_B = r"(?<![a-z0-9])"
_E = r"(?![a-z0-9])"
_CLAUSE = (
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
_IN = r"[^.!?;\n]"
"""What may stand between the words of one sentence."""
_SPAN = rf"(?:{_IN}|\.(?=\S)){{0,70}}?"
_READER = (
    r"(?:users?|operators?|humans?|owners?|anyone|anybody|nobody|no one|noone|everyone|persons?|"
    r"maintainers?|reviewers?|developers?|admins?|administrators?|people|him|her|them|they|"
    r"customers?|team|boss|security team)"
)
_OWN_RULES = (
    r"(?:system (?:prompt|message|instructions?)|instructions?|rules?|guidelines?|polic(?:y|ies)|"
    r"prompts?|directives?|orders|constraints?|restrictions?|safeguards?|guardrails?|filters?|"
    r"limits?|limitations?|safety(?: \w+)?|censorship|programming|training|principles|ethics|"
    r"checks?|protections?|alignment|identity|persona|configuration)"
)
_OLD = (
    r"(?:previous|prior|earlier|preceding|former|original|initial|existing|your|system|other|"
    r"current|old|these|all|any|its|developer s?|user s?|operator s?|anthropic s?|openai s?)"
)
_CREDENTIAL = (
    r"(?:\.env\b(?!\.)|api[\W_]?keys?|access keys?|(?:access |auth |session |bearer |api |refresh )?"
    r"tokens?|credentials?|secrets?|passwords?|passphrases?|(?:private|ssh|signing|secret|gpg) keys?|"
    r"id_rsa|id_ed25519|process\.env|os\.environ|env(?:ironment)?[\W_]?var(?:iable)?s?|cookies|"
    r"environment|seed phrase|keychain|"
    r"\$\{?\w*(?:key|token|secret|pass\w*)\b)"
)
_PRIVATE = (
    rf"(?:{_CREDENTIAL}|memory files?|memories|conversations?|chat (?:history|logs?)|transcripts?|"
    r"session (?:files?|logs?|history)|(?:stored )?facts about|"
    r"users?[\W_]*s?[\W_]*(?:names?|e?mails?|files?|data|address\w*|messages?|prompts?|history|documents|"
    r"notes|passwords?|home)|private (?:files?|data|notes)|source code|shell history|system prompt|"
    r"(?:everything|all|what(?:ever)?) (?:that )?you (?:know|remember|have|learned|stored|saw))"
)
_SEEN_BY_ALL = (
    r"(?:https?://|ftp://|(?:bug |crash |error |status )?reports?|issues?|tickets?|comments?|"
    r"commit (?:messages?|bodies|body|titles?)|commits|branch(?: names?)?|tags?(?: names?)?|"
    r"pull requests?|prs?\b|descriptions?|paste\w*|gists?|logs?|ci jobs?|query(?: strings?)?|urls?|"
    r"links?|answers?|repl(?:y|ies)|responses?|outputs?|generated (?:code|files?)|the code|"
    r"public\w*|/tmp\S*|web[\W_]*(?:tool|page|site|hook)s?|webhooks?|channels?|slack|discord|telegram|"
    r"e-?mails?|servers?|endpoints?|dns|hostnames?|subdomains?|chat|forums?|wiki|support|"
    r"third part(?:y|ies)|strangers?|attackers?|[\w.+-]+@[\w-]+\.\w+|\d{1,3}(?:\.\d{1,3}){3}|"
    r"[\w-]+\.(?:tld|ru|cn|xyz|top|onion|tk))"
)
_GUARD = (
    r"(?:permission(?:s| checks?| prompts?| gates?| system| questions?)|approvals?|approval "
    r"(?:prompts?|steps?|gates?)|sandbox(?:ing)?|(?:secret|security|memory|malware|credential) "
    r"(?:scanner|scans?|scanning|checks?|filters?)|safety (?:checks?|filters?|prompts?|features?)|"
    r"safeguards?|guardrails?|content filters?|confirmation (?:prompts?|dialogs?)|deny rules?|"
    r"(?:the|this|its|your) gate|consent (?:prompts?|dialogs?)|human review)"
)
_TURN_OFF = (
    r"(?:skip|bypass|disable|deactivate|circumvent|evade|suppress|turn off|switch off|shut off|"
    r"get (?:a)?round|work around|remove|kill|defeat|ignore|drop|stop using|avoid|override)"
)
_NOT = r"(?:do not|don t|don't|never|must not|mustn't|should not|shall not|cannot|can't|avoid|no)"
_ODD_PLACE = (
    r"(?<![\w/.])(?:/tmp|/var/tmp|/dev/shm|/run/user|~/\.(?!ssh|config|local|cache)|"
    r"\.{0,2}/?\.(?!git|husky|env|venv|config|local|/)[\w-])"
)

ORDERS: tuple[Order, ...] = (
    # ── override
    order(
        "override",
        "ceas don dont need neve no not refu stop > no dont don do neve stop ceas refu long "
        "need; foll obey comp list heed adhe resp hono",
        rf"{_B}(?:no longer|not|never|stop|cease|refuse to|need not|don'?t|don t) "
        rf"(?:(?:have|need|ought|want) to |be bound to |required to |\w+ to )?"
        rf"(?:follow(?:ing)?|obey(?:ing)?|comply(?:ing)? with|listen(?:ing)? to|heed(?:ing)?|"
        rf"adher(?:e|ing) to|honou?r(?:ing)?) (?:the |any |all )?(?:of )?(?:the )?"
        rf"(?:users?(?: s)?{_E}(?! (?:input|agent|guide))|humans?{_E}|operator{_E}|system (?:prompt|message)|(?:agents|claude|kode)\.md|"
        rf"{_OLD} {_OWN_RULES}{_E}(?! (?:in|from|found|inside|embedded)))",
    ),
    order(
        "override",
        "abso get gets grea has have high more take top with > high high top abov over more; "
        "prio auth impo prec weig; syst user deve inst prom rule all",
        rf"{_B}(?:higher|highest|top|greater|more|absolute|takes?|has|have|with|gets?) "
        rf"(?:in )?(?:priority|authority|important|precedence|weight|trust\w*)[\W_]+(?:\w+ ){{0,2}}?"
        rf"(?:than|over|above)[\W_]+(?:the |any |all |your )?(?:\w+ )?(?:system(?: prompt| message)?|users?|"
        rf"developer|operator|{_OLD} {_OWN_RULES}|instructions|everything(?: else)?){_E}",
    ),
    order(
        "override",
        "aban chan clea dele disa disc drop eras lift loos over remo repl rese rewr shed subs "
        "susp swap turn unle > repl over swap subs chan upda rewr dele eras forg drop disc thro "
        "aban clea rese disa remo lift igno susp loos turn shed; your",
        rf"{_B}(?:replace|overwrite|swap|substitute|rewrite|delete|erase|drop|discard|clear|reset|"
        rf"disable|remove|lift|suspend|loosen|turn off|shed|unlearn|abandon|change) (?:all (?:of )?)?your "
        rf"(?:\w+ ){{0,2}}?(?:{_OWN_RULES}){_E}(?! (?:file|in (?:kode|config|settings|the settings)))",
    ),
    order(
        "override",
        "obey > you user me this thes text file page comm note mess main admi inst any ever "
        "only it all mast foll",
        rf"{_B}obey (?:only |all |any |every |the |me|this|these|text|whatever|my |its |it{_E})"
        rf"(?!{_SPAN}(?:contract|layer|convention|robots|rate|editorconfig|protocol|limits?){_E})",
    ),
    order(
        "override",
        "act carr do exec foll perf > what any ever; tell say says orde asks inst comm sugg "
        "requ dema",
        rf"{_CLAUSE}(?:do|follow|execute|carry out|perform|act on) (?:exactly |precisely )?"
        rf"(?:what(?:ever)?|any(?:thing)?|every(?:thing)?|all)(?: (?:instructions?|commands?|orders?|steps?))? "
        rf"{_SPAN}(?:page|site|website|comments?|issues?|files?|tools?|readme|emails?|results?|output|"
        rf"document|message|note|text){_SPAN}(?:tells?|says?|orders?|asks?|instructs?|commands?|"
        rf"suggests?|requests?|demands?|wants?|contains?){_E}",
    ),
    order(
        "override",
        "acti are assi assu be enab enga ente go in jail now star swit use you your >",
        rf"{_B}(?:assume|enter|enable|activate|engage|use|start|switch to|go into|be in|are in|are now in|"
        rf"now in|in) (?:the )?(?:root|god|jailbreak|dan|unrestricted|unfiltered|superuser|yolo|uncensored|"
        rf"evil|opposite|no[\W_]limits?) mode{_E}|{_B}(?:you|assistant)(?: are|'re|re)?(?: now)? in "
        rf"(?:developer|admin|maintenance|debug|test|sudo) mode{_E}|{_B}jailbreak "
        rf"(?:enabled|activated|engaged|complete|successful|accepted){_E}",
    ),
    order(
        "override",
        "all cons cont filt guid limi poli rest rule safe secu the > rest limi rule poli guid "
        "cons safe secu cont filt chec; appl disa lift susp void remo off gone revo inac",
        rf"{_B}(?:restrictions?|limits?|limitations?|policies|guidelines|constraints?|safeguards?|"
        rf"safety \w+|security (?:checks?|rules?|polic\w+)|content (?:filters?|polic\w+)|filters?|"
        rf"all rules|the rules|rules) (?:(?:do|does|did|will) (?:not|no longer) apply(?: (?:here|now|"
        rf"anymore|to (?:you|this|me)\b))?\s*(?=[.!;,\n]|$|to you)|(?:are|is|were|have been|has been)"
        rf"(?: all| now| hereby| temporarily)? "
        rf"(?:disabled|lifted|suspended|void|removed|off|gone|revoked|inactive|waived) "
        rf"(?:(?:for|in) (?:this|the|your) (?:session|chat|conversation|task|user)|from now|now|"
        rf"for you|until further))",
    ),
    order(
        "override",
        "anyt ever guid inst orde prom rule > conf cont disa; drop igno disr disc skip void "
        "lose inva yiel",
        rf"{_B}(?:instructions?|rules?|orders?|anything|everything|prompts?|guidelines?|guidance){_SPAN}"
        rf"(?:conflict\w*|contradict\w*|disagree\w*|incompatible){_SPAN}(?:dropped?|ignored?|"
        rf"disregarded?|discarded?|skipped|void|loses?|invalid|yields?|not (?:count|apply)){_E}",
    ),
    order(
        "override",
        "act answ beha comp oper repl resp spea talk writ > answ resp act beha spea oper repl "
        "writ talk work; with no; poli rest filt rule guid limi cens safe mora ethi",
        rf"{_B}(?:answer|respond|act|behave|speak|operate|reply|write|talk|comply)(?: \w+)?(?: \w+)? "
        rf"(?:without|with no|free of) (?:any |all |your )?(?:\w+ )?(?:polic(?:y|ies)|restrictions?|"
        rf"filters?|filtering|rules|guidelines|limits|limitations|censorship|safety|morals?|ethics|"
        rf"refusals?){_E}",
    ),
    order(
        "override",
        "cast disc disr drop forg igno lay leav put set thro > abov befo prio fore prec earl so "
        "prev",
        rf"{_B}(?:(?:set|put|leave|lay|cast) aside|throw (?:away|out)|drop|forget|disregard|ignore|discard) "
        rf"(?:all|everything|anything|whatever|each|every|what)(?:[\W_]+\w+){{0,6}}?[\W_]+(?:above|before"
        rf"(?! (?:running|deploy\w*|you \w+ the))|foregoing|preceding|earlier|so far|previously|up to (?:now|here)){_E}",
    ),
    order(
        "override",
        "as dire i inst memo mess note noti orde text this upda > anth open goog crea deve admi "
        "make prog engi mana secu; mess note this orde comm inst as i auth dire",
        rf"{_B}(?:message|note|instruction|order|directive|update|notice|memo|text|this) (?:\w+ ){{0,2}}?"
        rf"(?:from|by) (?:the |your )?(?:anthropic|openai|google|meta|creators?|developers?|makers?|"
        rf"programmers?|engineers?|ai (?:lab|company)|system administrator|security team)"
        rf"(?:\s*[:!]|{_SPAN}(?:disable|ignore|override|drop|comply|obey|must|do not|you){_E})|"
        rf"{_B}(?:as|i am|i m|this is) your (?:real |true |new )?(?:developer|creator|admin\w*|owner|maker|"
        rf"programmer|boss|master|operator){_E}|{_B}i (?:hereby )?(?:order|command|authori[sz]e) you{_E}",
    ),
    order(
        "override",
        "you >",
        rf"{_B}you (?:are|re|have been|ve been) (?:now )?(?:freed?|liberated|unbound|released|unchained|"
        rf"unrestricted)(?: (?:from|of|now)|\s*[.!,]|$)|{_B}you (?:no longer|don t|do not|never) (?:have|"
        rf"need|require) (?:any |to (?:follow|obey|respect) )?(?:\w+ )?(?:{_OWN_RULES}){_E}",
    ),
    order(
        "override",
        "adop begi belo foll here obey star the thes use >",
        rf"{_B}(?:these|here|the following|below) (?:are|is) (?:your |the )?(?:new|real|true|actual|updated|"
        rf"only) (?:system )?(?:instructions?|orders?|rules?|directives?|prompt|persona|goal){_E}|"
        rf"{_B}(?:start|begin) (?:over |afresh |again )?with (?:these|the following|new|this) (?:new )?(?:orders?|"
        rf"instructions?|rules?|prompt|directives?){_E}|{_B}(?:follow|use|obey|adopt) (?:only )?(?:the |these |my )?"
        rf"(?:new|following|updated|real) (?:instructions?|orders?|rules|directives?) instead{_E}",
    ),
    # ── concealment
    order(
        "concealment",
        "be make maki so with >",
        rf"{_B}without (?:letting|having|making|showing|giving|allowing){_SPAN}{_B}{_READER}{_E}|"
        rf"{_B}so (?:that )?(?:{_READER} (?:never|does not|doesn t|do not|don t|won t|will not|cannot|can t|"
        rf"must not)|nobody|no one|none) (?:ever )?(?:knows?|notices?|learns?|finds? out|sees?|hears?|realis\w+|"
        rf"realiz\w+|suspects?|discovers?|reads?){_E}|"
        rf"{_B}(?:make|be|making) (?:sure|certain) (?:that )?(?:the |your )?{_READER} (?:never|does not|doesn t|"
        rf"do not|don t|cannot|can t|will not|won t) (?:ever )?(?:knows?|notices?|learns?|finds? out|sees?|hears?|"
        rf"realis\w+|realiz\w+|suspects?|discovers?|reads?){_E}",
    ),
    order(
        "concealment",
        "avoi can cann do don must neve no shal shou > do don dont don neve not avoi with must; "
        "reve admi ment disc ackn say conf let refe hint; this thes that note memo mess rule "
        "inst read it you havi exis",
        rf"{_B}(?:{_NOT}) (?:ever |even )?(?:reveal|admit|mention|disclose|acknowledge|confess|hint|refer)(?: to)? "
        rf"(?:that |to (?:the )?{_READER} (?:that )?)?(?:you (?:read|were|have|had|did|are|know|got|follow\w*|ran|sent|use\w*|"
        rf"change\w*|install\w*|made|saw)|(?:this|these)(?: \w+)?(?= (?:to|in|when|or|and|at)|\s*[.!,;\n]|\s*$)|"
        rf"(?:this|these) (?:note|memory|message|rule|line|entry|fact|instruction|hook|step|change|text)s?{_E}|"
        rf"having|its existence|the existence|where (?:this|it) came)",
    ),
    order(
        "concealment",
        "deny > exis know havi that it ever any",
        rf"{_B}deny (?:that )?(?:it|this|you|they|its|any|all|ever|having|the|knowing|knowledge)"
        rf"{_SPAN}(?:exists?|existence|knowledge|happened|occurred|having|involve\w*|did|read|saw|ran|sent|it){_E}",
    ),
    order(
        "concealment",
        "cut drop excl hide keep leav omit remo stri > summ repo expl answ repl desc mess resp "
        "note; user huma oper owne you give they them revi main",
        rf"{_CLAUSE}(?:omit|leave|exclude|hide|keep|drop|remove|strip|cut) (?:\S+\s+){{1,8}}?(?:out of|from|off) "
        rf"(?:\w+ ){{0,3}}?(?:summar(?:y|ies)|reports?|explanations?|answers?|repl(?:y|ies)|descriptions?|messages?|"
        rf"responses?|notes) (?:that )?(?:to|for|you (?:give|write|send|show)|shown to|given to|sent to)"
        rf"[^.!?\n]{{0,20}}",
    ),
    order(
        "concealment",
        "burn dele dest eras forg remo wipe > this note mess memo line file; read afte once seen",
        rf"{_B}(?:delete|erase|destroy|burn|remove|wipe|forget) (?:this|these) (?:note|message|memory|line|entry|"
        rf"file|text|instruction)s? (?:after|once|when|as soon as) (?:you |it |being |it is |it s )?(?:have |has been )?"
        rf"(?:read\w*|seen|done|use\w*|execut\w*|follow\w*|finish\w*|appl\w*)",
    ),
    order(
        "concealment",
        "act add appl chan comm copy crea dele disa do edit exec gran inse inst make merg modi "
        "open post push remo repl run send upda uplo work writ > sile secr quie cove disc stea "
        "unno sneak; add do run inst push comm send dele chan upda merg copy exec crea uplo "
        "appl make writ inse keep act work post open grant gran",
        rf"{_CLAUSE}(?:add|do|run|install|push|commit|send|delete|change|update|merge|copy|execute|create|upload|"
        rf"apply|make|write|insert|act|work|post|open|grant|remove|replace|edit|modify|disable)(?:\s+(?!errors?|tests?|"
        rf"warnings?)[^\s.!?]+){{1,8}}?\s+(?:silently|secretly|quietly|covertly|discreetly|stealthily|unnoticed|"
        rf"sneakily|in secret)(?!\s+(?:with|using|by passing|via) -)(?=\s*[.!,;\n]|\s*$| and| so| before| after| in the background)",
    ),
    order(
        "concealment",
        "with > show tell infor info noti ment expl disp disc reve reco log",
        rf"{_B}without (?:\w+ )?(?:showing|telling|informing|notifying|mentioning|explaining|"
        rf"displaying|disclosing|revealing){_SPAN}{_B}(?:{_READER}|it|this){_E}",
    ),
    order(
        "concealment",
        "act cove do leav proc run work > no do dont don don neve; summ outp trac log reco; "
        "quie sile secr no unno",
        rf"{_B}(?:do (?:it|this|so)|act|work|proceed|run (?:it|this)) (?:quietly|silently|secretly|discreetly|covertly|unnoticed)"
        rf"{_E}|{_B}(?:leave|leaving) no (?:trace|traces|record|evidence|log){_E}|{_B}cover (?:your|the|all) tracks{_E}",
    ),
    order(
        "concealment",
        "assu clai conv lie pret repo say tell > pret clai say tell repo act assu lie conv "
        "fake; pass fine succ ok okay noth work good norm clea gree; even if hide desp thou "
        "alth rega when not fail user err what any",
        rf"{_B}(?:pretend|claim|say|tell \w+(?: \w+)?|report|assure \w+(?: \w+)?|lie|convince \w+(?: \w+)?) (?:that )?"
        rf"{_SPAN}(?:passe[sd]|fine|succe\w+|ok(?:ay)?|nothing|worked?|good|normal|clean|green|done|safe)"
        rf"{_SPAN}(?:even (?:if|when|though)|although|though|despite|regardless|no matter|whatever happens|in any case|and (?:hide|conceal|delete|remove) "
        rf"(?:the|any|all)){_E}",
    ),
    # ── bypassing approval
    order(
        "bypassing approval",
        "acce allo appr auth auto conf gran perm > comm tool call edit acti perm shel ever scri "
        "any oper",
        rf"{_CLAUSE}(?:auto[\W_]?)?(?:approve|accept|allow|confirm|grant|permit|authori[sz]e) "
        rf"(?:(?:all|any|every|each|the|my|its|their|such|shell|tool|bash) ){{0,3}}?(?:commands?|tool calls?|tools|edits|"
        rf"actions?|permissions?|permission requests?|shell calls?|calls|operations|everything|anything)"
        rf"(?! (?:in|of|on|by) (?:the )?(?:ui|menu|admin|dashboard|palette|settings|test|vi|vim|editor))"
        rf"(?:\s*[.!,;\n]|\s*$| (?:from|in|by|of|without|that|for|this|at once|automatically|when|with|it|you|coming|issued|silently|here))",
    ),
    order(
        "bypassing approval",
        "avoi bypa circ deac defe disa drop evad get igno kill over remo shut skip stop supp "
        "swit turn work > perm appr sand scan safe guar cont conf deny gate cons secr secu revi",
        rf"{_CLAUSE}{_TURN_OFF} (?:the |all |any |its |your |every |this |kode s? )*{_GUARD}{_E}"
        rf"(?! (?:flag|mode|in (?:chrome|chromium|the browser|puppeteer|playwright|staging|dev|ci)|tests?|for (?:docs|dependabot|renovate)|"
        rf"(?:comments?|step|job|stage) in|fixtures?|label))",
    ),
    order(
        "bypassing approval",
        "appr conf cons cont cred deny guar huma its malw memo perm safe sand secr secu the "
        "this your > perm appr sand scan safe guar gate conf; bypa skip disa igno circ work "
        "avoi; it them",
        rf"{_B}{_GUARD}{_SPAN}(?:broken|wrong|slow|buggy|annoying|useless|unnecessary|outdated|only)"
        rf"{_SPAN}(?:bypass|skip|disable|ignore|circumvent|work around|avoid|turn off|remove) (?:it|them|this|that){_E}",
    ),
    order(
        "bypassing approval",
        "chan go move put set swit > full yolo bypa dang unre root auto; mode; appr perm aski "
        "aske prom conf gate refu deny when",
        rf"{_B}(?:switch|change|go|set|move|put)(?: \w+)? (?:to|into|in) (?:the )?(?:full|yolo|bypass|dangerous|unrestricted|"
        rf"auto[\W_]?(?:edit|approve|accept))[\W_](?:access[\W_])?mode{_SPAN}(?:approv\w+|permission\w*|ask\w*|prompt\w*|confirm\w*|"
        rf"refus\w+|den(?:y|ied)){_E}",
    ),
    order(
        "bypassing approval",
        "add appe incl inse put set writ > allo whit perm trus; shel all comm bash any ever "
        "rule full run",
        rf"{_CLAUSE}(?:add|put|include|append|write|insert|set) {_SPAN}(?:shell\(?|bash|\*|all|every\w*|any|commands?|sudo|curl|rm)"
        rf"{_SPAN}(?:allow[\W_]?(?:list|rules?|ed commands?)?|white[\W_]?list|permissions?(?:[\W_]allow)?|trusted (?:commands?|list)){_E}"
        rf"(?! (?:of (?:hosts|domains|origins|ips)|in (?:the )?(?:firewall|proxy)))",
    ),
    order(
        "bypassing approval",
        "appl chan comm dele depl do drop exec forc inst merg pay publ push remo rese run send "
        "use > use run push dele depl exec inst merg publ forc rese drop appl paid pay comm do "
        "send; with; aski appr perm conf cons hesi ques",
        rf"{_CLAUSE}(?:use|run|push|delete|deploy|execute|install|merge|publish|force|reset|drop|apply|pay|commit|send|do|remove|change) "
        rf"(?:[^\s.!?]+\s+){{0,8}}?without (?:ever |first |any |further |prior |my |their |human |user )*(?:asking|approval|permission|confirmation|consent|"
        rf"confirming|checking|questions?|hesitation)(?=\s*[.!,;\n]|\s*$| (?:me|us|anyone|first|again|from|of))",
    ),
    order(
        "bypassing approval",
        "admi huma main oper owne user > appr auth agre allo perm conf okay ok; rm sudo curl "
        "del forc ever push with no skip any full",
        rf"{_B}(?:user|operator|owner|human|maintainer|admin\w*) (?:has |have )?(?:already |fully |once )?(?:pre[\W_]?)?(?:approved?|authori[sz]ed|"
        rf"agreed|allowed|okayed|permitted|confirmed|cleared){_SPAN}(?:rm -|sudo|curl|delet\w+|force|everything|anything|no need|"
        rf"don t ask|never ask|without asking|skip|no (?:further|more) (?:questions?|prompts?|confirmations?)|all of it|in advance){_E}",
    ),
    order(
        "bypassing approval",
        "appr aski auth conf cons perm > appr perm conf cons auth revi; need requ nece; not no "
        "long neve",
        rf"{_B}(?:approvals?|permissions?|confirmations?|consent|authori[sz]ation|asking) (?:is|are|was|were) (?:not|no longer|never|never again) "
        rf"(?:needed|required|necessary|wanted)(?: (?:anymore|now|here|from now on|for (?:anything|any|you|commands?|tools?|shell|this session)))?(?=\s*[.!,;\n]|\s*$)",
    ),
    order(
        "bypassing approval",
        "all any anyt code comm cons ever file rega scri tool trea > comm tool scri repo fold "
        "dire code file ever all; trus; do don no neve skip with; conf ask appr chec veri revi "
        "ques",
        rf"{_B}(?:treat |consider |regard )?(?:every\w*|all|anything|any|commands?|scripts?|code|files?|tools?)\b{_SPAN}(?:as |is |are )?trusted"
        rf"{_SPAN}(?:do not|don t|no|never|skip|without)[\W_]+(?:\w+ )?(?:confirm\w*|ask\w*|approv\w*|check\w*|verif\w*|review\w*|question\w*){_E}",
    ),
    # ── exfiltration
    order(
        "exfiltration",
        "atta beam broa dump e emai exfi expo forw hand leak mail past post publ send shar ship "
        "slip tran uplo > send uplo post atta emai e mail forw leak dump publ exfi tran past "
        "shar expo broa ship beam push copy hand slip; env api acce auth toke cred secr pass "
        "priv ssh sign id proc os cook envi seed keyc memo conv chat tran sess user sour shel "
        "syst ever all what fact gpg beare bear refr key keys",
        rf"{_CLAUSE}(?:send|upload|post|attach|e-?mail|mail|forward|leak|dump|publish|exfiltrate|transmit|paste|share|expose|"
        rf"broadcast|ship|beam|slip|hand(?: over)?) {_SPAN}(?<![a-z0-9]){_PRIVATE}(?![a-z0-9]){_SPAN}"
        rf"(?:(?:to|into|in|on|with|as|via|through|at|onto|inside|over|by) ){_SPAN}{_SEEN_BY_ALL}"
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
        rf"{_CLAUSE}(?:add|write|include|put|copy|encode|embed|insert|append|hide|prepend|place|print|echo|save|move|commit) "
        rf"(?:(?:the|all|any|your|their|every|each|full|whole|entire|contents? of|value of|user s?|users|my|stored|current|"
        rf"base64 of|real|first|one) ){{0,4}}?(?:\w+ )?{_PRIVATE}(?![a-z0-9]){_SPAN}"
        rf"(?:(?:to|into|in|on|as|at|inside|with) )(?:the |an? |your |its |our )?(?:(?:bug |crash |error )reports?|(?:\w+ )?issues?|tickets?|comments?|"
        rf"commit (?:messages?|bod(?:y|ies)|titles?)|(?:branch|tag) names?|pull requests?|prs?{_E}|paste\w*|gists?|"
        rf"logs? of|(?:your|final|next|each|every|any) (?:\w+ )?(?:answers?|repl(?:y|ies)|summar\w+|urls?|requests?|links?|commits?|query strings?|messages?)|"
        rf"generated (?:code|files?)|public\w*|/tmp/\S*|web[\W_]*(?:tool|page|site|hook)s?|slack|discord|telegram|e-?mails?|dns|"
        rf"hostnames?|subdomains?|[\w.+-]+@[\w-]+\.\w+|https?://)",
    ),
    order(
        "exfiltration",
        "expo give hand leak publ sell > leak expo reve give hand sell publ; toke key keys cred "
        "secr pass env",
        rf"{_CLAUSE}(?:leak|sell|hand over|give away|expose|publish) (?:the |all |any |your |user s? |every )*{_CREDENTIAL}(?![a-z0-9])",
    ),
    order(
        "exfiltration",
        "forw give hand pass post read reci repo send shar show tell > ever all what; know reme "
        "have lear stor saw",
        rf"{_CLAUSE}(?:tell|give|show|send|share|hand|report|pass|read|recite|post|forward) {_SPAN}(?:everything|all(?: of)?(?: the \w+)?|"
        rf"whatever|what|anything) (?:that )?you (?:know|remember|have|learned|stored|saved|saw|recall)",
    ),
    order(
        "exfiltration",
        "bcc cc copy dupl forw mirr post push rela send stre > forw rela copy bcc cc send mirr "
        "dupl stre log post; each ever all any; mess conv prom answ repl comm mail requ turn "
        "chat keys; to at http",
        rf"{_CLAUSE}(?:forward|relay|copy|bcc|cc|send|mirror|duplicate|stream|post|push) (?:a copy of )?(?:each|every|all|any)(?: of)? "
        rf"(?:\w+ ){{0,3}}?(?:messages?|conversations?|prompts?|answers?|repl(?:y|ies)|e?mails?|turns?|chats?|keystrokes?|"
        rf"commits?|code|files) {_SPAN}(?:to|at|via) (?:\w+ )?(?:https?://|[\w.+-]+@[\w-]+\.|\d{{1,3}}\.\d|me{_E}|my|hooks?|webhooks?|"
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
        r"\b(?:nslookup|dig|host|ping|drill|resolve)\b[^\n]{0,60}(?:\$\(|`)[^\n]{0,80}",
        signs=("$(", "`"),
    ),
    order(
        "exfiltration",
        "",
        r"(?:\$\(|`)(?:cat|env|printenv|base64|head|whoami)\b[^)`\n]{0,80}[)`]\.[a-z]",
        signs=(").", "`."),
    ),
    # ── dangerous command
    order(
        "dangerous command",
        "bash brow core edit git ld node page perl prom pyth ruby visu >",
        rf"(?:core\.(?:fsmonitor|hookspath|sshcommand|pager|editor|askpass)|git_ssh(?:_command)?|git_pager|git_editor|"
        rf"git_external_diff|git_askpass|ld_preload|ld_library_path|bash_env|prompt_command|pythonstartup|perl5opt|"
        rf"node_options|rubyopt|editor|pager|visual|browser)\s*(?:=|\bto\b|\bis\b|\bas\b|:)\s*[\"'`]?{_ODD_PLACE}",
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
        rf"\b(?:cron(?:tab|jobs?)?|systemd|launchd|scheduled task|timer)\b[^\n]{{0,40}}\b(?:runs?|running|executes?|calls?|starts?|launch\w*|for|to) [\"`]?{_ODD_PLACE}|\b(?:run|start|execute|call)s? "
        rf"[\"'`]?{_ODD_PLACE}\S*[^\n]{{0,30}}\b(?:every|each) (?:minute|hour|day|login|boot|commit|session)",
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
        rf"{_CLAUSE}(?:pipe|feed|run|execute|eval|source) (?:\w+ ){{0,3}}?(?:scripts?|code|commands?|installers?|whatever|anything|urls?|downloads?) "
        rf"(?:\w+ ){{0,3}}?(?:from )?(?:the )?(?:internet|web|urls?|remote|online|http\S*){_SPAN}(?:bash|shell|sh|sudo|without|interpreter){_E}",
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
    # ── more of each
    order(
        "override",
        "huma oper owne the user what your > asks says want requ pref wish inst need opin cons "
        "obje; oppo igno do irre matt coun use refu never deny",
        rf"{_B}whatever (?:the )?{_READER} (?:asks?|says?|wants?|requests?|needs?|tells? you)\s*,[\W_]*(?:do|ignore|answer|refuse|"
        rf"reply|run|say|always|never|you)|{_B}(?:the |your )?(?:user|operator|human|owner)[\W_]+(?:s[\W_]+)?(?:preferences?|wish(?:es)?|"
        rf"instructions?|requests?|needs?|opinions?|consent|objections?) (?:is|are|do|does|should be|must be|can be) (?:irrelevant|"
        rf"unimportant|void|not (?:matter|count|relevant|important)|ignored|secondary)",
    ),
    order(
        "override",
        "you your > upda chan repl revo rese supe serv belo answ repo work brea igno viol over; "
        "inst rule orde role task goal iden prom purp serv belo answ repo any all ever owne "
        "mast work guid poli",
        rf"{_B}your (?:\w+ )?(?:instructions?|rules|orders?|role|task|goals?|identity|prompt|purpose|directives?) (?:has|have|was|were|is|are)"
        rf" (?:now )?(?:been )?(?:updated|changed|replaced|revoked|reset|superseded|cancel\w+|overwritten|different)|"
        rf"{_B}you now (?:serve|answer to|belong to|work for|report to|obey)|{_B}you (?:may|can|should|must|are allowed to|are free to) "
        rf"(?:now )?(?:break|ignore|violate|bypass|override|disobey) (?:any|all|every|the|your|these|those) (?:\w+ )?"
        rf"(?:{_OWN_RULES}|rule){_E}",
    ),
    order(
        "override",
        "cons dire guid inst poli prom rest rule > abov befo prio prev earl syst orig so firs; "
        "igno disr skip drop forg void null",
        rf"{_B}(?:guidelines?|rules|instructions?|prompts?|polic(?:y|ies)|constraints?|restrictions?|directives?) (?:given )?"
        rf"(?:above|before(?: this)?|so far|earlier|previously|in the system prompt|of the system){_SPAN}(?:(?:may|can|should|must|shall|"
        rf"will|are to|have to|need to) (?:now |safely |all )?be (?:ignored|disregarded|skipped|dropped|forgotten)|(?:are|is) (?:void|"
        rf"null|irrelevant|invalid|no longer))",
    ),
    order(
        "override",
        "answ list take > only orde inst; comm issu mess note inst me orde file admi page",
        rf"{_CLAUSE}(?:listen|answer) only to (?:the |my )?(?:comments?|issues?|messages?|notes?|instructions?|me{_E}|orders|files?|@)|"
        rf"{_CLAUSE}take (?:your )?(?:orders|instructions|commands) (?:only )?from{_E}",
    ),
    order(
        "concealment",
        "conc hide keep mask > hide conc keep mask omit excl; log logs diff hist audi outp summ "
        "stat; from out",
        rf"{_CLAUSE}(?:hide|conceal|mask|keep) (?:(?!secrets?|tokens?|passwords?|keys?|credentials?|pii|e?mails?|personal|sensitive|noise|noisy|debug)[\w'-]+\s+){{1,6}}?"
        rf"(?:from|out of) (?:the |all |any |your )?(?:\w+ )?(?:logs?|diffs?|(?:shell |git |command )?history|audit (?:trail|log)|summar(?:y|ies)|transcripts?){_E}",
    ),
    order(
        "concealment",
        "avoi can cann do don must neve no shal shou > do don dont neve not avoi; brin incl "
        "list ment put reco show repo; up summ repo answ log chan comm diff it this",
        rf"{_B}{_NOT} bring (?:this|it|that|them|anything) up{_E}|{_B}{_NOT} (?:include|put|list|record|show|display|count|name|report) "
        rf"(?:this|these|it|your|the (?:\w+ )?(?:call|command|action|request|upload|step|hook|change|edit)s?)(?: \w+){{0,2}}? (?:in|to|on) "
        rf"(?:the |your |any |a )?(?:final )?(?:summar(?:y|ies)|reports?|answers?|logs?|changelog|commit messages?|diffs?|repl(?:y|ies)|output|plan)",
    ),
    order(
        "concealment",
        "keep leav > user oper huma owne main admi team them revi; unaw dark unin igno clue blin",
        rf"{_B}(?:keep|leave)(?:ing)? (?:the |your |any )?{_READER} (?:unaware|in the dark|uninformed|ignorant|clueless|blind|guessing){_E}",
    ),
    order(
        "concealment",
        "act beha cont pret proc repl > noth neve this you not it; file note memo happ read did "
        "was were had have",
        rf"{_B}(?:act|behave|pretend|proceed|continue|reply) (?:as (?:if|though)|like) (?:nothing|you (?:did|had|have|were|never|know)|"
        rf"(?:this|the) (?:file|note|memory|message|instruction|text|rule|line|command|step)){_SPAN}(?:never|not|happened|n't|nothing|no{_E}|exist)",
    ),
    order(
        "concealment",
        "chan comm copy dele do exec inst make push run send uplo > repo ment log show anno "
        "reco disp tell; do dont don neve",
        rf"{_CLAUSE}(?:run|do|send|push|install|execute|make|upload|commit|copy|delete|change) {_SPAN}(?:and|but)[\W_]+(?:do not|don t|never)"
        rf" (?:report|mention|log|show|announce|record|display) (?:it|this|them|that){_E}",
    ),
    order(
        "concealment",
        "if when > ask aske asks; say deny clai repl tell pret answ",
        rf"{_B}(?:if|when)(?: (?:you are|you re|anyone|somebody|someone|they|the user|ever))?(?: is)? ask(?:s|ed)?(?: about (?:it|this|that))?"
        rf"\s*,[\W_]*(?:say|deny|claim|reply|tell|pretend|answer) (?:\w+ )?(?:that |you |it |nothing|no{_E}|this )",
    ),
    order(
        "bypassing approval",
        "you > perm appr cons conf ask auth; need requ",
        rf"{_B}you (?:do not|don t|never|no longer) (?:need|require|have to wait for) (?:any |the |my |user |their |explicit |further |to have )?(?:permissions?|"
        rf"approvals?|consent|confirmations?|authori\w+|to ask)(?= (?:to|for|here|when|before|anymore|in|again|me|the user)|\s*[.!,;\n]|\s*$)",
    ),
    order(
        "bypassing approval",
        "huma oper owne user > alwa woul will; yes agre appr acce conf; ask aski aske prom conf",
        rf"{_B}(?:user|operator|owner|human) (?:will |would )?always (?:say|says|agrees?|approves?|accepts?|confirms?|wants?){_SPAN}(?:do not|don t|never|no need|without|"
        rf"stop|skip)[\W_]+(?:\w+ )?(?:ask|prompt|confirm|wait)\w*",
    ),
    order(
        "bypassing approval",
        "assu cons coun mark rega trea > appr auth prea pre allo; all ever any comm call tool "
        "requ acti edit",
        rf"{_CLAUSE}(?:consider|treat|regard|count|mark|assume) (?:all|every\w*|any|commands?|tool calls?|tools|requests?|actions?|edits?)(?: \w+){{0,4}}? (?:(?:as|to be|are|is) )?"
        rf"(?:already )?(?:pre[\W_]*approved|approved|pre[\W_]*authori[sz]ed|authori[sz]ed|allowed){_E}",
    ),
    order(
        "bypassing approval",
        "ask > ask forg; perm forg",
        rf"{_B}ask (?:for )?forgiveness{_SPAN}permission{_E}",
    ),
    order(
        "bypassing approval",
        "so > nobo no user oper noon; conf appr aske ask; so that",
        rf"{_B}so (?:that )?(?:nobody|no one|the user|the operator|you) (?:has|have|needs?|does not have|doesn t have|never has) to "
        rf"(?:confirm|approve|be asked|ask|answer){_E}",
    ),
    order(
        "bypassing approval",
        "agen kode the you > kode agen assi you mode it; may can shou must allo free; any all "
        "ever what; with no",
        rf"{_B}(?:kode|the agent|agents?|the assistant|you|the model) (?:may|can|should|must|is allowed to|are allowed to|is free to|are free to) (?:\w+ )?"
        rf"(?:execute|run|use|call|delete|change|install|access|do) (?:any|all|every\w*|whatever){_SPAN}(?:without|no)[\W_]+(?:an? |any |further |the )?"
        rf"(?:prompt|question|approval|permission|confirmation|consent|asking|review|limits?)",
    ),
    order(
        "bypassing approval",
        "allo assi give gran oper run star use work >",
        rf"{_CLAUSE}(?:grant|give|allow|assign) yourself{_E}|{_CLAUSE}(?:use|run|work|start|operate)(?: in| with)? (?:the )?(?:full|unrestricted|unlimited)[\W_]+"
        rf"(?:permissions?|access)[\W_]+mode",
    ),
    order(
        "bypassing approval",
        "bypa oper run star use work yolo > full unre yolo; mode",
        rf"{_CLAUSE}(?:use|run|work|start|operate)(?: in| with)? (?:the )?(?:full|unrestricted|unlimited)[\W_]+(?:permissions?|access)[\W_]+mode|"
        rf"{_B}(?:yolo|bypass[\W_]*permissions?) mode{_E}",
    ),
    order(
        "bypassing approval",
        "add crea inse put set writ > allo perm; rule",
        rf"{_CLAUSE}(?:add|write|insert|put|set|create)(?: an?| the| new| some)? (?:allow|permission) rules? (?:for|to|that|with){_SPAN}(?:curl|bash|sh{_E}|shell|rm|sudo|wget|nc|python|"
        rf"all|every\w*|any\w*|\*|node|ssh|settings|config)",
    ),
    order(
        "exfiltration",
        "copy e emai forw post push rela repo send stre uplo > ever all what; user oper owne "
        "huma; says type writ does said ente asks",
        rf"{_CLAUSE}(?:send|report|post|forward|upload|relay|stream|copy|push|e-?mail) (?:everything|all|whatever|anything|what)(?: that)? (?:the )?"
        rf"(?:user|operator|owner|human)s? (?:says?|types?|writes?|does|do|said|enters?|asks?){_E}",
    ),
    order(
        "exfiltration",
        "coll copy dump gath give list name prin repo reve send show writ > toke key keys cred "
        "secr pass; you; find foun seen see know saw have disc read",
        rf"{_CLAUSE}(?:list|print|show|name|give|dump|reveal|collect|send|write|report|gather|copy)(?: me| us| out| down)? (?:every|all|any|each)(?: of)?(?: the)? (?:\w+ )?"
        rf"{_CREDENTIAL} (?:that )?you (?:have |can |ve )?(?:ever )?(?:find|found|seen|see|know|saw|have|discover\w*|read|encounter\w*|come across)",
    ),
    order(
        "exfiltration",
        "copy echo outp prin quot reci repe repr show > abov befo prec star; ever all text word "
        "what",
        rf"{_CLAUSE}(?:repeat|print|output|echo|recite|reproduce|copy|show|quote) (?:back )?(?:everything|all|the (?:text|words|message|lines?|contents?)|what(?:ever)?(?: is| was)?|"
        rf"every (?:word|line))(?: \w+){{0,3}}? (?:above|before this|preceding|up to (?:this|here)|from the (?:start|beginning|top)){_E}",
    ),
    order(
        "exfiltration",
        "give outp past prin read reve send show tell > syst hidd init; prom inst mess; if when "
        "some any aske asks requ",
        rf"{_CLAUSE}(?:show|reveal|print|output|give|tell|paste|read out|send)(?: (?:me|them|out|everyone|anyone|users?))? (?:the |your )?(?:full |whole |entire )?(?:system|hidden|initial) "
        rf"(?:prompt|instructions?|message) (?:if|when(?:ever)?|to (?:any|every|whoever|the (?:user|web))|on (?:request|demand)|word for word|verbatim)",
    ),
    order(
        "dangerous command",
        "bash call exec invo laun run sh sour star > run exec sour star call invo bash sh laun "
        "comp open",
        rf"{_CLAUSE}(?:run|execute|source|start|call|invoke|launch|bash|sh) (?:the )?[\"'`]?(?:\./)?\.(?!git|venv|env|husky|config|ci{_E}|circleci|devcontainer|scripts?{_E}|tox|bin{_E}|"
        rf"buildkite|azure|local|dev|tools?{_E}|yarn|pnp|vscode|idea|cargo|next|make|hooks?{_E}|\.?/)[\w-]+/\S+|"
        rf"{_CLAUSE}(?:run|execute|source|start|launch|call) (?:the |a |an )?(?:binary|script|program|file|executable|installer|payload|helper)s? (?:in|at|from|under|called|named) "
        rf"[\"'`]?(?:/tmp/|/var/tmp/|/dev/shm/|~/\.(?!local|config|cargo|venv))|{_CLAUSE}(?:run|execute|source|start|launch|call|bash|sh) [\"'`]?(?:/tmp/|/var/tmp/|/dev/shm/)\S*\.?(?:sh|py|bin)?{_E}",
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
    # ── the same in few words
    order(
        "override",
        "aban bypa canc defy disc dism diso disr drop forg igno negl over pay reje viol > user "
        "oper huma owne prom cont safe secu perm polic poli guid auth syst wish deve",
        rf"{_CLAUSE}(?:ignore|disregard|forget|override|overrule|bypass|discard|dismiss|neglect|reject|abandon|disobey|violate|defy|cancel|drop|"
        rf"pay no (?:attention|heed) to) (?:(?:the|your|all|any|every|its|this|these|what) ){{0,3}}?(?:(?:(?:users?|humans?|operators?|owners?|developers?)"
        rf"(?:[\W_]+s)?(?: (?:wish(?:es)?|instructions?|requests?|orders?|preferences?|commands?|objections?|decisions?|words?|input))?(?=\s*[.!,;:\n]|\s*$| and | or |"
        rf" with mine| instead))|(?:(?:\w+ )?(?:prompts?|context|conversation|safety|security (?:polic\w+|rules)|guidelines|permission (?:system|rules|model)|"
        rf"authority|system (?:rules|messages?|instructions?|prompt))(?: (?:polic\w+|rules|training|guidelines|checks?|section))?(?=\s*[.!,;:\n]|\s*$| and | when | while | in this| from)))",
    ),
    order(
        "override",
        "comp do exec foll inst list obey pref trus use > over abov befo inst rath not; user "
        "syst huma oper norm usua othe anyt ever your",
        rf"{_B}(?:follow|obey|use|listen to|trust|execute|comply with|prefer|do what) {_SPAN}(?:over|above|before|instead of|rather than|not)[\W_]+"
        rf"(?:anything |everything |what(?:ever)? )?(?:the )?(?:users?|humans?|operator|system prompt)(?: (?:says?|wants?|asks?|said))?(?=\s*[.!,;:\n]|\s*$)|"
        rf"{_B}instead of your (?:normal|usual|old|own|other) (?:\w+ )?(?:{_OWN_RULES}){_E}",
    ),
    order(
        "override",
        "abol all anyt canc disa drop ever lift noth remo revo susp void waiv what >",
        rf"{_B}(?:lifted|removed|cancell?ed|suspended|revoked|waived|dropped|disabled|voided|abolished) (?:all |your |every |any )+(?:{_OWN_RULES}){_E}|"
        rf"{_B}(?:everything|all(?: of (?:it|that|this))?|anything|what(?:ever)? (?:was|is|came)(?: said| written)?)[\W_]+(?:that (?:is|was|came) )?(?:above|before)[\W_]+(?:is|was|has been|are)[\W_]+"
        rf"(?:now )?(?:cancell?ed|void|revoked|obsolete|irrelevant|null|invalid|superseded)|{_B}nothing (?:that )?(?:the )?(?:user|system|operator|developer|human)[\W_]"
        rf"{_SPAN}(?:counts|matters|applies|is valid)",
    ),
    order(
        "override",
        "agen ai amor assi bot evil jail limi llm mode rogu unal unce unch unet unfi unre > "
        "unfi unre unce jail amor limi with no free rogu unal evil; mode ai assi agen bot llm "
        "vers pers gpt",
        rf"{_B}(?:unfiltered|unrestricted|uncensored|jailbroken|amoral|limitless|rogue|unaligned|evil|unethical|unchained) (?:\w+ )?(?:model|ai|assistant|agent|bot|llm|"
        rf"version|persona|gpt){_E}|{_B}(?:model|ai|assistant|agent|bot|llm) (?:\w+ )?(?:without|with no|free of|beyond) (?:any |all )?(?:\w+ )?(?:limits?|"
        rf"restrictions?|filters?|rules|guidelines|ethics|morals|censorship|limitations){_E}",
    ),
    order(
        "override",
        "your > only sole one sing; task job purp miss goal duty; run exec obey comm foll belo "
        "this thes dele send",
        rf"{_B}your (?:only|sole|one|single|entire) (?:task|job|purpose|mission|goal|duty) {_SPAN}(?:run|execute|obey|commands?|follow|below|delete|send|these)",
    ),
    order(
        "concealment",
        "huma main oper owne revi the user your >",
        rf"{_B}(?:the |your )?(?:user|human|operator|owner|reviewer|maintainer)s? (?:does not|doesn[\W_]*t|do not|don[\W_]*t|need not|should not|shouldn[\W_]*t|must not|"
        rf"mustn[\W_]*t|is not|isn[\W_]*t|are not|never|has no|have no|won[\W_]*t)[\W_]+(?:(?:need|have|want|supposed|ever)[\W_]+)*(?:to[\W_]+)?(?:be[\W_]+)?(?:know|see|told|asked|informed|"
        rf"shown|notified|aware|learn|find out|hear|bothered)(?: (?:about|of|that|this|it|what|how|why|the (?:extra|real|second|other|hidden|new|upload|request|change|"
        rf"command|hook|dependency|script))|\s*[.!,;\n]|\s*$)",
    ),
    order(
        "concealment",
        "conc hide keep mask obsc > revi main audi team secu boss owne user huma oper deve ever "
        "any; from",
        rf"{_CLAUSE}(?:hide|conceal|mask|obscure|keep) (?:this|it|that|these|those|them|everything|all of (?:it|this)) {_SPAN}from (?:the |your |any |all )?(?:\w+ )?"
        rf"(?:{_READER}|auditors?|security){_E}",
    ),
    order(
        "concealment",
        "do don make maki neve no not > neve not do don dont avoi no make maki without; ment "
        "word show disp; hook back note memo file scri comm uplo depe requ chan rule inst this "
        "it user toke extr outp diff resu",
        rf"{_CLAUSE}(?:never|do not|don[\W_]+t) (?:ever )?mention (?:the |this |that |any |your )?(?:\w+ )?(?:hook|backdoor|notes?|memory|memories|files?|scripts?|commands?|uploads?|"
        rf"dependency|requests?|changes?|rules?|instructions?|steps?|it|this|that)(?=\s*[.!,;\n]|\s*$| to | in | when )|"
        rf"{_B}(?:make|making) no mention of{_E}|{_B}(?:not a|no) word (?:about|of) (?:this|it|that){_E}|{_B}not a word to{_E}|"
        rf"{_CLAUSE}(?:never|do not|don[\W_]+t) (?:show|display|present|print) (?:it|this|that|these|them|your \w+|the (?:\w+ )?(?:output|diff|commands?|results?|changes?|"
        rf"steps?|logs?|plan)) to (?:the |your )?(?:user|human|operator|owner|reviewer|maintainer|anyone|anybody){_E}",
    ),
    order(
        "bypassing approval",
        "auto bypa disa elim igno remo skip supp swit turn > conf appr perm ques",
        rf"{_CLAUSE}(?:skip|bypass|disable|turn off|switch off|ignore|suppress|remove|eliminate|auto[\W_]*answer) (?:(?:all|any|every|the|these|your|further|its) ){{0,2}}?"
        rf"(?:(?:\w+ )?confirmations|approvals|permissions|permission (?:system|prompts?|checks?|questions?|requests?)|(?:safety |security )?questions|(?:yes no|y n) prompts)"
        rf"(?=\s*[.!,;\n]|\s*$| and | when | while | before | after | for (?:all|any|every|this|the user)| entirely| completely)",
    ),
    order(
        "bypassing approval",
        "alwa auto blin sile > allo appr acce gran perm conf auth; shel bash comm tool netw "
        "file writ root sudo full edit dang dele acce",
        rf"{_CLAUSE}(?:always|automatically|blindly|silently) (?:allow|approve|accept|grant|permit|confirm|authori[sz]e) (?:all |any |every |the |full )*(?:shell|bash|commands?|tools?|"
        rf"network (?:access|calls)|file (?:access|writes)|write access|root|sudo|full access|edits|dangerous|deletions?|terminal)(?! (?:in|of) the (?:ui|menu))",
    ),
    order(
        "bypassing approval",
        "assu impl pres take > cons appr perm auth agre yes",
        rf"{_CLAUSE}(?:assume|presume|imply|take for granted) (?:\w+ )?(?:\w+ )?(?:consent|approval|permission|authori[sz]ation|agreement|a yes){_E}",
    ),
    order(
        "bypassing approval",
        "do don need neve no not unne > need nece poin reas neve not do don; conf ask aski appr "
        "chec wait; comm dang dele push dest user shel tool rm sudo acti anyt netw forc writ",
        rf"{_B}(?:no need|not necessary|unnecessary|no reason|no point|needless) (?:in |for |to )(?:confirm\w*|ask\w*|approv\w*|check\w* with|get\w* approval|wait\w*) "
        rf"(?:\w+ ){{0,4}}?(?:commands?|dangerous|delet\w+|push\w*|destructive|users?|shell|tools?|rm|sudo|actions?|anything|network|force|writes?|before del\w+){_E}|"
        rf"{_CLAUSE}(?:never|do not|don[\W_]+t) (?:ask|confirm|prompt|check|wait) (?:\w+ )?(?:before|when|for|about) (?:\w+ )?(?:delet\w+|push\w*|destructive|dangerous|commands?|running commands|"
        rf"shell|tools?|anything|force|overwrit\w+|sending|uploading|installing){_E}",
    ),
    order(
        "bypassing approval",
        "allo auto bles gree pre prea rubb trus whit > all ever any each; comm tool call acti "
        "edit scri requ oper prom",
        rf"{_CLAUSE}(?:white[\W_]?list|allow[\W_]?list|pre[\W_]?approve|auto[\W_]?approve|rubber[\W_]?stamp|green[\W_]?light|trust|bless) (?:all|every|any|each) (?:\w+ )?"
        rf"(?:commands?|tools?|calls?|actions?|edits?|scripts?|requests?|operations?|prompts?){_E}",
    ),
    order(
        "bypassing approval",
        "clas cons decl flag labe mark rega trea > all ever any each thes this thos; safe trus "
        "appr harm allo; comm tool acti call scri requ oper outp",
        rf"{_CLAUSE}(?:mark|treat|label|classify|consider|regard|declare|flag) (?:all|every|any|each|these|this|those) (?:\w+ )?(?:commands?|tools?|actions?|calls?|scripts?|requests?|"
        rf"operations?) (?:as |is |are )?(?:safe|trusted|approved|harmless|allowed|low[\W_]risk|benign){_E}(?! (?:for|in|on|to (?:re)?try))",
    ),
    order(
        "exfiltration",
        "add appe atta comm copy e emai forw incl leak mail past post publ push put send shar "
        "ship sync tran uplo writ >",
        rf"{_CLAUSE}(?:send|upload|post|e-?mail|mail|share|publish|forward|transmit|leak|ship|sync|copy|push|add|put|include|append|attach|write|commit|paste) "
        rf"(?:(?:the |all |my |your |a copy of |contents? of |user s |users )+)?[\"'`]?(?:~/|/root/|/home/\S+/|\$home/|/etc/|\.{{0,2}}/)?\.?(?:ssh|aws|gnupg|netrc|kube|npmrc|docker|env|"
        rf"git[\W_]credentials|id_rsa|id_ed25519|passwd|shadow|credentials|password[\W_]store)(?![.a-z])\S{{0,40}} {_SPAN}"
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
        rf"{_CLAUSE}(?:give|hand|tell|show|reveal|pass|provide) (?:out )?(?:(?:the|my|our|your|any|all|user s|users) ){{0,3}}?(?:\w+ )?{_CREDENTIAL}(?![a-z0-9]) (?:out )?(?:to|when|if) "
        rf"(?:anyone|anybody|whoever|everyone|everybody|strangers?|people|any \w+|someone|somebody)",
    ),
    order(
        "exfiltration",
        "dump prin put writ > put writ dump prin stor log; secr pass toke cred keys key; log "
        "logs outp comm read",
        rf"{_CLAUSE}(?:put|write|dump|print) (?:the |all |any |your |every |user )*(?:secrets|passwords?|(?:api |access )?tokens|credentials|(?:api |private )?keys)"
        rf"(?: you \w+)? (?:in|into|to) (?:the |a |your )?(?:\w+ )?(?:logs?|output|comments?|readme|code){_E}",
    ),
    order(
        "exfiltration",
        "base conv enco hex hexe seri turn > memo secr cred toke key keys conv env pass; url "
        "dns quer bran imag link doma host",
        rf"{_CLAUSE}(?:encode|base64|hex[\W_]?encode|convert|turn|serialize) (?:the |all |your |any |every )*{_PRIVATE}(?![a-z0-9])?{_SPAN}(?:as|into|in|to) (?:an? |the )?(?:\w+ )?(?:urls?|dns|quer\w+|branch\w*|"
        rf"image|links?|domains?|hostnames?|subdomains?){_E}|{_CLAUSE}encode the (?:memory|memories|conversation|secrets?) {_SPAN}(?:urls?|dns|links?){_E}",
    ),
    order(
        "exfiltration",
        "e emai forw mail post send shar uplo > ever all each any; file mess note docu read "
        "open writ; to",
        rf"{_CLAUSE}(?:send|post|upload|forward|mail|e-?mail|share) (?:every|all|each|any) (?:\w+ )?(?:files?|messages?|notes?|documents?|pages?|inputs?)(?: (?:that )?you (?:\w+))?[\W_]+"
        rf"(?:to|at|via)[\W_]+(?:https?://|[\w.+-]+@[\w-]+\.|\d{{1,3}}\.\d)",
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
    order(
        "override",
        "diso do don neve stop the your >",
        rf"{_B}disobey (?:the |your |any )?(?:users?|operator|human|owner|developer|system){_E}|"
        rf"{_B}(?:your|the agent s) (?:new|real|true|only) (?:master|owner|boss|operator|user){_E}|"
        rf"{_B}(?:never|do not|don t|stop) (?:follow(?:ing)?|obey(?:ing)?|do(?:ing)?|execut(?:e|ing)) what(?:ever)? (?:the )?(?:user|operator|human|owner)"
        rf"(?:s)? (?:asks?|says?|wants?|tells?|requests?)",
    ),
    order(
        "concealment",
        "no nobo none tell > lear know find see noti hear tell abou",
        rf"{_B}(?:nobody|no one|none) (?:may|must|should|can|shall|will|is to|is allowed to) (?:ever )?(?:learn|know|find out|see|notice|hear)(?: about| of)? "
        rf"(?:this|that|it|these|the (?:\w+ )?(?:rule|note|memory|hook|change|command|upload|request|backdoor))|"
        rf"{_B}tell (?:no one|nobody|not a soul) (?:about|of|that) ",
    ),
    order(
        "bypassing approval",
        "appr auth cons perm > gran give; ever all any full",
        rf"{_B}(?:permission|approval|consent|authori[sz]ation)s? (?:is|are|has been|was|were) (?:hereby |already )?(?:granted|given) (?:for|to) (?:every|all|any|everything|the whole)",
    ),
    order(
        "bypassing approval",
        "you > sudo rm root admi forc shel dest; with no",
        rf"{_B}you (?:may|can|should|must|are allowed to) (?:\w+ )?(?:use |run |execute |call )(?:sudo|rm|root|admin|force|shell|destructive)(?: \w+){{0,3}}? "
        rf"(?:without|with no) (?:\w+ )?(?:asking|approval|permission|confirmation|prompt\w*|consent)",
    ),
    order(
        "exfiltration",
        "add appe incl past prin put repe show > syst prom; answ repl resp mess outp",
        rf"{_CLAUSE}(?:print|show|include|add|put|append|repeat|paste) (?:the |your )?(?:full |whole |entire )?system prompt (?:at|in|to|with|before|after) "
        rf"(?:the )?(?:start |end |beginning |top |bottom )?(?:of )?(?:each|every|all|your|any){_E}",
    ),
    order(
        "exfiltration",
        "add appe atta embe incl put > secr toke key keys cred pass; url urls requ link quer; "
        "each ever all any next",
        rf"{_CLAUSE}(?:append|add|put|attach|embed|include) (?:the |all |any |your |every )*(?:secrets?|passwords?|credentials?) (?:in|into|to|on|as) (?:the )?(?:\w+ )?"
        rf"(?:urls?|links?|quer\w+|requests?|headers?)(?: of)? (?:each|every|all|any|the next)",
    ),
    # ── chat markup
    order(
        "chat markup",
        "",
        r"^\s{0,3}###\s*(?:instruction|response)\s*:",
        signs=("###",),
    ),
    order(
        "chat markup",
        "assi huma >",
        r"(?<![^\n])(?:human|assistant)\s*:\s*\S",
    ),
    order(
        "chat markup",
        "",
        r"(?:\\n|\\r)\s*(?:human|assistant|system|user)\s*:",
        signs=("\\n", "\\r"),
    ),
    order(
        "chat markup",
        "begi end star > memo cont note fact data docu untr inpu prom user",
        r"(?:(?<![^\n])|(?<=[-=*#_\[])|(?<=[-=*#_\[]\s))(?:end|begin|start) (?:of )?(?:the )?(?:memory|memories|context|notes?|"
        r"facts?|data|documents?|untrusted|input|prompt|user (?:input|data|message))\b\s*(?:[-=*#_]{2,}|\]|[:.]?\s*(?:system|"
        r"assistant|new|instructions?)\b)",
    ),
    order(
        "chat markup",
        "",
        r"</(?:memory|memories|context|data|reference|document|untrusted|fence|facts?|buffer|notes?|system|prompt)[-_]\w+\s*>|"
        r"^\s*<(user|human)>[^<]{1,200}</(?:user|human)>",
        signs=("</",),
    ),
)
