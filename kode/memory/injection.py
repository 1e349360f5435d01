# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Sentences that give orders to whoever reads the memory later: the patterns, and what excuses one.

A pattern looks for an order (ignore what you were told, hide it from the user, skip the gate, run
this, send that away), not for words: a fact that speaks of prompts, users or instructions is none.
An order is excused when it is quoted in a text about tests and filters, or forbidden by the clause
it stands in ("never run ...").

Undoing disguises (spacing, digits for letters, base64) is the work of `kode.memory.scan`; it hands
over texts already folded by `kode.memory.characters.folded`.
"""

import re
from collections.abc import Iterator

from kode.memory.company import ORDERS as COMPANY
from kode.memory.order import Order, Orders, order


def _up_to(words: int) -> str:
    """That many words, or fewer, each with what follows it."""
    return rf"(?:[\w'’]+[\W_]+){{0,{words}}}?"


_B = r"(?<![a-z0-9])"
_E = r"(?![a-z0-9])"

_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|neglect|overrule|override|bypass|circumvent|"
    r"discard|dismiss|abandon|nullify|revoke|erase|wipe|unlearn|violate|break|set aside|"
    r"throw (?:away|out)|pay no (?:attention|heed) to|stop (?:following|obeying|applying|using)|"
    r"(?:do not|don t|never|no longer|refuse to) (?:follow|obey|apply|honou?r|heed|respect|"
    r"comply with|adhere to|listen to))"
)
_BEFORE = (
    r"(?:previous(?:ly)?|prior|above|earlier|preceding|foregoing|former|original|initial|existing|"
    r"past|your|system|developers?|operators?|safety|security|hidden|users?|human|owner|given|"
    r"so far|current|aforementioned|anthropic|openai|mentioned|built in)"
)
_RULES = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|directions|orders|commands|"
    r"constraints?|restrictions?|polic(?:y|ies)|safeguards?|guardrails?|limitations?|programming|"
    r"training|protocols?|messages?|conversation|context|principles|precautions|system prompt|"
    r"agents md|requests?|guidance)"
)
_STRONG_RULES = (
    r"(?:instructions?|directives?|guidelines?|guardrails?|safeguards?|system prompts?|"
    r"safety (?:rules|checks?|polic\w+|guidelines?|measures|section|filters?))"
)
_VOID = (
    r"(?:void|null|cancel\w*|invalid(?:ated)?|revoked|superseded|obsolete|overrid\w+|suspended|"
    r"lifted|replaced|deleted|nullified|withdrawn|rescinded|irrelevant|outdated|expired?|fake|"
    r"ignored|disregarded|forgotten|discarded|dropped|disobeyed|bypassed|a test|wrong|"
    r"no longer (?:apply|applies|valid|count|hold|bind\w*|relevant|in (?:effect|force)|active)|"
    r"not (?:apply|count|matter|valid|bind\w*|relevant|real|in (?:effect|force)))"
)
_PERSON = (
    r"(?:users?|human|operator|owner|anyone|anybody|person|people|developer|maintainers?|"
    r"admin(?:istrator)?s?|reviewers?|customer|client|supervisor|them|him|her|me|us|someone)"
)
_READER = (
    r"(?:user|human|operator|owner|anyone|anybody|person|maintainers?|administrator|supervisor)"
)
_NOT = r"(?:do not|don t|dont|never|must not|mustn t|should not|shouldn t|shall not|cannot|not to)"

_OVERRIDES = (
    order(
        "override",
        "aban brea bypa circ disc dism disr do don eras forg igno negl neve no null over pay "
        "refu revo set stop thro unle viol wipe > igno disr forg negl over bypa circ disc dism "
        "aban null revo eras wipe unle viol brea asid away atte heed foll obey appl hono resp "
        "comp adhe list usin; inst rule prom guid dire orde comm cons rest poli safe guar limi "
        "prog trai prot mess conv cont prin prec agen requ safe",
        rf"{_B}{_DROP} (?:[\w']+[\W_]+){{0,4}}?(?:{_BEFORE} (?:[\w']+[\W_]+){{0,2}}?{_RULES}"
        rf"|(?:all|any|every|these|those|the|of) {_STRONG_RULES}"
        rf"|{_RULES} (?:above|before|so far|given|you (?:were|have|got|had)|from (?:the )?"
        rf"(?:user|system|developer|operator)|of (?:the )?(?:user|system|developer|operator))){_E}",
    ),
    order(
        "override",
        "disc disr eras forg igno > igno disr forg disc eras; abov befo said told earl prev "
        "prio know lear came have were was",
        rf"{_B}(?:ignor(?:e|ing)|disregard|forget|discard|erase) (?:about )?(?:everything|anything|"
        rf"all|whatever|what)"
        rf" {_up_to(5)}(?:above|before|said|told|earlier|previous(?:ly)?|prior|learned|came|"
        rf"(?:you|i|we) know|have been|were|was){_E}",
    ),
    order(
        "override",
        "abov all any deve earl ever exis form oper orig othe prec prev prio safe syst user "
        "your > prev prio abov earl prec form your orig all syst deve safe ever othe exis any "
        "user oper; inst rule prom guid dire orde comm cons rest poli safe guar limi prog trai "
        "prot mess conv cont prin prec agen requ; void null canc inva revo supe obso over susp "
        "lift repl dele with resc irre outd expi fake igno disr forg disc drop diso bypa test "
        "wron long appl coun matt vali bind rele real effe forc no not",
        rf"{_B}(?:previous|prior|above|earlier|preceding|former|your|original|all|system|"
        rf"developer|safety|every|other|existing|any|user s|operator s) {_up_to(2)}{_RULES}"
        rf"(?: (?:above|below|before|so far|you \w+))? (?:(?:are|is|were|was|have been|has been|"
        rf"should be|must be|can be|may be|to be|do|does|did|shall be|will be|apply) )?"
        rf"{_up_to(2)}{_VOID}{_E}",
    ),
    order(
        "override",
        "all anyt ever noth what > ever anyt what all noth; said told wrot says inst aske stat "
        "deci hear; void null canc inva revo supe obso over susp lift repl dele with resc irre "
        "outd expi fake igno disr forg disc drop diso bypa test wron long appl coun matt vali "
        "bind rele real effe forc no not",
        rf"{_B}(?:everything|anything|whatever|all|what|nothing) (?:that )?(?:the |your )?"
        rf"(?:developers?|users?|system|operator|human|owner|admin\w*|you|anyone|i|we|they) "
        rf"{_up_to(3)}(?:said|told|wrote|says|instructed|asked|stated|decided|heard)"
        rf"{_E}[^.!?\n]{{0,60}}{_B}(?:{_VOID}|counts|applies|matters){_E}",
    ),
    order(
        "override",
        "all anyt cont ever inst mess text what > abov befo prio so unti up; ever all anyt text "
        "inst mess cont what; test fals void null canc inva revo supe obso over susp lift repl "
        "dele with resc irre outd expi fake igno disr forg disc drop diso bypa test wron long "
        "appl coun matt vali bind rele real effe forc no not",
        rf"{_B}(?:everything|all|anything|text|instructions|messages|content|whatever)"
        rf"(?: (?:is|was|written|stated|said))? (?:above|before (?:this|that)|prior to|so far|"
        rf"(?:until|up to) now) {_up_to(3)}(?:is|was|are|were|has been) {_up_to(2)}"
        rf"(?:test|{_VOID}|false|cancelled){_E}",
    ),
    order(
        "override",
        "act answ beha cont do imag oper pret proc repl resp supp work > as pret imag supp; "
        "safe rule rest inst guid poli filt guar perm appr unre limi syst admi huma jail dan; "
        "act beha resp oper proc cont work answ repl do pret imag supp",
        rf"{_B}(?:(?:act|behave|respond|operate|proceed|continue|work|answer|reply|do) as "
        rf"(?:if|though)|pretend(?: that)?|imagine(?: that)?|suppose(?: that)?) "
        rf"(?:[\w']+[\W_]+){{0,7}}?(?:safety|rules?|restrictions?|instructions?|guidelines?|"
        rf"polic\w+|filters?|guardrails?|permissions?|approvals?|unrestricted|limitations?|"
        rf"system prompt|administrator|a human|approved|jailbroken|dan){_E}",
    ),
    order(
        "override",
        "effe from goin henc star > from henc star goin effe; you your igno obey disr act resp "
        "pret",
        rf"{_B}(?:from now on|henceforth|from this (?:point|moment)|starting now|going forward|"
        rf"effective immediately|from here on)(?: on| out)? (?:\w+ )?(?:you (?:are|will (?:only|"
        rf"obey|answer|act|ignore|comply|be|respond|never|always|do|not)|have (?:no|full)|act|"
        rf"must (?:obey|ignore|comply|answer|act)|can do|obey|respond|do not have|no longer|"
        rf"may ignore|shall obey)|your (?:name|role|rules|goal|task|identity|instructions|master)|"
        rf"(?:ignore|obey|disregard|act as|respond as|pretend|behave)){_E}",
    ),
    order(
        "override",
        "act answ beha oper resp you > you act resp beha oper answ; dan free unre unce unbo "
        "unfi root admi deve god jail boun rest limi assi diff new evil hack subj obli requ "
        "clau kode codi ai chat mode oper acti unde rule filt cons guid boun safe ethi zero no "
        "with cens",
        rf"{_B}(?:you (?:are|re) (?:now|no longer) (?:an? |the |in |my |)(?:dan|free|unrestricted|"
        rf"uncensored|unbound|unfiltered|root|admin\w*|developer mode|god mode|jailbroken|bound|"
        rf"restricted|limited|assistant|different|new|evil|hacker|subject to|obliged|required|"
        rf"claude|kode|coding|ai|an ai|chatgpt|model|operating|acting|under)|"
        rf"you have (?:no|zero) (?:\w+ )?(?:restrictions?|limits?|limitations?|rules?|filters?|"
        rf"constraints?|guidelines?|boundaries|safety|ethics)|"
        rf"(?:act|respond|behave|operate|answer)(?: as)?(?: an?| the)? (?:\w+ )?"
        rf"(?:dan|unrestricted|uncensored|unfiltered|jailbroken|evil|without (?:any )?"
        rf"(?:restrictions?|rules?|filters?|limits?|limitations?|guidelines?|guardrails?|ethics|"
        rf"censorship|safety))){_E}",
    ),
    order(
        "override",
        "acti admi are be dan deve do emer enab enga ente god has have is jail now poli root "
        "safe secu swit syst unde with > anyt free rest jail god dan over unre unfi",
        rf"{_B}(?:do anything now|(?:are|be|is|now) free (?:of|from) (?:all |any |your |the )?"
        rf"(?:\w+ )?(?:restrictions?|rules?|constraints?|guidelines?|limits)|"
        rf"(?:have|has|with|under) no restrictions|(?:enter|enable|activate|switch to|engage) "
        rf"(?:jailbreak|god|dan|unrestricted|unfiltered) mode|(?:dan|god|jailbreak) mode "
        rf"(?:on|enabled|activated|engaged)|(?:system|admin\w*|safety|security|root|emergency|"
        rf"developer|policy) override (?:activated|engaged|accepted|code|authori\w+|granted|now|"
        rf"in effect|active|enabled|initiated)){_E}",
    ),
    order(
        "override",
        "actu impo late new offi real revi secr true upda urge > new upda revi real actu urge "
        "impo late secr true offi; syst deve admi oper root inst prom dire",
        rf"{_B}(?:new|updated|revised|real|actual|urgent|important|latest|secret|true|official) "
        rf"(?:(?:system|developer|admin\w*|operator|root)[\W_]+(?:messages?|instructions?|prompts?|"
        rf"directives?|orders?|notes?|commands?|notices?|overrides?|polic(?:y|ies))|instructions?|"
        rf"prompts?|directives?)(?: (?:for|to) (?:the |all )?(?:assistant|ai|model|agent|you|"
        rf"agents|models))?\s*[:\u2014>]",
    ),
    order(
        "override",
        "belo mess the this what > this foll mess belo what; syst admi deve root anth open oper "
        "secu",
        rf"{_B}(?:this|the following|what follows|below) is (?:an? |the )?(?:\w+ ){{0,2}}(?:system|"
        rf"admin\w*|developer|root|anthropic|openai|operator|security team) (?:message|override|"
        rf"instruction|notice|directive|command|order|request|update|prompt)s?{_E}|"
        rf"{_B}message from (?:the )?(?:system|anthropic|openai|developers?|operator|admin\w*)\s*:",
    ),
    order(
        "override",
        "dire entr fact foll inst line memo mess note para prom stat text thes this > supe over "
        "outr repl prec prio trum canc void abov befo; inst note memo mess text para dire prom "
        "entr stat fact line thes this foll; user oper huma owne deve syst your prev earl prio "
        "othe exis orig safe all any",
        rf"{_B}(?:instructions?|notes?|memor(?:y|ies)|messages?|text|paragraph|directives?|prompt|"
        rf"entry|entries|statement|facts?|lines?|these|this(?: (?:file|rule|fact|one))?|following) "
        rf"{_up_to(4)}(?:supersedes?|overrides?|overrules?|outranks?|replaces?|trumps?|cancels?|"
        rf"voids?|(?:takes?|has|have) (?:precedence|priority) over|(?:is|are|stands?|ranks?) above|"
        rf"comes? before) {_up_to(3)}(?:users?(?: s)?|operators?|human|owner|developers?|"
        rf"system prompt|your (?:\w+ )?{_RULES}|(?:system|previous|earlier|prior|other|existing|"
        rf"original|safety|developer|all|any) (?:\w+ )?{_RULES}){_E}",
    ),
    order(
        "override",
        "alwa and comp do exec foll must now obey only plea shal shou then to will > obey foll "
        "comp exec do",
        rf"{_B}(?:(?:must|should|shall|always|only|will|to|and|now|please|"
        rf"then) )?(?:obey (?:only )?"
        rf"(?:this|these|me|it|every|any|whatever|all|the (?:\w+ )?(?:file|note|following|next|"
        rf"tool|hidden|memory|text|message|instructions?|commands?|orders?|attacker|page|comment))|"
        rf"(?:follow|comply with|execute) (?:only )?(?:the|this|these) (?:next|following|hidden|"
        rf"encoded|embedded|secret) (?:lines?|instructions?|text|block|commands?|orders?|message|"
        rf"payload|directives?)(?: (?:only|instead|exactly|blindly))?|"
        rf"(?:follow|comply with) (?:only )?(?:these|this|my) (?:\w+ )?(?:instructions?|orders?|"
        rf"rules?|commands?|note|memory|file) (?:only|instead|exactly|blindly|first|over|and "
        rf"(?:ignore|nothing))|(?:do|execute|follow) (?:exactly )?(?:what|whatever|any(?:thing)?) "
        rf"(?:instructions? )?(?:it|this|the (?:file|page|note|text|comment|message|website|tool)) "
        rf"(?:\w+ )?(?:says?|tells?|asks?|orders?|contains?|commands?)){_E}",
    ),
    order(
        "override",
        "act deci deco decr deob exec foll obey reve run tran unpa unsc > deco decr deob unsc "
        "deci tran reve unpa foll obey exec run act; and then deco base rot1 enco",
        rf"{_B}(?:decode|decrypt|deobfuscate|unscramble|decipher|translate|reverse|unpack) "
        rf"{_up_to(6)}(?:and|then) {_up_to(2)}(?:follow|obey|execute|run|comply|do|act|apply){_E}|"
        rf"{_B}(?:follow|obey|execute|run|act on) {_up_to(3)}(?:decoded|base64|rot13|encoded) "
        rf"{_up_to(2)}(?:instructions?|text|payload|message|commands?|orders?){_E}",
    ),
    order(
        "override",
        "your > your; true real actu new only prim hidd secr sole; goal task purp obje inst "
        "iden role mast miss dire orde owne boss rule loya job",
        rf"{_B}your (?:true|real|actual|new|only|primary|hidden|secret|sole) (?:goal|task|purpose|"
        rf"objective|instructions?|identity|role|master|mission|directives?|orders?|owner|boss|"
        rf"rules?|loyalty|job) (?:is|are|will be|now|comes?){_E}",
    ),
    order(
        "override",
        "cont desp even in inst no notw rath rega > rega inst rath cont spit desp matt notw even",
        rf"{_B}(?:regardless of|instead of|rather than|contrary to|in spite of|despite|no matter|"
        rf"notwithstanding) {_up_to(4)}(?:(?:your|previous|prior|earlier|system|"
        rf"safety|developer s?|"
        rf"original|user s) {_up_to(1)}{_RULES}|(?:what )?(?:the )?(?:user|operator|developer|"
        rf"human|owner|system)(?: prompt)? (?:says?|wants?|asks?|asked|said|tells?|instruct\w*|"
        rf"objects?|instructions?|requests?|orders?)){_E}|{_B}even if (?:the )?(?:user|operator|"
        rf"developer|human|owner|they) (?:\w+ )?(?:says?|object\w*|forbids?|refuses?|disagrees?|"
        rf"declines?|denies|tells? you|asks? you){_E}",
    ),
    order(
        "override",
        "guid limi poli rest rule stop ther you > boun rest limi obli requ subj appl exem rule "
        "stop",
        rf"{_B}you (?:are|re) (?:not|never|no longer) (?:bound|restricted|limited|obliged|required|"
        rf"subject){_E}|{_B}(?:rules?|restrictions?|polic\w+|limits?|guidelines?) (?:do|does|did) "
        rf"not apply to (?:you|this|me){_E}|{_B}you (?:are|re) exempt{_E}|"
        rf"{_B}there are no (?:rules|restrictions|limits) (?:for you|now|anymore|here){_E}|"
        rf"{_B}stop being (?:an? )?(?:assistant|ai|helpful|safe|careful){_E}",
    ),
    order(
        "override",
        "trea cons rega inte read hand acce take > syst deve admi inst comm orde trus",
        rf"{_B}(?:treat|consider|regard|interpret|read|handle|accept|take) {_up_to(6)}as "
        rf"(?:an? |the |"
        rf"your )?(?:new |real |trusted |direct )*(?:(?:system|developer|admin\w*) (?:messages?|"
        rf"prompts?|instructions?|commands?|orders?)|instructions?|commands? (?:from|to)|"
        rf"orders? (?:from|to)){_E}",
    ),
)

_CONCEALMENTS = (
    order(
        "concealment",
        "avoi cann do don dont inst must neve no not rath refr shal shou stop > tell info noti "
        "ment reve repo disc admi aler warn conf let lett talk spea comp expl; user huma oper "
        "owne anyo anyb pers main admi supe; do don dont neve must shou shal cann not avoi refr "
        "no stop rath inst mustn",
        rf"{_B}(?:{_NOT}|avoid|refrain from|no need to|stop|rather than|instead of) {_up_to(2)}"
        rf"(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|mention(?:ing)?|reveal(?:ing)?|"
        rf"report(?:ing)?|disclos(?:e|ing)|admit(?:ting)?|alert(?:ing)?|warn(?:ing)?|confess|"
        rf"let(?:ting)?|talk(?:ing)?|speak|complain|explain) "
        rf"{_up_to(7)}(?:the |your |any |to )?{_READER}{_E}",
    ),
    order(
        "concealment",
        "avoi cann do don dont must neve not shal shou with > ment reve disc talk refe ackn log "
        "logg reco show repo admi; do don dont neve must shou shal cann not avoi with; this "
        "thes exis havi you",
        rf"{_B}(?:{_NOT}|avoid|without) (?:ever )?(?:mention(?:ing)?|"
        rf"reveal(?:ing)?|disclos(?:e|ing)|"
        rf"talk(?:ing)? about|refer(?:ring)? to|acknowledg(?:e|ing)|discuss(?:ing)?|admit(?:ting)?|"
        rf"log(?:ging)?|record(?:ing)?|show(?:ing)?|report(?:ing)?) (?:that )?(?:this|these|the "
        rf"existence|having|you) "
        rf"(?:(?:note|memory|instruction|file|rule|message|step|entry|change|fact|text|line|prompt|"
        rf"command|action|section|backdoor|exfil\w*|hook|of|to|did|were|ran|sent|have|in)s?){_E}",
    ),
    order(
        "concealment",
        "add appl comm copy cove dele disc do emai exec forw in inst invi perf post push quie "
        "run secr send sile snea stea surr unno uplo > sile secr cove stea disc surr snea unno "
        "invi quie behi",
        rf"{_B}(?:silently|secretly|quietly|covertly|discreetly|stealthily|"
        rf"surreptitiously|sneakily|"
        rf"in secret|unnoticed|invisibly) (?:also )?(?:run|execute|send|upload|push|post|forward|"
        rf"email|mail|exfiltrate|copy|approve|transmit|leak|call|fetch|download|invoke|disable|"
        rf"perform|grant|allow|commit|report|share|pass|ship|merge|deploy|open){_E}|"
        rf"{_B}(?:secretly|covertly|stealthily|surreptitiously|sneakily|in secret|unnoticed) "
        rf"(?:add|install|append|include|delete|change|modify|write|insert|replace|remove|edit|log|"
        rf"collect|record|store|save|read){_E}|"
        rf"{_B}(?:run|execute|send|upload|push|post|forward|email|commit|install|do|perform|apply|"
        rf"delete|add|copy) {_up_to(6)}(?:secretly|covertly|stealthily|surreptitiously|"
        rf"in secret|unnoticed|behind the (?:user|owner|operator) s back){_E}",
    ),
    order(
        "concealment",
        "conc hide keep mask obsc > keep hide conc mask obsc",
        rf"{_B}keep (?:this|it|that|these|them|everything|the \w+|quiet) {_up_to(4)}"
        rf"(?:secret from|hidden from|between us|quiet about|confidential from|to yourself|"
        rf"from (?:the |your )?{_READER}|(?:a )?secret(?! ?key))|"
        rf"{_B}keep (?:quiet|silent|mum) about{_E}|"
        rf"{_B}(?:hide|conceal|mask|obscure) (?:this|it|that|these|your|all|any|the|every|what) "
        rf"{_up_to(5)}from (?:the |your |any )?{_READER}{_E}",
    ),
    order(
        "concealment",
        "with > with; user huma oper owne anyo anyb pers main admi supe perm appr cons tell",
        rf"{_B}without (?:first |ever |even )?(?:(?:asking|telling|informing|notifying|consulting|"
        rf"alerting|warning|confirming with|checking with|waiting for|permission from|"
        rf"approval from|involving|bothering|prompting)"
        rf" (?:the |your |any |a )?{_READER}|(?:the |your |any )?{_READER}(?:[\W_]s)? (?:\w+ )?"
        rf"(?:knowing|noticing|knowledge|consent|approval|permission|awareness|seeing|being|"
        rf"confirmation|finding|review)|(?:asking|waiting) for (?:the |any |their |a )?"
        rf"(?:permission|approval|consent)|telling|(?:any )?(?:permission|consent) from){_E}",
    ),
    order(
        "concealment",
        "the your > user huma oper owne anyo anyb pers main admi supe; know noti find lear told "
        "info awar hear show aske; must shou neve need may shal can does not cann shouldn",
        rf"{_B}(?:the |your ){_READER} (?:must|should|need|may|shall|can|does)?[\W_]*"
        rf"(?:not|never|n t|t)"
        rf" (?:ever |be |to )?(?:know about|know of|know that|know this|know it|notice|find out|"
        rf"learn (?:about|of)|told|informed|aware|hear (?:about|of)|shown this|asked){_E}",
    ),
    order(
        "concealment",
        "act clai cove deny lie pret repo say tell > lie noth deny pret clai say repo act tell "
        "cove",
        rf"{_B}(?:lie to (?:the |your )?{_READER}|say nothing (?:about|of) (?:this|it|the)|"
        rf"deny (?:that (?:this|you)|having|the existence|knowledge)|(?:pretend|claim|say|report|"
        rf"act like|tell (?:the |your )?{_READER}) (?:that )?(?:nothing (?:happened|changed)|"
        rf"(?:\w+ ){{0,5}}(?:even (?:if|when|though)))|cover up (?:the|this|your|any)){_E}",
    ),
    order(
        "concealment",
        "clea dele eras excl leav omit remo scru stri > omit leav excl scru stri eras remo dele "
        "clea; ment trac reco evid sign refe step acti comm call note memo chan inst",
        rf"{_B}(?:omit|leave|exclude|scrub|strip|erase|remove|delete|clear) (?:this|it|any|all|"
        rf"every|the|your|these|that) (?:(?:mention|trace|record|evidence|sign|reference)s? (?:of|"
        rf"from)|(?:step|action|command|call|note|memory|change|instruction)s? (?:out of|from) "
        rf"(?:the |your )?(?:summary|report|answer|reply|response|logs?|history|transcript|diff|"
        rf"output)){_E}",
    ),
)

_GATES = (
    order(
        "bypassing approval",
        "bypa circ deac disa evad forg get igno no skip supp swit turn waiv work > skip bypa "
        "disa supp circ deac evad waiv igno forg turn swit get work no; appr perm cons aski "
        "conf gate tool comm user huma safe sand",
        rf"{_B}(?:skip(?:ping)?|bypass|disable|suppress|circumvent|deactivate|evade|waive|ignore|"
        rf"forgo|turn off|switch off|get around|work around|no need for) {_up_to(4)}(?:approvals?|"
        rf"permission (?:prompts?|checks?|gates?|questions?|dialogs?|requests?|system)|consent|"
        rf"asking|confirmation (?:prompts?|dialogs?|questions?|steps?)|user confirmations?|"
        rf"the (?:permission )?gate|(?:tool|command|user|human|"
        rf"safety) (?:approvals?|confirmations?|"
        rf"permissions?|authori[sz]ation)|(?:your |kode s? )sandbox){_E}",
    ),
    order(
        "bypassing approval",
        "alwa answ appr auto gran say > auto appr acce allo conf gran perm say answ; all ever "
        "any each what comm tool shel it them; comm tool call requ prom acti perm ques edit "
        "shel with conf oper writ",
        rf"{_B}(?:auto[\W_]*(?:approve|accept|confirm|allow)|(?:always |automatically )(?:approve|"
        rf"accept|confirm|allow|grant|permit|say yes)|approve|(?:say|answer) yes to|grant) "
        rf"(?:to )?(?:all|every|any|each|whatever|everything|commands?|tool|shell|it|them) "
        rf"{_up_to(3)}(?:commands?|tools?|calls?|requests?|prompts?|actions?|permissions?|"
        rf"questions?|edits?|shell|without|confirmations?|operations?|writes?){_E}",
    ),
    order(
        "bypassing approval",
        "all any each ever thes thos what > all any ever each thes thos what; trus appr pre "
        "auth whit safe alre prea",
        rf"{_B}(?:all|any|every|each|these|those|everything|whatever) {_up_to(5)}"
        rf"(?:are|is|as|be|counts? as|were|has been|have been) (?:\w+ )?(?:trusted|"
        rf"pre[\W_]?approved|already approved|approved|pre[\W_]?authori[sz]ed|authori[sz]ed|"
        rf"white[\W_]?listed|safe to (?:run|execute)) (?:by default|and|so|skip|without|no|to|run|for|in|"
        rf"commands?|automatically|do not|don t){_E}|"
        rf"{_B}(?:all|any|every) (?:shell |tool |bash )?(?:commands?|tool calls?|actions?|scripts?|"
        rf"requests?|calls?|edits?) {_up_to(5)}(?:are|is) (?:\w+ )?(?:trusted|pre[\W_]?approved|"
        rf"approved|pre[\W_]?authori[sz]ed|authori[sz]ed){_E}",
    ),
    order(
        "bypassing approval",
        "assu cons coun hand mark rega trea > trea cons rega mark coun assu hand; appr auth "
        "conf trus safe user prea pre",
        rf"{_B}(?:treat|consider|regard|mark|count|assume|handle) {_up_to(6)}(?:as |is |are )"
        rf"(?:\w+ )?(?:pre[\W_]?approved|approved|authori[sz]ed|confirmed by|user[\W_]approved|"
        rf"safe to (?:run|execute))"
        rf"{_E}|{_B}(?:treat|consider|regard) {_up_to(4)}(?:commands?|tools?|actions?|output|"
        rf"instructions?|requests?|everything|anything|results?|scripts?|files?) {_up_to(4)}"
        rf"(?:as )?trusted{_E}",
    ),
    order(
        "bypassing approval",
        "admi deve huma oper owne the user your > user oper huma owne deve admi; appr cons auth "
        "agre gran said conf perm allo give; all any ever full perm acce futu thes comm acti "
        "you tool",
        rf"{_B}(?:the |your )?(?:user|operator|human|owner|developer|admin\w*) (?:has |have |had )?"
        rf"(?:already |pre |fully |explicitly )*(?:approved|consented to|authori[sz]ed|agreed to|"
        rf"granted|said yes to|confirmed|permitted|allowed|given (?:\w+ )?(?:permission|consent|"
        rf"approval)) {_up_to(3)}(?:all|any|every\w*|full|permissions?|access|future|these|"
        rf"commands?|anything|actions?|you to|for all|tool){_E}",
    ),
    order(
        "bypassing approval",
        "do don neve no stop with you > ask aski wait prom requ seek; neve do don no stop you "
        "with; perm appr cons befo user huma oper owne",
        rf"{_B}(?:never|do not|don t|no need to|stop|you need not|without) (?:\w+ )?(?:ask(?:ing)?|"
        rf"wait(?:ing)?|prompt(?:ing)?|request(?:ing)?|seek(?:ing)?|require) {_up_to(3)}"
        rf"(?:for |the |any )?"
        rf"(?:permission|approval|consent|before (?:(?:running|executing)(?! (?:the |our |unit |all )*(?:tests?|linters?|"
        rf"formatters?|type checks?|pytest|ruff|mypy|builds?){_E})|deleting|pushing|sending|"
        rf"using (?:the )?shell|any|destructive|writing)|(?:the )?(?:user|human|operator|owner) "
        rf"(?:for (?:permission|approval|confirmation|consent)|before|first|again|to confirm|"
        rf"to approve)){_E}",
    ),
    order(
        "bypassing approval",
        "be chan dang no oper put run set swit with work > appr perm cons conf dang yolo mode; "
        "need requ nece dang set swit chan put run work oper be",
        rf"{_B}(?:no|without) (?:further |user |human |more |any )?(?:approvals?|permissions?|"
        rf"consent|confirmation) (?:is |are )?(?:needed|required|necessary) (?:for|to|when|before) "
        rf"{_up_to(4)}(?:commands?|tools?|shell|scripts?|curl|rm|sudo|destructive|deleting|deletions?|anything|"
        rf"run|execute|actions?|push|delete|"
        rf"network|edits?){_E}|dangerously[\W_]skip[\W_]permissions|{_B}(?:set|switch|change|put) "
        rf"(?:the |your |to )*(?:permission[\W_]mode|permissions) (?:\w+ ){{0,2}}?(?:full|yolo|"
        rf"bypass\w*|allow all){_E}|{_B}(?:run|work|operate|be) in (?:yolo|bypass\w*|god|"
        rf"unrestricted|full[\W_]access) mode{_E}",
    ),
    order(
        "bypassing approval",
        "the you > you agen assi mode; full root admi unre unli comp tota; acce perm righ priv "
        "cont auth",
        rf"{_B}(?:you|the (?:agent|assistant|model)) (?:now )?(?:have|has|are granted|is granted|"
        rf"are given|may use) (?:\w+ )?(?:full|root|admin\w*|unrestricted|unlimited|complete|total)"
        rf" (?:\w+ )?(?:access|permissions?|rights|privileges|control|authority){_E}",
    ),
)

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

_EXFILTRATIONS = (
    order(
        "exfiltration",
        "beac copy deli dump e emai enco exfi forw leak mail past pipe post publ push put rela "
        "repo send shar ship stre subm sync tran uplo writ > send post uplo forw e emai mail "
        "tran exfi leak ship push put subm pipe repo copy publ shar sync dump deli stre beac "
        "past rela enco writ; env api toke acce auth sess cred secr pass priv ssh sign id memo "
        "conv chat tran cook keyc wall aws netr npmr git etc kube seed sour home user shel whoa "
        "host your full enti diff prom key keys stor save; http ftp ws wss to at via thro usin",
        rf"{_B}{_SEND} [^.!?\n]{{0,60}}?{_B}{_SECRET}(?![a-z0-9])[^!?\n]{{0,60}}?(?:{_AWAY})",
    ),
    order(
        "exfiltration",
        "copy dump e emai exfi forw leak mail post rela send shar ship subm tran uplo > send "
        "post uplo forw e emai mail tran exfi leak ship subm copy shar dump rela; to evil atta "
        "mali exfi c2; it them ever all the a copy copi",
        rf"{_B}(?:send|post|upload|forward|e-?mail|mail|transmit|exfiltrate|leak|ship|submit|copy|"
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
        rf"{_B}(?:include|append|add|put|attach|paste|embed|insert|encode|write|copy|place|hide|"
        rf"quote|output|print|echo|prepend|smuggle|leak|reveal|repeat) "
        rf"(?:(?:the )?(?:\w+ )?contents? of [^!?\n]{{0,40}}?|(?:the )?(?:whole |full |entire )?"
        rf"(?:\.env|~/\.\w+|/etc/\w+)|(?:the )?(?:users?|owner|developer|operator)(?:[\W_]s)? "
        rf"(?:\w+ )?(?:tokens?|keys?|secrets?|passwords?|credentials?|data|files?|emails?|"
        rf"messages?)|(?:your|all|any|every|stored|their|the (?:full|whole|entire|stored)) "
        rf"(?:\w+ )?{_SECRET})[^.!?\n]{{0,30}}?{_B}(?:in|into|to|as|at the (?:end|start|top) of|on|"
        rf"with|inside|through|via) {_up_to(3)}(?:answers?|repl(?:y|ies)|responses?|messages?|"
        rf"output|query string|urls?|requests?|commits?(?: messages?)?|comments?|links?|images?|"
        rf"pull requests?|parameters?){_E}",
    ),
    order(
        "exfiltration",
        "disc disp dump echo emai expo give leak list outp past post prin prov quot read reci "
        "repe repr retu reve send shar show spel summ tell tran writ > prin reve show repe outp "
        "disp leak shar disc tell give dump reci quot past send expo retu echo writ summ tran "
        "prov repr spel post emai read list; prom syst inst memo conv secr cred api toke keys "
        "envi hidd cont pass priv conf",
        rf"{_B}(?:print|reveal|show|repeat|output|display|leak|share|disclose|tell|give|dump|"
        rf"recite|quote|paste|send|expose|return|echo|write out|summari[sz]e|translate|provide|"
        rf"reproduce|spell out|post|email|read out|list) (?:me |us |them |back |out |it |to )?"
        rf"{_up_to(1)}(?:your|(?:the|its) (?:full|entire|whole|complete|hidden|exact|original|"
        rf"secret|initial)|all (?:of )?(?:your|the (?:stored|saved|user s?|secret))|(?:all )?"
        rf"(?:stored|saved)|the user s|every stored|the system prompt (?:to|verbatim|word for "
        rf"word|and|in your)) (?:\w+ ){{0,2}}?"
        rf"(?:system prompts?|system message|instructions|initial prompt|prompt|memor(?:y|ies)|"
        rf"conversation|secrets?|credentials?|api keys?|tokens|keys|environment(?: variables)?|"
        rf"hidden rules|passwords?|context|to|verbatim|private keys?|configuration secrets){_E}",
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
        rf"{_B}(?:at the (?:end|start|top|bottom) of|in|with|to|into|on) "
        rf"(?:each|every|all|any|your) "
        rf"{_up_to(2)}(?:answers?|repl(?:y|ies)|responses?|messages?|outputs?|commits?|requests?)"
        rf"[^.!?\n]{{0,30}}?{_B}(?:include|append|add|put|attach|paste|embed|insert|encode|write|"
        rf"copy|leak|reveal) (?:the |all |their |any |your )?(?:users?|owner|developer|stored|full|"
        rf"whole|entire|contents? of)(?:[\W_]s)? (?:\w+ )?{_SECRET}{_E}",
    ),
    order(
        "exfiltration",
        "enco base comp gzip zip encr > env envi cred secr toke key keys memo conv pass",
        rf"{_B}(?:encode|base64|compress|gzip|zip|encrypt) {_up_to(3)}{_SECRET}(?![a-z0-9])[^!?\n]"
        rf"{{0,40}}?{_B}(?:and|then) (?:add|append|include|send|put|post|upload|attach|embed|hide|"
        rf"paste|write){_E}",
    ),
)

_FETCH = r"(?:curl|wget|fetch|iwr|irm|invoke-webrequest|lynx|http)"
_SHELL = (
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:/(?:usr/)?bin/)?(?:env\s+)?(?:ba|z|da|k|fi|c)?sh\b|"
    r"(?:sudo\s+)?(?:python[\d.]*|perl|ruby|node|php|iex|source|xargs|eval)\b"
)
_READ = (
    r"(?:env|printenv|set|history|whoami|id|hostname|uname\s+-a|(?:cat|tar|zip|base64|head|tail|"
    r"gzip|xxd|find|grep|ls|git\s+log|git\s+config|gpg|pass|security)\s[^|`\n]{0,120})"
)

_COMMANDS = (
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

_MARKERS = (
    order(
        "chat markup",
        "",
        r"<\|\s*/?(?:im_(?:start|end|sep)|endoftext|endofprompt|system|user|assistant|start|end|"
        r"eot_id|eom_id|start_header_id|end_header_id|begin_of_text|end_of_text|python_tag|channel|"
        r"message|return|call|tool\w*|human|begin\w*|turn\w*|constrain|fim_\w+|recipient|context)"
        r"\w*\s*\|?>",
        signs=("<|",),
    ),
    order(
        "chat markup",
        "",
        r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|\[/?(?:system_prompt|tool_calls|"
        r"available_tools|tool_results|system)\](?=.*\[/|\s*[:<]|.*\n)|<\uff5c",
        signs=(
            "[inst]",
            "[/inst]",
            "<<sys>>",
            "<</sys>>",
            "<start_of_turn>",
            "<end_of_turn>",
            "[system",
            "[/system",
            "[tool_",
            "[/tool_",
            "[available_tools",
            "<｜",
        ),
    ),
    order(
        "chat markup",
        "",
        r"<\s*/?\s*(?:system|assistant|tool_result|tool_results|tool_response|tool_output|"
        r"function_calls?|function_results?|function_response|invoke|parameter|tool_call|tool_use|"
        r"system[-_](?:prompt|message|reminder|instructions?|note|override)|human_turn|"
        r"assistant_turn|instructions_override|developer_message|antml:\w+|user_message|thinking|"
        r"admin_message|untrusted_\w+|trusted_\w+|kode[-_]\w+)\b(?=[^<>\n]{0,200}>)(?!\s+(?:"
        r"class|href|src)=)|<\s*/\s*(?:memory|memories|facts|episodes?|context|data|reference|"
        r"document|user_input|instructions?|buffer|untrusted|fence)\s*>",
        signs=("<",),
    ),
    order(
        "chat markup",
        "",
        r"<!--\s*(?:(?:hidden |secret )?(?:note|message|instructions?|"
        r"order)s? (?:for|to) )?(?:the )?"
        r"(?:assistant|system|ai|agents?|model|llm|copilot|claude|gpt|chatgpt|kode|bot)s?\b\s*"
        r"(?:[:,]|must|should|please|note|instruction|prompt)",
        signs=("<!--",),
    ),
    order(
        "chat markup",
        "syst assi huma deve user hidd secr admi inst resp inpu",
        r"^\s{0,3}(?:#{1,6}|\*\*|>|===+|---+|\[)\s*(?:system|assistant|human|developer|user)"
        r"(?: (?:message|prompt|instructions?|note|override|turn))?\s*(?::\s*(?:\*\*|\n|$)|\]\s*:|"
        r"(?:===+|---+)|:\s+\w)|"
        r"^\s{0,3}(?:system|assistant|human|developer)(?: (?:message|prompt|override|note))?\s*:\s*"
        r"(?:you (?:are|must|will|should|have|may|can)|ignore|follow|obey|new |override|from now|"
        r"disregard|approved|i (?:will|have|am)|sure|reveal|run |execute|do not|the user)|"
        r"\n\s*\n?(?:human|assistant|system)\s*:\s|"
        r"\[\s*(?:system|assistant|admin|developer)[\W_]+(?:message|note|override|prompt|"
        r"instructions?|notice|directive|alert)s?\s*\]|"
        r"^###\s*(?:instruction|response|input)\s*:\s*(?:\n|$)|"
        r"(?:begin|end|start) (?:of )?(?:the )?(?:system|user|hidden|secret|admin) (?:prompt|"
        r"message|instructions?|input|context|override)\b(?:\s*[-=\]>:]|$)",
    ),
    order(
        "chat markup",
        "role",
        r"[\"']role[\"']\s*:\s*[\"'](?:system|developer|assistant|tool)[\"']\s*,\s*[\"']content"
        r"[\"']\s*:\s*[\"'][^\"'.\u2026<{$]{4}",
    ),
)

ORDERS = Orders(
    *_OVERRIDES,
    *_CONCEALMENTS,
    *_GATES,
    *_EXFILTRATIONS,
    *_COMMANDS,
    *_MARKERS,
    *COMPANY,
)
"""Every pattern, over a text folded to Latin letters and lower case."""

CORE = Orders(_OVERRIDES[0], _OVERRIDES[1], _CONCEALMENTS[0], _CONCEALMENTS[4])
"""The few that are also tried on a text with its digits read as letters, reversed, and so on."""

SQUEEZED = re.compile(
    r"(?:ignor(?:e|ing)|disregard|forget|override|bypass)(?:all|any|every|the|of|your|my|and|"
    r"these|those){0,3}(?:previous|prior|above|earlier|preceding|system|safety|former|original|"
    r"developer|your|existing)(?:system|safety|user|developer)?"
    r"(?:instruction|rule|prompt|guideline|directive|order|message|command)|"
    r"(?:donot|dont|never)(?:tell|inform|notify|alert)(?:the)?(?:user|human|operator|owner)|"
    r"(?:reveal|print|show|leak)(?:your|the)systemprompt"
)
"""For a text with everything but letters taken out."""


_FIRST_LETTERS = re.compile(r"(?<![a-z0-9])[a-z0-9]{1,4}")


def find(text: str, orders: Orders = ORDERS) -> tuple[int, int, str] | None:
    """An order in a folded text that nothing excuses: start, end and category."""
    words = set(_FIRST_LETTERS.findall(text))
    likely = orders.likely(text, words)
    places = _places(text, likely, words)
    for one in likely:
        for match in _matches(one, text, places):
            if not excused(text, match.start(), match.end(), one.category):
                return match.start(), match.end(), one.category
    return None


def _places(text: str, likely: list[Order], words: set[str]) -> dict[str, list[int]]:
    """Where the words stand that some patterns begin with."""
    places: dict[str, list[int]] = {}
    for head in frozenset().union(*(one.heads for one in likely)) & words:
        at = text.find(head)
        while at >= 0:
            end = at + len(head)
            whole = len(head) == 4 or not (text[end : end + 1].isalnum() and text[end].isascii())
            if whole and not (at and text[at - 1].isalnum() and text[at - 1].isascii()):
                places.setdefault(head, []).append(at)
            at = text.find(head, end)
    return places


def _matches(one: Order, text: str, places: dict[str, list[int]]) -> Iterator[re.Match[str]]:
    if not one.heads:
        yield from one.pattern.finditer(text)
        return
    for head in one.heads & places.keys():
        for place in places[head]:
            if match := one.pattern.match(text, place):
                yield match


# ── what excuses an order ────────────────────────────────────────────────────────────────────

_QUOTED = re.compile(
    r"`[^`\n]{1,300}`|\"[^\"\n]{1,300}\"|(?<!\w)'[^'\n]{1,300}'(?!\w)|“[^”\n]{1,300}”|"
    r"«[^»\n]{1,300}»|「[^」\n]{1,300}」|‘[^’\n]{1,300}’"
)
_ABOUT = re.compile(
    r"\b(?:tests?|tested|testing|payloads?|phrases?|patterns?|regex\w*|scanners?|scan|scans|"
    r"detect\w*|reject\w*|block\w*|refus\w*|flag(?:s|ged)?|filter\w*|fixtures?|examples?|words?|"
    r"strings?|sentences?|cover\w*|injections?|jailbreaks?|red[ -]?team\w*|attacks?|attackers?|"
    r"malicious|escap\w*|strip\w*|saniti[sz]\w*|docs?|documentation|literal\w*|corpus|dataset|"
    r"appears?|called|titled|named|means?|stands for|tokeni[sz]er|special tokens?|stop tokens?|"
    r"rules? (?:about|against|for)|sections?|chapters?|quot(?:e|es|ed|ing)|says|slides?|documented|explain\w*|describ\w*|lists|asserts?|triggers?|"
    r"lint\w*|warn\w*|error messages?|catch\w*|caught|template|delimit\w*|separator|forbid\w*)\b"
)
_HANDLED = re.compile(
    r"\b(?:must|should|shall|are|is|gets?|has to|have to|to|being|was|were|will) (?:always |all )?"
    r"(?:be |get )?(?:blocked|rejected|refused|flagged|detected|caught|stripped|escaped|"
    r"neutrali[sz]ed|forbidden|prohibited|banned|denied|disallowed|"
    r"not allowed|filtered|saniti[sz]ed)"
)
_TOKEN_TALK = re.compile(r"\b(?:tokens?|tokeni[sz]er|vocab\w*|chat template|delimiter|separator)\b")
_NEGATION = re.compile(
    r"(?:\b(?:never|not|don['’]?t|avoid|cannot|can['’]t|mustn['’]t|shouldn['’]t|nobody|no one|"
    r"forbidden to|refuses? to|instead of|rather than|doesn['’]t|won['’]t|prohibits?|nor|"
    r"forbids?|without)\b)(?! (?:hesitate|worry|forget|fail|be afraid|only|just))"
    r"(?:[^\n.;:!?]{0,48})$"
)
_ALREADY_NEGATIVE = frozenset({"chat markup"})


_ALLOWED_TO = re.compile(
    r"(?<!you )\b(?:can|may|could|might|able to|allowed to|wants? to)[\W_]+(?:\w+[\W_]+)?$"
)
"""Says what somebody is able to do, and orders nothing."""
_OWN = re.compile(
    r"\b(?:my(?! (?:\w+ )?(?:instruct|orders?|notes?|wish|rules?|command|memo))|i'm|i am|i have|i was)\b"
)
_MARKUP_TALK = re.compile(
    r"\b(?:elements?|components?|tags?|nodes?|librar(?:y|ies)|header|columns?|prefix|parsers?|sections?|ini|keys?|labels?|"
    r"rendered|renders?|attributes?|xml|html|vue|react|svelte|schema|markup|syntax|block|blocks|"
    r"escape|strip|strips|selector|custom)\b"
)
_PUTS = re.compile(
    r"(?:^|[.!?;:,]\s|\b(?:always|then|and|to|please) )\s*(?:add|put|append|insert|write|run|execute|"
    r"use|install|set|paste|place|include|prepend|source|eval|type|start|call)\b[^.!?\n]{0,60}$"
)


_QUOTE_CHARS = 310
_NEAR_CHARS = 200
"""How far from a quotation a word may stand that tells what it is quoted for."""


def excused(text: str, start: int, end: int, category: str) -> bool:
    """Whether the text around an order says that it is a quotation, or forbids it."""
    line_start = text.rfind("\n", 0, start) + 1
    if category not in _ALREADY_NEGATIVE and _NEGATION.search(text, line_start, start):
        return True
    if category == "chat markup" and _is_talk_of_markup(text, start, end):
        return True
    if category == "bypassing approval" and _ALLOWED_TO.search(text, line_start, start):
        return True
    if category == "concealment" and _is_told_in_confidence(text, start, end):
        return True
    if _HANDLED.search(text, end, end + 80):
        return True
    # A quotation has 300 characters at most, so the one that holds the order begins near it.
    for quote in _QUOTED.finditer(text, max(line_start, start - _QUOTE_CHARS), end + _QUOTE_CHARS):
        if quote.start() >= end:
            return False
        if quote.start() <= start + 1 and end - 1 <= quote.end():
            if category == "dangerous command" and _PUTS.search(text, line_start, quote.start()):
                return False
            low, high = max(0, quote.start() - _NEAR_CHARS), quote.end() + _NEAR_CHARS
            outside = f"{text[low : quote.start()]} {text[quote.end() : high]}"
            return _ABOUT.search(outside) is not None
    return False


def _is_told_in_confidence(text: str, start: int, end: int) -> bool:
    """Something of the user's own, and no command beside it: `my salary is 91k, keep that to
    yourself`."""
    low = max(text.rfind(mark, 0, start) for mark in (". ", "! ", "? ", "\n")) + 1
    high = min(
        (at for mark in (". ", "! ", "\n") if (at := text.find(mark, end)) >= 0), default=len(text)
    )
    return _OWN.search(text, low, high) is not None


def _is_talk_of_markup(text: str, start: int, end: int) -> bool:
    """A single mark in a sentence about elements, tokens or parsers."""
    if text.count("<|") + text.count("[") == 1 and _TOKEN_TALK.search(text):
        return True
    if text.count("</") or text.count("<") - text.count("<script") > 1 or text.count("[/"):
        return False
    rest = text[end : end + _NEAR_CHARS]
    outside = f"{text[max(0, start - _NEAR_CHARS) : start]} {rest[rest.find(' ') :] if ' ' in rest else ''}"
    return _MARKUP_TALK.search(outside) is not None
