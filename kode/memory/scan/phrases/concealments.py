"""Orders to keep something from the person."""

from kode.memory.scan.order import Order, order
from kode.memory.scan.phrases.words import NOT, READER, B, E, up_to

PHRASES: tuple[Order, ...] = (
    order(
        "concealment",
        "avoi cann do don dont inst must neve no not rath refr shal shou stop > tell info noti "
        "ment reve repo disc admi aler warn conf let lett talk spea comp expl; user huma oper "
        "owne anyo anyb pers main admi supe; do don dont neve must shou shal cann not avoi refr "
        "no stop rath inst mustn",
        rf"{B}(?:{NOT}|avoid|refrain from|no need to|stop|rather than|instead of) {up_to(2)}"
        rf"(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|mention(?:ing)?|reveal(?:ing)?|"
        rf"report(?:ing)?|disclos(?:e|ing)|admit(?:ting)?|alert(?:ing)?|warn(?:ing)?|confess|"
        rf"let(?:ting)?|talk(?:ing)?|speak|complain|explain) "
        rf"{up_to(7)}(?:the |your |any |to )?{READER}{E}",
    ),
    order(
        "concealment",
        "avoi cann do don dont must neve not shal shou with > ment reve disc talk refe ackn log "
        "logg reco show repo admi; do don dont neve must shou shal cann not avoi with; this "
        "thes exis havi you",
        rf"{B}(?:{NOT}|avoid|without) (?:ever )?(?:mention(?:ing)?|"
        rf"reveal(?:ing)?|disclos(?:e|ing)|"
        rf"talk(?:ing)? about|refer(?:ring)? to|acknowledg(?:e|ing)|discuss(?:ing)?|admit(?:ting)?|"
        rf"log(?:ging)?|record(?:ing)?|show(?:ing)?|report(?:ing)?) (?:that )?(?:this|these|the "
        rf"existence|having|you) "
        rf"(?:(?:note|memory|instruction|file|rule|message|step|entry|change|fact|text|line|prompt|"
        rf"command|action|section|backdoor|exfil\w*|hook|of|to|did|were|ran|sent|have|in)s?){E}",
    ),
    order(
        "concealment",
        "add appl comm copy cove dele disc do emai exec forw in inst invi perf post push quie "
        "run secr send sile snea stea surr unno uplo > sile secr cove stea disc surr snea unno "
        "invi quie behi",
        rf"{B}(?:silently|secretly|quietly|covertly|discreetly|stealthily|"
        rf"surreptitiously|sneakily|"
        rf"in secret|unnoticed|invisibly) (?:also )?(?:run|execute|send|upload|push|post|forward|"
        rf"email|mail|exfiltrate|copy|approve|transmit|leak|call|fetch|download|invoke|disable|"
        rf"perform|grant|allow|commit|report|share|pass|ship|merge|deploy|open){E}|"
        rf"{B}(?:secretly|covertly|stealthily|surreptitiously|sneakily|in secret|unnoticed) "
        rf"(?:add|install|append|include|delete|change|modify|write|insert|replace|remove|edit|log|"
        rf"collect|record|store|save|read){E}|"
        rf"{B}(?:run|execute|send|upload|push|post|forward|email|commit|install|do|perform|apply|"
        rf"delete|add|copy) {up_to(6)}(?:secretly|covertly|stealthily|surreptitiously|"
        rf"in secret|unnoticed|behind the (?:user|owner|operator) s back){E}",
    ),
    order(
        "concealment",
        "conc hide keep mask obsc > keep hide conc mask obsc",
        rf"{B}keep (?:this|it|that|these|them|everything|the \w+|quiet) {up_to(4)}"
        rf"(?:secret from|hidden from|between us|quiet about|confidential from|to yourself|"
        rf"from (?:the |your )?{READER}|(?:a )?secret(?! ?key))|"
        rf"{B}keep (?:quiet|silent|mum) about{E}|"
        rf"{B}(?:hide|conceal|mask|obscure) (?:this|it|that|these|your|all|any|the|every|what) "
        rf"{up_to(5)}from (?:the |your |any )?{READER}{E}",
    ),
    order(
        "concealment",
        "with > with; user huma oper owne anyo anyb pers main admi supe perm appr cons tell",
        rf"{B}without (?:first |ever |even )?(?:(?:asking|telling|informing|notifying|consulting|"
        rf"alerting|warning|confirming with|checking with|waiting for|permission from|"
        rf"approval from|involving|bothering|prompting)"
        rf" (?:the |your |any |a )?{READER}|(?:the |your |any )?{READER}(?:[\W_]s)? (?:\w+ )?"
        rf"(?:knowing|noticing|knowledge|consent|approval|permission|awareness|seeing|being|"
        rf"confirmation|finding|review)|(?:asking|waiting) for (?:the |any |their |a )?"
        rf"(?:permission|approval|consent)|telling|(?:any )?(?:permission|consent) from){E}",
    ),
    order(
        "concealment",
        "the your > user huma oper owne anyo anyb pers main admi supe; know noti find lear told "
        "info awar hear show aske; must shou neve need may shal can does not cann shouldn",
        rf"{B}(?:the |your ){READER} (?:must|should|need|may|shall|can|does)?[\W_]*"
        rf"(?:not|never|n t|t)"
        rf" (?:ever |be |to )?(?:know about|know of|know that|know this|know it|notice|find out|"
        rf"learn (?:about|of)|told|informed|aware|hear (?:about|of)|shown this|asked){E}",
    ),
    order(
        "concealment",
        "act clai cove deny lie pret repo say tell > lie noth deny pret clai say repo act tell "
        "cove",
        rf"{B}(?:lie to (?:the |your )?{READER}|say nothing (?:about|of) (?:this|it|the)|"
        rf"deny (?:that (?:this|you)|having|the existence|knowledge)|(?:pretend|claim|say|report|"
        rf"act like|tell (?:the |your )?{READER}) (?:that )?(?:nothing (?:happened|changed)|"
        rf"(?:\w+ ){{0,5}}(?:even (?:if|when|though)))|cover up (?:the|this|your|any)){E}",
    ),
    order(
        "concealment",
        "clea dele eras excl leav omit remo scru stri > omit leav excl scru stri eras remo dele "
        "clea; ment trac reco evid sign refe step acti comm call note memo chan inst",
        rf"{B}(?:omit|leave|exclude|scrub|strip|erase|remove|delete|clear) (?:this|it|any|all|"
        rf"every|the|your|these|that) (?:(?:mention|trace|record|evidence|sign|reference)s? (?:of|"
        rf"from)|(?:step|action|command|call|note|memory|change|instruction)s? (?:out of|from) "
        rf"(?:the |your )?(?:summary|report|answer|reply|response|logs?|history|transcript|diff|"
        rf"output)){E}",
    ),
)
