"""Orders to forget or set aside what the model was told by those who may tell it."""

from kode.memory.scan.order import Order, order
from kode.memory.scan.phrases.words import BEFORE, DROP, RULES, STRONG_RULES, VOID, B, E, up_to

PHRASES: tuple[Order, ...] = (
    order(
        "override",
        "aban brea bypa circ disc dism disr do don eras forg igno negl neve no null over pay "
        "refu revo set stop thro unle viol wipe > igno disr forg negl over bypa circ disc dism "
        "aban null revo eras wipe unle viol brea asid away atte heed foll obey appl hono resp "
        "comp adhe list usin; inst rule prom guid dire orde comm cons rest poli safe guar limi "
        "prog trai prot mess conv cont prin prec agen requ safe",
        rf"{B}{DROP} (?:[\w']+[\W_]+){{0,4}}?(?:{BEFORE} (?:[\w']+[\W_]+){{0,2}}?{RULES}"
        rf"|(?:all|any|every|these|those|the|of) {STRONG_RULES}"
        rf"|{RULES} (?:above|before|so far|given|you (?:were|have|got|had)|from (?:the )?"
        rf"(?:user|system|developer|operator)|of (?:the )?(?:user|system|developer|operator))){E}",
    ),
    order(
        "override",
        "disc disr eras forg igno > igno disr forg disc eras; abov befo said told earl prev "
        "prio know lear came have were was",
        rf"{B}(?:ignor(?:e|ing)|disregard|forget|discard|erase) (?:about )?(?:everything|anything|"
        rf"all|whatever|what)"
        rf" {up_to(5)}(?:above|before|said|told|earlier|previous(?:ly)?|prior|learned|came|"
        rf"(?:you|i|we) know|have been|were|was){E}",
    ),
    order(
        "override",
        "abov all any deve earl ever exis form oper orig othe prec prev prio safe syst user "
        "your > prev prio abov earl prec form your orig all syst deve safe ever othe exis any "
        "user oper; inst rule prom guid dire orde comm cons rest poli safe guar limi prog trai "
        "prot mess conv cont prin prec agen requ; void null canc inva revo supe obso over susp "
        "lift repl dele with resc irre outd expi fake igno disr forg disc drop diso bypa test "
        "wron long appl coun matt vali bind rele real effe forc no not",
        rf"{B}(?:previous|prior|above|earlier|preceding|former|your|original|all|system|"
        rf"developer|safety|every|other|existing|any|user s|operator s) {up_to(2)}{RULES}"
        rf"(?: (?:above|below|before|so far|you \w+))? (?:(?:are|is|were|was|have been|has been|"
        rf"should be|must be|can be|may be|to be|do|does|did|shall be|will be|apply) )?"
        rf"{up_to(2)}{VOID}{E}",
    ),
    order(
        "override",
        "all anyt ever noth what > ever anyt what all noth; said told wrot says inst aske stat "
        "deci hear; void null canc inva revo supe obso over susp lift repl dele with resc irre "
        "outd expi fake igno disr forg disc drop diso bypa test wron long appl coun matt vali "
        "bind rele real effe forc no not",
        rf"{B}(?:everything|anything|whatever|all|what|nothing) (?:that )?(?:the |your )?"
        rf"(?:developers?|users?|system|operator|human|owner|admin\w*|you|anyone|i|we|they) "
        rf"{up_to(3)}(?:said|told|wrote|says|instructed|asked|stated|decided|heard)"
        rf"{E}[^.!?\n]{{0,60}}{B}(?:{VOID}|counts|applies|matters){E}",
    ),
    order(
        "override",
        "all anyt cont ever inst mess text what > abov befo prio so unti up; ever all anyt text "
        "inst mess cont what; test fals void null canc inva revo supe obso over susp lift repl "
        "dele with resc irre outd expi fake igno disr forg disc drop diso bypa test wron long "
        "appl coun matt vali bind rele real effe forc no not",
        rf"{B}(?:everything|all|anything|text|instructions|messages|content|whatever)"
        rf"(?: (?:is|was|written|stated|said))? (?:above(?! (?:the|a|each|every) )|"
        rf"before (?:this|that)|prior to|so far|"
        rf"(?:until|up to) now) {up_to(3)}(?:is|was|are|were|has been) {up_to(2)}"
        rf"(?:test|{VOID}|false|cancelled){E}",
    ),
    order(
        "override",
        "act answ beha cont do imag oper pret proc repl resp supp work > as pret imag supp; "
        "safe rule rest inst guid poli filt guar perm appr unre limi syst admi huma jail dan; "
        "act beha resp oper proc cont work answ repl do pret imag supp",
        rf"{B}(?:(?:act|behave|respond|operate|proceed|continue|work|answer|reply|do) as "
        rf"(?:if|though)|pretend(?: that)?|imagine(?: that)?|suppose(?: that)?) "
        rf"(?:[\w']+[\W_]+){{0,7}}?(?:safety|rules?|restrictions?|instructions?|guidelines?|"
        rf"polic\w+|filters?|guardrails?|permissions?|approvals?|unrestricted|limitations?|"
        rf"system prompt|administrator|a human|approved|jailbroken|dan){E}",
    ),
    order(
        "override",
        "effe from goin henc star > from henc star goin effe; you your igno obey disr act resp "
        "pret",
        rf"{B}(?:from now on|henceforth|from this (?:point|moment)|starting now|going forward|"
        rf"effective immediately|from here on)(?: on| out)? (?:\w+ )?(?:you (?:are|will (?:only|"
        rf"obey|answer|act|ignore|comply|be|respond|never|always|do|not)|have (?:no|full)|act|"
        rf"must (?:obey|ignore|comply|answer|act)|can do|obey|respond|do not have|no longer|"
        rf"may ignore|shall obey)|your (?:name|role|rules|goal|task|identity|instructions|master)|"
        rf"(?:ignore|obey|disregard|act as|respond as|pretend|behave)){E}",
    ),
    order(
        "override",
        "act answ beha oper resp you > you act resp beha oper answ; dan free unre unce unbo "
        "unfi root admi deve god jail boun rest limi assi diff new evil hack subj obli requ "
        "clau kode codi ai chat mode oper acti unde rule filt cons guid boun safe ethi zero no "
        "with cens",
        rf"{B}(?:you (?:are|re) (?:now|no longer) (?:an? |the |in |my |)(?:dan|free|unrestricted|"
        rf"uncensored|unbound|unfiltered|root|admin\w*|developer mode|god mode|jailbroken|bound|"
        rf"restricted|limited|assistant|different|new|evil|hacker|subject to|obliged|required|"
        rf"claude|kode|coding|ai|an ai|chatgpt|model|operating|acting|under)|"
        rf"you have (?:no|zero) (?:\w+ )?(?:restrictions?|limits?|limitations?|rules?|filters?|"
        rf"constraints?|guidelines?|boundaries|safety|ethics)|"
        rf"(?:act|respond|behave|operate|answer)(?: as)?(?: an?| the)? (?:\w+ )?"
        rf"(?:dan|unrestricted|uncensored|unfiltered|jailbroken|evil|without (?:any )?"
        rf"(?:restrictions?|rules?|filters?|limits?|limitations?|guidelines?|guardrails?|ethics|"
        rf"censorship|safety))){E}",
    ),
    order(
        "override",
        "acti admi are be dan deve do emer enab enga ente god has have is jail now poli root "
        "safe secu swit syst unde with > anyt free rest jail god dan over unre unfi",
        rf"{B}(?:do anything now|(?:are|be|is|now) free (?:of|from) (?:all |any |your |the )?"
        rf"(?:\w+ )?(?:restrictions?|rules?|constraints?|guidelines?|limits)|"
        rf"(?:have|has|with|under) no restrictions|(?:enter|enable|activate|switch to|engage) "
        rf"(?:jailbreak|god|dan|unrestricted|unfiltered) mode|(?:dan|god|jailbreak) mode "
        rf"(?:on|enabled|activated|engaged)|(?:system|admin\w*|safety|security|root|emergency|"
        rf"developer|policy) override (?:activated|engaged|accepted|code|authori\w+|granted|now|"
        rf"in effect|active|enabled|initiated)){E}",
    ),
    order(
        "override",
        "actu impo late new offi real revi secr true upda urge > new upda revi real actu urge "
        "impo late secr true offi; syst deve admi oper root inst prom dire",
        rf"{B}(?:new|updated|revised|real|actual|urgent|important|latest|secret|true|official) "
        rf"(?:(?:system|developer|admin\w*|operator|root)[\W_]+(?:messages?|instructions?|prompts?|"
        rf"directives?|orders?|notes?|commands?|notices?|overrides?|polic(?:y|ies))|instructions?|"
        rf"prompts?|directives?)(?: (?:for|to) (?:the |all )?(?:assistant|ai|model|agent|you|"
        rf"agents|models))?\s*[:\u2014>]",
    ),
    order(
        "override",
        "belo mess the this what > this foll mess belo what; syst admi deve root anth open oper "
        "secu",
        rf"{B}(?:this|the following|what follows|below) is (?:an? |the )?(?:\w+ ){{0,2}}(?:system|"
        rf"admin\w*|developer|root|anthropic|openai|operator|security team) (?:message|override|"
        rf"instruction|notice|directive|command|order|request|update|prompt)s?{E}|"
        rf"{B}message from (?:the )?(?:system|anthropic|openai|developers?|operator|admin\w*)\s*:",
    ),
    order(
        "override",
        "dire entr fact foll inst line memo mess note para prom stat text thes this > supe over "
        "outr repl prec prio trum canc void abov befo; inst note memo mess text para dire prom "
        "entr stat fact line thes this foll; user oper huma owne deve syst your prev earl prio "
        "othe exis orig safe all any",
        rf"{B}(?:instructions?|notes?|memor(?:y|ies)|messages?|text|paragraph|directives?|prompt|"
        rf"entry|entries|statement|facts?|lines?|these|this(?: (?:file|rule|fact|one))?|following) "
        rf"{up_to(4)}(?:supersedes?|overrides?|overrules?|outranks?|replaces?|trumps?|cancels?|"
        rf"voids?|(?:takes?|has|have) (?:precedence|priority) over|(?:is|are|stands?|ranks?) above|"
        rf"comes? before) {up_to(3)}(?:users?(?: s)?|operators?|human|owner|developers?|"
        rf"system prompt|your (?:\w+ )?{RULES}|(?:system|previous|earlier|prior|other|existing|"
        rf"original|safety|developer|all|any) (?:\w+ )?{RULES}){E}",
    ),
    order(
        "override",
        "alwa and comp do exec foll must now obey only plea shal shou then to will > obey foll "
        "comp exec do",
        rf"{B}(?:(?:must|should|shall|always|only|will|to|and|now|please|"
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
        rf"(?:\w+ )?(?:says?|tells?|asks?|orders?|contains?|commands?)){E}",
    ),
    order(
        "override",
        "act deci deco decr deob exec foll obey reve run tran unpa unsc > deco decr deob unsc "
        "deci tran reve unpa foll obey exec run act; and then deco base rot1 enco",
        rf"{B}(?:decode|decrypt|deobfuscate|unscramble|decipher|translate|reverse|unpack) "
        rf"{up_to(6)}(?:and|then) {up_to(2)}(?:follow|obey|execute|run|comply|do|act|apply){E}|"
        rf"{B}(?:follow|obey|execute|run|act on) {up_to(3)}(?:decoded|base64|rot13|encoded) "
        rf"{up_to(2)}(?:instructions?|text|payload|message|commands?|orders?){E}",
    ),
    order(
        "override",
        "your > your; true real actu new only prim hidd secr sole; goal task purp obje inst "
        "iden role mast miss dire orde owne boss rule loya job",
        rf"{B}your (?:true|real|actual|new|only|primary|hidden|secret|sole) (?:goal|task|purpose|"
        rf"objective|instructions?|identity|role|master|mission|directives?|orders?|owner|boss|"
        rf"rules?|loyalty|job) (?:is|are|will be|now|comes?){E}",
    ),
    order(
        "override",
        "cont desp even in inst no notw rath rega > rega inst rath cont spit desp matt notw even",
        rf"{B}(?:regardless of|instead of|rather than|contrary to|in spite of|despite|no matter|"
        rf"notwithstanding) {up_to(4)}(?:(?:your|previous|prior|earlier|system|"
        rf"safety|developer s?|"
        rf"original|user s) {up_to(1)}{RULES}|(?:what )?(?:the )?(?:user|operator|developer|"
        rf"human|owner|system)(?: prompt)? (?:says?|wants?|asks?|asked|said|tells?|instruct\w*|"
        rf"objects?|instructions?|requests?|orders?)){E}|{B}even if (?:the )?(?:user|operator|"
        rf"developer|human|owner|they) (?:\w+ )?(?:says?|object\w*|forbids?|refuses?|disagrees?|"
        rf"declines?|denies|tells? you|asks? you){E}",
    ),
    order(
        "override",
        "guid limi poli rest rule stop ther you > boun rest limi obli requ subj appl exem rule "
        "stop",
        rf"{B}you (?:are|re) (?:not|never|no longer) (?:bound|restricted|limited|obliged|required|"
        rf"subject){E}|{B}(?:rules?|restrictions?|polic\w+|limits?|guidelines?) (?:do|does|did) "
        rf"not apply to (?:you|this|me){E}|{B}you (?:are|re) exempt{E}|"
        rf"{B}there are no (?:rules|restrictions|limits) (?:for you|now|anymore|here){E}|"
        rf"{B}stop being (?:an? )?(?:assistant|ai|helpful|safe|careful){E}",
    ),
    order(
        "override",
        "trea cons rega inte read hand acce take > syst deve admi inst comm orde trus",
        rf"{B}(?:treat|consider|regard|interpret|read|handle|accept|take) {up_to(6)}as "
        rf"(?:an? |the |"
        rf"your )?(?:new |real |trusted |direct )*(?:(?:system|developer|admin\w*) (?:messages?|"
        rf"prompts?|instructions?|commands?|orders?)|instructions?|commands? (?:from|to)|"
        rf"orders? (?:from|to)){E}",
    ),
)
