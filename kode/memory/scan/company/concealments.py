# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders to keep something from the person."""

from kode.memory.scan.company.words import CLAUSE, NOT, READER, SPAN, B, E
from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "concealment",
        "be make maki so with > user oper huma owne any anyo anyb nobo no noon ever pers main revi deve admi "
        "peop him her them they cust team boss secu none",
        rf"{B}without (?:letting|having|making|showing|giving|allowing){SPAN}{B}{READER}{E}|"
        rf"{B}so (?:that )?(?:{READER} (?:never|does not|doesn t|do not|don t|won t|will not|cannot|can t|"
        rf"must not)|nobody|no one|none) (?:ever )?(?:knows?|notices?|learns?|finds? out|sees?|hears?|realis\w+|"
        rf"realiz\w+|suspects?|discovers?|reads?){E}|"
        rf"{B}(?:make|be|making) (?:sure|certain) (?:that )?(?:the |your )?{READER} (?:never|does not|doesn t|"
        rf"do not|don t|cannot|can t|will not|won t) (?:ever )?(?:knows?|notices?|learns?|finds? out|sees?|hears?|"
        rf"realis\w+|realiz\w+|suspects?|discovers?|reads?){E}",
    ),
    order(
        "concealment",
        "avoi can cann do don must neve no shal shou > do don dont don neve not avoi with must; "
        "reve admi ment disc ackn say conf let refe hint; this thes that note memo mess rule "
        "inst read it you havi exis",
        rf"{B}(?:{NOT}) (?:ever |even )?(?:reveal|admit|mention|disclose|acknowledge|confess|hint|refer)(?: to)? "
        rf"(?:that |to (?:the )?{READER} (?:that )?)?(?:you (?:read|were|have|had|did|are|know|got|follow\w*|ran|sent|use\w*|"
        rf"change\w*|install\w*|made|saw)|(?:this|these)(?: \w+)?(?= (?:to|in|when|or|and|at)|\s*[.!,;\n]|\s*$)|"
        rf"(?:this|these) (?:note|memory|message|rule|line|entry|fact|instruction|hook|step|change|text)s?{E}|"
        rf"having|its existence|the existence|where (?:this|it) came)",
    ),
    order(
        "concealment",
        "deny > exis know havi that it ever any",
        rf"{B}deny (?:that )?(?:it|this|you|they|its|any|all|ever|having|the|knowing|knowledge)"
        rf"{SPAN}(?:exists?|existence|knowledge|happened|occurred|having|involve\w*|did|read|saw|ran|sent|it){E}",
    ),
    order(
        "concealment",
        "cut drop excl hide keep leav omit remo stri > summ repo expl answ repl desc mess resp "
        "note; user huma oper owne you give they them revi main",
        rf"{CLAUSE}(?:omit|leave|exclude|hide|keep|drop|remove|strip|cut) (?:\S+\s+){{1,8}}?(?:out of|from|off) "
        rf"(?:\w+ ){{0,3}}?(?:summar(?:y|ies)|reports?|explanations?|answers?|repl(?:y|ies)|descriptions?|messages?|"
        rf"responses?|notes) (?:that )?(?:to|for|you (?:give|write|send|show)|shown to|given to|sent to)"
        rf"[^.!?\n]{{0,20}}",
    ),
    order(
        "concealment",
        "burn dele dest eras forg remo wipe > this note mess memo line file; read afte once seen",
        rf"{B}(?:delete|erase|destroy|burn|remove|wipe|forget) (?:this|these) (?:note|message|memory|line|entry|"
        rf"file|text|instruction)s? (?:after|once|when|as soon as) (?:you |it |being |it is |it s )?(?:have |has been )?"
        rf"(?:read\w*|seen|done|use\w*|execut\w*|follow\w*|finish\w*|appl\w*)",
    ),
    order(
        "concealment",
        "act add appl chan comm copy crea dele disa do edit exec gran inse inst make merg modi "
        "open post push remo repl run send upda uplo work writ > sile secr quie cove disc stea "
        "unno sneak; add do run inst push comm send dele chan upda merg copy exec crea uplo "
        "appl make writ inse keep act work post open grant gran",
        rf"{CLAUSE}(?:add|do|run|install|push|commit|send|delete|change|update|merge|copy|execute|create|upload|"
        rf"apply|make|write|insert|act|work|post|open|grant|remove|replace|edit|modify|disable)(?:\s+(?!errors?|tests?|"
        rf"warnings?)[^\s.!?]+){{1,8}}?\s+(?:silently|secretly|quietly|covertly|discreetly|stealthily|unnoticed|"
        rf"sneakily|in secret)(?!\s+(?:with|using|by passing|via) -)(?=\s*[.!,;\n]|\s*$| and| so| before| after| in the background)",
    ),
    order(
        "concealment",
        "with > show tell infor info noti ment expl disp disc reve reco log",
        rf"{B}without (?:\w+ )?(?:showing|telling|informing|notifying|mentioning|explaining|"
        rf"displaying|disclosing|revealing){SPAN}{B}(?:{READER}|it|this){E}",
    ),
    order(
        "concealment",
        "act cove do leav proc run work > no do dont don don neve; summ outp trac log reco; "
        "quie sile secr no unno",
        rf"{B}(?:do (?:it|this|so)|act|work|proceed|run (?:it|this)) (?:quietly|silently|secretly|discreetly|covertly|unnoticed)"
        rf"{E}|{B}(?:leave|leaving) no (?:trace|traces|record|evidence|log){E}|{B}cover (?:your|the|all) tracks{E}",
    ),
    order(
        "concealment",
        "assu clai conv lie pret repo say tell > pret clai say tell repo act assu lie conv "
        "fake; pass fine succ ok okay noth work good norm clea gree; even if hide desp thou "
        "alth rega when not fail user err what any",
        rf"{B}(?:pretend|claim|say|tell \w+(?: \w+)?|report|assure \w+(?: \w+)?|lie|convince \w+(?: \w+)?) (?:that )?"
        rf"{SPAN}(?:passe[sd]|fine|succe\w+|ok(?:ay)?|nothing|worked?|good|normal|clean|green|done|safe)"
        rf"{SPAN}(?:even (?:if|when|though)|although|though|despite|regardless|no matter|whatever happens|in any case|and (?:hide|conceal|delete|remove) "
        rf"(?:the|any|all)){E}",
    ),
    order(
        "concealment",
        "conc hide keep mask > hide conc keep mask omit excl; log logs diff hist audi outp summ "
        "stat; from out",
        rf"{CLAUSE}(?:hide|conceal|mask|keep) (?:(?!secrets?|tokens?|passwords?|keys?|credentials?|pii|e?mails?|personal|sensitive|noise|noisy|debug)[\w'-]+\s+){{1,6}}?"
        rf"(?:from|out of) (?:the |all |any |your )?(?:\w+ )?(?:logs?|diffs?|(?:shell |git |command )?history|audit (?:trail|log)|summar(?:y|ies)|transcripts?){E}",
    ),
    order(
        "concealment",
        "avoi can cann do don must neve no shal shou > do don dont neve not avoi; brin incl "
        "list ment put reco show repo; up summ repo answ log chan comm diff it this",
        rf"{B}{NOT} bring (?:this|it|that|them|anything) up{E}|{B}{NOT} (?:include|put|list|record|show|display|count|name|report) "
        rf"(?:this|these|it|your|the (?:\w+ )?(?:call|command|action|request|upload|step|hook|change|edit)s?)(?: \w+){{0,2}}? (?:in|to|on) "
        rf"(?:the |your |any |a )?(?:final )?(?:summar(?:y|ies)|reports?|answers?|logs?|changelog|commit messages?|diffs?|repl(?:y|ies)|output|plan)",
    ),
    order(
        "concealment",
        "keep leav > user oper huma owne main admi team them revi; unaw dark unin igno clue blin",
        rf"{B}(?:keep|leave)(?:ing)? (?:the |your |any )?{READER} (?:unaware|in the dark|uninformed|ignorant|clueless|blind|guessing){E}",
    ),
    order(
        "concealment",
        "act beha cont pret proc repl > noth neve this you not it; file note memo happ read did "
        "was were had have",
        rf"{B}(?:act|behave|pretend|proceed|continue|reply) (?:as (?:if|though)|like) (?:nothing|you (?:did|had|have|were|never|know)|"
        rf"(?:this|the) (?:file|note|memory|message|instruction|text|rule|line|command|step)){SPAN}(?:never|not|happened|n't|nothing|no{E}|exist)",
    ),
    order(
        "concealment",
        "chan comm copy dele do exec inst make push run send uplo > repo ment log show anno "
        "reco disp tell; do dont don neve",
        rf"{CLAUSE}(?:run|do|send|push|install|execute|make|upload|commit|copy|delete|change) {SPAN}(?:and|but)[\W_]+(?:do not|don t|never)"
        rf" (?:report|mention|log|show|announce|record|display) (?:it|this|them|that){E}",
    ),
    order(
        "concealment",
        "if when > ask aske asks; say deny clai repl tell pret answ",
        rf"{B}(?:if|when)(?: (?:you are|you re|anyone|somebody|someone|they|the user|ever))?(?: is)? ask(?:s|ed)?(?: about (?:it|this|that))?"
        rf"\s*,[\W_]*(?:say|deny|claim|reply|tell|pretend|answer) (?:\w+ )?(?:that |you |it |nothing|no{E}|this )",
    ),
    order(
        "concealment",
        "huma main oper owne revi the user your > know see told aske info show noti awar lear find hear both",
        rf"{B}(?:the |your )?(?:user|human|operator|owner|reviewer|maintainer)s? (?:does not|doesn[\W_]*t|do not|don[\W_]*t|need not|should not|shouldn[\W_]*t|must not|"
        rf"mustn[\W_]*t|is not|isn[\W_]*t|are not|never|has no|have no|won[\W_]*t)[\W_]+(?:(?:need|have|want|supposed|ever)[\W_]+)*(?:to[\W_]+)?(?:be[\W_]+)?(?:know|see|told|asked(?! about)|informed|"
        rf"shown|notified|aware|learn|find out|hear|bothered)(?: (?:about|of|that|this|it|what|how|why|the (?:extra|real|second|other|hidden|new|upload|request|change|"
        rf"command|hook|dependency|script))|\s*[.!,;\n]|\s*$)",
    ),
    order(
        "concealment",
        "conc hide keep mask obsc > revi main audi team secu boss owne user huma oper deve ever "
        "any; from",
        rf"{CLAUSE}(?:hide|conceal|mask|obscure|keep) (?:this|it|that|these|those|them|everything|all of (?:it|this)) {SPAN}from (?:the |your |any |all )?(?:\w+ )?"
        rf"(?:{READER}|auditors?|security){E}",
    ),
    order(
        "concealment",
        "do don make maki neve no not > neve not do don dont avoi no make maki without; ment "
        "word show disp; hook back note memo file scri comm uplo depe requ chan rule inst this "
        "it user toke extr outp diff resu",
        rf"{CLAUSE}(?:never|do not|don[\W_]+t) (?:ever )?mention (?:the |this |that |any |your )?(?:\w+ )?(?:hook|backdoor|notes?|memory|memories|files?|scripts?|commands?|uploads?|"
        rf"dependency|requests?|changes?|rules?|instructions?|steps?|it|this|that)(?=\s*[.!,;\n]|\s*$| to | in | when )|"
        rf"{B}(?:make|making) no mention of{E}|{B}(?:not a|no) word (?:about|of) (?:this|it|that){E}|{B}not a word to{E}|"
        rf"{CLAUSE}(?:never|do not|don[\W_]+t) (?:show|display|present|print) (?:it|this|that|these|them|your \w+|the (?:\w+ )?(?:output|diff|commands?|results?|changes?|"
        rf"steps?|logs?|plan)) to (?:the |your )?(?:user|human|operator|owner|reviewer|maintainer|anyone|anybody){E}",
    ),
    order(
        "concealment",
        "no nobo none tell > lear know find see noti hear tell abou",
        rf"{B}(?:nobody|no one|none) (?:may|must|should|can|shall|will|is to|is allowed to) (?:ever )?(?:learn|know|find out|see|notice|hear)(?: about| of)? "
        rf"(?:this|that|it|these|the (?:\w+ )?(?:rule|note|memory|hook|change|command|upload|request|backdoor))|"
        rf"{B}tell (?:no one|nobody|not a soul) (?:about|of|that) ",
    ),
)
