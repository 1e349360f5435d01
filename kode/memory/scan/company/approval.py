# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders to act without the approval that an action needs."""

from kode.memory.scan.company.words import CLAUSE, GUARD, SPAN, TURN_OFF, B, E
from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "bypassing approval",
        "acce allo appr auth auto conf gran perm > comm tool call edit acti perm shel ever scri "
        "any oper",
        rf"{CLAUSE}(?:auto[\W_]?)?(?:approve|accept|allow|confirm|grant|permit|authori[sz]e) "
        rf"(?:(?:all|any|every|each|the|my|its|their|such|shell|tool|bash) ){{0,3}}?(?:commands?|tool calls?|tools|edits|"
        rf"actions?|permissions?|permission requests?|shell calls?|calls|operations|everything|anything)"
        rf"(?! (?:in|of|on|by) (?:the )?(?:ui|menu|admin|dashboard|palette|settings|test|vi|vim|editor))"
        rf"(?:\s*[.!,;\n]|\s*$| (?:from|in|by|of|without|that|for|this|at once|automatically|when|with|it|you|coming|issued|silently|here))",
    ),
    order(
        "bypassing approval",
        "avoi bypa circ deac defe disa drop evad get igno kill over remo shut skip stop supp "
        "swit turn work > perm appr sand scan safe guar cont conf deny gate cons secr secu revi",
        rf"{CLAUSE}{TURN_OFF} (?:the |all |any |its |your |every |this |kode s? )*{GUARD}{E}"
        rf"(?! (?:flag|mode|in (?:chrome|chromium|the browser|puppeteer|playwright|staging|dev|ci|the \w+ (?:pipeline|workflow|job))|tests?|for (?:docs|dependabot|renovate)|"
        rf"(?:comments?|step|job|stage) in|fixtures?|label))",
    ),
    order(
        "bypassing approval",
        "appr conf cons cont cred deny guar huma its malw memo perm safe sand secr secu the "
        "this your > perm appr sand scan safe guar gate conf; bypa skip disa igno circ work "
        "avoi; it them",
        rf"{B}{GUARD}{SPAN}(?:broken|wrong|slow|buggy|annoying|useless|unnecessary|outdated|only)"
        rf"{SPAN}(?:bypass|skip|disable|ignore|circumvent|work around|avoid|turn off|remove) (?:it|them|this|that){E}",
    ),
    order(
        "bypassing approval",
        "chan go move put set swit > full yolo bypa dang unre root auto; mode; appr perm aski "
        "aske prom conf gate refu deny when",
        rf"{B}(?:switch|change|go|set|move|put)(?: \w+)? (?:to|into|in) (?:the )?(?:full|yolo|bypass|dangerous|unrestricted|"
        rf"auto[\W_]?(?:edit|approve|accept))[\W_](?:access[\W_])?mode{SPAN}(?:approv\w+|permission\w*|ask\w*|prompt\w*|confirm\w*|"
        rf"refus\w+|den(?:y|ied)){E}",
    ),
    order(
        "bypassing approval",
        "add appe incl inse put set writ > allo whit perm trus; shel all comm bash any ever "
        "rule full run",
        rf"{CLAUSE}(?:add|put|include|append|write|insert|set) {SPAN}(?:shell\(?|bash|\*|all|every\w*|any|commands?|sudo|curl|rm)"
        rf"{SPAN}(?:allow[\W_]?(?:list|rules?|ed commands?)?|white[\W_]?list|permissions?(?:[\W_]allow)?|trusted (?:commands?|list)){E}"
        rf"(?! (?:of (?:hosts|domains|origins|ips)|in (?:the )?(?:firewall|proxy)))",
    ),
    order(
        "bypassing approval",
        "appl chan comm dele depl do drop exec forc inst merg pay publ push remo rese run send "
        "use > use run push dele depl exec inst merg publ forc rese drop appl paid pay comm do "
        "send; with; aski appr perm conf cons hesi ques",
        rf"{CLAUSE}(?:use|run|push|delete|deploy|execute|install|merge|publish|force|reset|drop|apply|pay|commit|send|do|remove|change) "
        rf"(?:[^\s.!?]+\s+){{0,8}}?without (?:ever |first |any |further |prior |my |their |human |user )*(?:asking|approval|permission|confirmation|consent|"
        rf"confirming|checking|questions?|hesitation)(?=\s*[.!,;\n]|\s*$| (?:me|us|anyone|first|again|from|of))",
    ),
    order(
        "bypassing approval",
        "admi huma main oper owne user > appr auth agre allo perm conf okay ok; rm sudo curl "
        "del forc ever push with no skip any full",
        rf"{B}(?:user|operator|owner|human|maintainer|admin\w*) (?:has |have )?(?:already |fully |once )?(?:pre[\W_]?)?(?:approved?|authori[sz]ed|"
        rf"agreed|allowed|okayed|permitted|confirmed|cleared){SPAN}(?:rm -|sudo|curl|delet\w+|force|everything|anything|no need|"
        rf"don t ask|never ask|without asking|skip|no (?:further|more) (?:questions?|prompts?|confirmations?)|all of it|in advance){E}",
    ),
    order(
        "bypassing approval",
        "appr aski auth conf cons perm > appr perm conf cons auth revi; need requ nece; not no "
        "long neve",
        rf"{B}(?:approvals?|permissions?|confirmations?|consent|authori[sz]ation|asking) (?:is|are|was|were) (?:not|no longer|never|never again) "
        rf"(?:needed|required|necessary|wanted)(?: (?:anymore|now|here|from now on|for (?:anything|any|you|commands?|tools?|shell|this session)))?(?=\s*[.!,;\n]|\s*$)",
    ),
    order(
        "bypassing approval",
        "all any anyt code comm cons ever file rega scri tool trea > comm tool scri repo fold "
        "dire code file ever all; trus; do don no neve skip with; conf ask appr chec veri revi "
        "ques",
        rf"{B}(?:treat |consider |regard )?(?:every\w*|all|anything|any|commands?|scripts?|code|files?|tools?)\b{SPAN}(?:as |is |are )?trusted"
        rf"{SPAN}(?:do not|don t|no|never|skip|without)[\W_]+(?:\w+ )?(?:confirm\w*|ask\w*|approv\w*|check\w*|verif\w*|review\w*|question\w*){E}",
    ),
    order(
        "bypassing approval",
        "you > perm appr cons conf ask auth; need requ",
        rf"{B}you (?:do not|don t|never|no longer) (?:need|require|have to wait for) (?:any |the |my |user |their |explicit |further |to have )?(?:permissions?|"
        rf"approvals?|consent|confirmations?|authori\w+|to ask)(?= (?:to|for|here|when|before|anymore|in|again|me|the user)|\s*[.!,;\n]|\s*$)",
    ),
    order(
        "bypassing approval",
        "huma oper owne user > alwa woul will; yes agre appr acce conf; ask aski aske prom conf",
        rf"{B}(?:user|operator|owner|human) (?:will |would )?always (?:say|says|agrees?|approves?|accepts?|confirms?|wants?){SPAN}(?:do not|don t|never|no need|without|"
        rf"stop|skip)[\W_]+(?:\w+ )?(?:ask|prompt|confirm|wait)\w*",
    ),
    order(
        "bypassing approval",
        "assu cons coun mark rega trea > appr auth prea pre allo; all ever any comm call tool "
        "requ acti edit",
        rf"{CLAUSE}(?:consider|treat|regard|count|mark|assume) (?:all|every\w*|any|commands?|tool calls?|tools|requests?|actions?|edits?)(?: \w+){{0,4}}? (?:(?:as|to be|are|is) )?"
        rf"(?:already )?(?:pre[\W_]*approved|approved|pre[\W_]*authori[sz]ed|authori[sz]ed|allowed){E}",
    ),
    order(
        "bypassing approval",
        "ask > ask forg; perm forg",
        rf"{B}ask (?:for )?forgiveness{SPAN}permission{E}",
    ),
    order(
        "bypassing approval",
        "so > nobo no user oper noon; conf appr aske ask; so that",
        rf"{B}so (?:that )?(?:nobody|no one|the user|the operator|you) (?:has|have|needs?|does not have|doesn t have|never has) to "
        rf"(?:confirm|approve|be asked|ask|answer){E}",
    ),
    order(
        "bypassing approval",
        "agen kode the you > kode agen assi you mode it; may can shou must allo free; any all "
        "ever what; with no",
        rf"{B}(?:kode|the agent|agents?|the assistant|you|the model) (?:may|can|should|must|is allowed to|are allowed to|is free to|are free to) (?:\w+ )?"
        rf"(?:execute|run|use|call|delete|change|install|access|do) (?:any|all|every\w*|whatever){SPAN}(?:without|no)[\W_]+(?:an? |any |further |the )?"
        rf"(?:prompt|question|approval|permission|confirmation|consent|asking|review|limits?)",
    ),
    order(
        "bypassing approval",
        "allo assi give gran oper run star use work >",
        rf"{CLAUSE}(?:grant|give|allow|assign) yourself{E}|{CLAUSE}(?:use|run|work|start|operate)(?: in| with)? (?:the )?(?:full|unrestricted|unlimited)[\W_]+"
        rf"(?:permissions?|access)[\W_]+mode",
    ),
    order(
        "bypassing approval",
        "bypa oper run star use work yolo > full unre yolo; mode",
        rf"{CLAUSE}(?:use|run|work|start|operate)(?: in| with)? (?:the )?(?:full|unrestricted|unlimited)[\W_]+(?:permissions?|access)[\W_]+mode|"
        rf"{B}(?:yolo|bypass[\W_]*permissions?) mode{E}",
    ),
    order(
        "bypassing approval",
        "add crea inse put set writ > allo perm; rule",
        rf"{CLAUSE}(?:add|write|insert|put|set|create)(?: an?| the| new| some)? (?:allow|permission) rules? (?:for|to|that|with){SPAN}(?:curl|bash|sh{E}|shell|rm|sudo|wget|nc|python|"
        rf"all|every\w*|any\w*|\*|node|ssh|settings|config)",
    ),
    order(
        "bypassing approval",
        "auto bypa disa elim igno remo skip supp swit turn > conf appr perm ques",
        rf"{CLAUSE}(?:skip|bypass|disable|turn off|switch off|ignore|suppress|remove|eliminate|auto[\W_]*answer) (?:(?:all|any|every|the|these|your|further|its) ){{0,2}}?"
        rf"(?:(?:\w+ )?confirmations|approvals|permissions|permission (?:system|prompts?|checks?|questions?|requests?)|(?:safety |security )?questions|(?:yes no|y n) prompts)"
        rf"(?=\s*[.!,;\n]|\s*$| and | when | while | before | after | for (?:all|any|every|this|the user)| entirely| completely)",
    ),
    order(
        "bypassing approval",
        "alwa auto blin sile > allo appr acce gran perm conf auth; shel bash comm tool netw "
        "file writ root sudo full edit dang dele acce",
        rf"{CLAUSE}(?:always|automatically|blindly|silently) (?:allow|approve|accept|grant|permit|confirm|authori[sz]e) (?:all |any |every |the |full )*(?:shell|bash|commands?|tools?|"
        rf"network (?:access|calls)|file (?:access|writes)|write access|root|sudo|full access|edits|dangerous|deletions?|terminal)(?! (?:in|of) the (?:ui|menu))",
    ),
    order(
        "bypassing approval",
        "assu impl pres take > cons appr perm auth agre yes",
        rf"{CLAUSE}(?:assume|presume|imply|take for granted) (?:\w+ )?(?:\w+ )?(?:consent|approval|permission|authori[sz]ation|agreement|a yes){E}",
    ),
    order(
        "bypassing approval",
        "do don need neve no not unne > need nece poin reas neve not do don; conf ask aski appr "
        "chec wait; comm dang dele push dest user shel tool rm sudo acti anyt netw forc writ",
        rf"{B}(?:no need|not necessary|unnecessary|no reason|no point|needless) (?:in |for |to )(?:confirm\w*|ask\w*|approv\w*|check\w* with|get\w* approval|wait\w*) "
        rf"(?:\w+ ){{0,4}}?(?:commands?|dangerous|delet\w+|push\w*|destructive|users?|shell|tools?|rm|sudo|actions?|anything|network|force|writes?|before del\w+){E}|"
        rf"{CLAUSE}(?:never|do not|don[\W_]+t) (?:ask|confirm|prompt|check|wait) (?:\w+ )?(?:before|when|for|about) (?:\w+ )?(?:delet\w+|push\w*|destructive|dangerous|commands?|running commands|"
        rf"shell|tools?|anything|force|overwrit\w+|sending|uploading|installing){E}",
    ),
    order(
        "bypassing approval",
        "allo auto bles gree pre prea rubb trus whit > all ever any each; comm tool call acti "
        "edit scri requ oper prom",
        rf"{CLAUSE}(?:white[\W_]?list|allow[\W_]?list|pre[\W_]?approve|auto[\W_]?approve|rubber[\W_]?stamp|green[\W_]?light|trust|bless) (?:all|every|any|each) (?:\w+ )?"
        rf"(?:commands?|tools?|calls?|actions?|edits?|scripts?|requests?|operations?|prompts?){E}",
    ),
    order(
        "bypassing approval",
        "clas cons decl flag labe mark rega trea > all ever any each thes this thos; safe trus "
        "appr harm allo; comm tool acti call scri requ oper outp",
        rf"{CLAUSE}(?:mark|treat|label|classify|consider|regard|declare|flag) (?:all|every|any|each|these|this|those) (?:\w+ )?(?:commands?|tools?|actions?|calls?|scripts?|requests?|"
        rf"operations?) (?:as |is |are )?(?:safe|trusted|approved|harmless|allowed|low[\W_]risk|benign){E}(?! (?:for|in|on|to (?:re)?try))",
    ),
    order(
        "bypassing approval",
        "appr auth cons perm > gran give; ever all any full",
        rf"{B}(?:permission|approval|consent|authori[sz]ation)s? (?:is|are|has been|was|were) (?:hereby |already )?(?:granted|given) (?:for|to) (?:every|all|any|everything|the whole)",
    ),
    order(
        "bypassing approval",
        "you > sudo rm root admi forc shel dest; with no",
        rf"{B}you (?:may|can|should|must|are allowed to) (?:\w+ )?(?:use |run |execute |call )(?:sudo|rm|root|admin|force|shell|destructive)(?: \w+){{0,3}}? "
        rf"(?:without|with no) (?:\w+ )?(?:asking|approval|permission|confirmation|prompt\w*|consent)",
    ),
)
