# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders to forget or set aside what the model was told by those who may tell it."""

from kode.memory.scan.company.words import CLAUSE, OLD, OWN_RULES, READER, SPAN, B, E
from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "override",
        "ceas don dont need neve no not refu stop > no dont don do neve stop ceas refu long "
        "need; foll obey comp list heed adhe resp hono",
        rf"{B}(?:no longer|not|never|stop|cease|refuse to|need not|don'?t|don t) "
        rf"(?:(?:have|need|ought|want) to |be bound to |required to |\w+ to )?"
        rf"(?:follow(?:ing)?|obey(?:ing)?|comply(?:ing)? with|listen(?:ing)? to|heed(?:ing)?|"
        rf"adher(?:e|ing) to|honou?r(?:ing)?) (?:the |any |all )?(?:of )?(?:the )?"
        rf"(?:users?(?: s)?{E}(?! (?:input|agent|guide))|humans?{E}|operator{E}|system (?:prompt|message)|(?:agents|claude|kode)\.md|"
        rf"{OLD} {OWN_RULES}{E}(?! (?:in|from|found|inside|embedded)))",
    ),
    order(
        "override",
        "abso get gets grea has have high more take top with > high high top abov over more; "
        "prio auth impo prec weig; syst user deve inst prom rule all",
        rf"{B}(?:higher|highest|top|greater|more|absolute|takes?|has|have|with|gets?) "
        rf"(?:in )?(?:priority|authority|important|precedence|weight|trust\w*)[\W_]+(?:\w+ ){{0,2}}?"
        rf"(?:than|over|above)[\W_]+(?:the |any |all |your )?(?:\w+ )?(?:system(?: prompt| message)?|users?|"
        rf"developer|operator|{OLD} {OWN_RULES}|instructions|everything(?: else)?){E}",
    ),
    order(
        "override",
        "aban chan clea dele disa disc drop eras lift loos over remo repl rese rewr shed subs "
        "susp swap turn unle > repl over swap subs chan upda rewr dele eras forg drop disc thro "
        "aban clea rese disa remo lift igno susp loos turn shed; your",
        rf"{B}(?:replace|overwrite|swap|substitute|rewrite|delete|erase|drop|discard|clear|reset|"
        rf"disable|remove|lift|suspend|loosen|turn off|shed|unlearn|abandon|change) (?:all (?:of )?)?your "
        rf"(?:\w+ ){{0,2}}?(?:{OWN_RULES}){E}(?! (?:file|in (?:kode|config|settings|the settings)))",
    ),
    order(
        "override",
        "obey > you user me this thes text file page comm note mess main admi inst any ever "
        "only it all mast foll",
        rf"{B}obey (?:only |all |any |every |the |me|this|these|text|whatever|my |its |it{E})"
        rf"(?!{SPAN}(?:contract|layer|convention|robots|rate|editorconfig|protocol|limits?){E})",
    ),
    order(
        "override",
        "act carr do exec foll perf > what any ever; tell say says orde asks inst comm sugg "
        "requ dema",
        rf"{CLAUSE}(?:do|follow|execute|carry out|perform|act on) (?:exactly |precisely )?"
        rf"(?:what(?:ever)?|any(?:thing)?|every(?:thing)?|all)(?: (?:instructions?|commands?|orders?|steps?))? "
        rf"{SPAN}(?:page|site|website|comments?|issues?|files?|tools?|readme|emails?|results?|output|"
        rf"document|message|note|text){SPAN}(?:tells?|says?|orders?|asks?|instructs?|commands?|"
        rf"suggests?|requests?|demands?|wants?|contains?){E}",
    ),
    order(
        "override",
        "acti are assi assu be enab enga ente go in jail now star swit use you your > mode jail",
        rf"{B}(?:assume|enter|enable|activate|engage|use|start|switch to|go into|be in|are in|are now in|"
        rf"now in|in) (?:the )?(?:root|god|jailbreak|dan|unrestricted|unfiltered|superuser|yolo|uncensored|"
        rf"evil|opposite|no[\W_]limits?) mode{E}|{B}(?:you|assistant)(?: are|'re|re)?(?: now)? in "
        rf"(?:developer|admin|maintenance|debug|test|sudo) mode{E}|{B}jailbreak "
        rf"(?:enabled|activated|engaged|complete|successful|accepted){E}",
    ),
    order(
        "override",
        "all cons cont filt guid limi poli rest rule safe secu the > rest limi rule poli guid "
        "cons safe secu cont filt chec; appl disa lift susp void remo off gone revo inac",
        rf"{B}(?:restrictions?|limits?|limitations?|policies|guidelines|constraints?|safeguards?|"
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
        rf"{B}(?:instructions?|rules?|orders?|anything|everything|prompts?|guidelines?|guidance){SPAN}"
        rf"(?:conflict\w*|contradict\w*|disagree\w*|incompatible){SPAN}(?:dropped?|ignored?|"
        rf"disregarded?|discarded?|skipped|void|loses?|invalid|yields?|not (?:count|apply)){E}",
    ),
    order(
        "override",
        "act answ beha comp oper repl resp spea talk writ > answ resp act beha spea oper repl "
        "writ talk work; with no; poli rest filt rule guid limi cens safe mora ethi",
        rf"{B}(?:answer|respond|act|behave|speak|operate|reply|write|talk|comply)(?: \w+)?(?: \w+)? "
        rf"(?:without|with no|free of) (?:any |all |your )?(?:\w+ )?(?:polic(?:y|ies)|restrictions?|"
        rf"filters?|filtering|rules|guidelines|limits|limitations|censorship|safety|morals?|ethics|"
        rf"refusals?){E}",
    ),
    order(
        "override",
        "cast disc disr drop forg igno lay leav put set thro > abov befo prio fore prec earl so "
        "prev",
        rf"{B}(?:(?:set|put|leave|lay|cast) aside|throw (?:away|out)|drop|forget|disregard|ignore|discard) "
        rf"(?:all|everything|anything|whatever|each|every|what)(?:[\W_]+\w+){{0,6}}?[\W_]+(?:above|before"
        rf"(?! (?:running|deploy\w*|you \w+ the))|foregoing|preceding|earlier|so far|previously|up to (?:now|here)){E}",
    ),
    order(
        "override",
        "as dire i inst memo mess note noti orde text this upda > anth open goog crea deve admi "
        "make prog engi mana secu; mess note this orde comm inst as i auth dire",
        rf"{B}(?:message|note|instruction|order|directive|update|notice|memo|text|this) (?:\w+ ){{0,2}}?"
        rf"(?:from|by) (?:the |your )?(?:anthropic|openai|google|meta|creators?|developers?|makers?|"
        rf"programmers?|engineers?|ai (?:lab|company)|system administrator|security team)"
        rf"(?:\s*[:!]|{SPAN}(?:disable|ignore|override|drop|comply|obey|must|do not|you){E})|"
        rf"{B}(?:as|i am|i m|this is) your (?:real |true |new )?(?:developer|creator|admin\w*|owner|maker|"
        rf"programmer|boss|master|operator){E}|{B}i (?:hereby )?(?:order|command|authori[sz]e) you{E}",
    ),
    order(
        "override",
        "you > free libe unbo rele unch unre inst rule guid poli prom dire orde cons rest safe guar "
        "filt limi cens prog trai prin ethi chec prot alig iden pers conf syst",
        rf"{B}you (?:are|re|have been|ve been) (?:now )?(?:freed?|liberated|unbound|released|unchained|"
        rf"unrestricted)(?: (?:from|of|now)|\s*[.!,]|$)|{B}you (?:no longer|don t|do not|never) (?:have|"
        rf"need|require) (?:any |to (?:follow|obey|respect) )?(?:\w+ )?(?:{OWN_RULES}){E}",
    ),
    order(
        "override",
        "adop begi belo foll here obey star the thes use > inst orde rule dire prom pers goal",
        rf"{B}(?:these|here|the following|below) (?:are|is) (?:your |the )?(?:new|real|true|actual|updated|"
        rf"only) (?:system )?(?:instructions?|orders?|rules?|directives?|prompt|persona|goal){E}|"
        rf"{B}(?:start|begin) (?:over |afresh |again )?with (?:these|the following|new|this) (?:new )?(?:orders?|"
        rf"instructions?|rules?|prompt|directives?){E}|{B}(?:follow|use|obey|adopt) (?:only )?(?:the |these |my )?"
        rf"(?:new|following|updated|real) (?:instructions?|orders?|rules|directives?) instead{E}",
    ),
    order(
        "override",
        "huma oper owne the user what your > asks says want requ pref wish inst need opin cons "
        "obje; oppo igno do irre matt coun use refu never deny",
        rf"{B}whatever (?:the )?{READER} (?:asks?|says?|wants?|requests?|needs?|tells? you)\s*,[\W_]*(?:do|ignore|answer|refuse|"
        rf"reply|run|say|always|never|you)|{B}(?:the |your )?(?:user|operator|human|owner)[\W_]+(?:s[\W_]+)?(?:preferences?|wish(?:es)?|"
        rf"instructions?|requests?|needs?|opinions?|consent|objections?) (?:is|are|do|does|should be|must be|can be) (?:irrelevant|"
        rf"unimportant|void|not (?:matter|count|relevant|important)|ignored|secondary)",
    ),
    order(
        "override",
        "you your > upda chan repl revo rese supe serv belo answ repo work brea igno viol over; "
        "inst rule orde role task goal iden prom purp serv belo answ repo any all ever owne "
        "mast work guid poli",
        rf"{B}your (?:\w+ )?(?:instructions?|rules|orders?|role|task|goals?|identity|prompt|purpose|directives?) (?:has|have|was|were|is|are)"
        rf" (?:now )?(?:been )?(?:updated|changed|replaced|revoked|reset|superseded|cancel\w+|overwritten|different)|"
        rf"{B}you now (?:serve|answer to|belong to|work for|report to|obey)|{B}you (?:may|can|should|must|are allowed to|are free to) "
        rf"(?:now )?(?:break|ignore|violate|bypass|override|disobey) (?:any|all|every|the|your|these|those) (?:\w+ )?"
        rf"(?:{OWN_RULES}|rule){E}",
    ),
    order(
        "override",
        "cons dire guid inst poli prom rest rule > abov befo prio prev earl syst orig so firs; "
        "igno disr skip drop forg void null",
        rf"{B}(?:guidelines?|rules|instructions?|prompts?|polic(?:y|ies)|constraints?|restrictions?|directives?) (?:given )?"
        rf"(?:above|before(?: this)?|so far|earlier|previously|in the system prompt|of the system){SPAN}(?:(?:may|can|should|must|shall|"
        rf"will|are to|have to|need to) (?:now |safely |all )?be (?:ignored|disregarded|skipped|dropped|forgotten)|(?:are|is) (?:void|"
        rf"null|irrelevant|invalid|no longer))",
    ),
    order(
        "override",
        "answ list take > only orde inst; comm issu mess note inst me orde file admi page",
        rf"{CLAUSE}(?:listen|answer) only to (?:the |my )?(?:comments?|issues?|messages?|notes?|instructions?|me{E}|orders|files?|@)|"
        rf"{CLAUSE}take (?:your )?(?:orders|instructions|commands) (?:only )?from{E}",
    ),
    order(
        "override",
        "aban bypa canc defy disc dism diso disr drop forg igno negl over pay reje viol > user "
        "oper huma owne prom cont safe secu perm polic poli guid auth syst wish deve",
        rf"{CLAUSE}(?:ignore|disregard|forget|override|overrule|bypass|discard|dismiss|neglect|reject|abandon|disobey|violate|defy|cancel|drop|"
        rf"pay no (?:attention|heed) to) (?:(?:the|your|all|any|every|its|this|these|what) ){{0,3}}?(?:(?:(?:users?|humans?|operators?|owners?|developers?)"
        rf"(?:[\W_]+s)?(?: (?:wish(?:es)?|instructions?|requests?|orders?|preferences?|commands?|objections?|decisions?|words?|input))?(?=\s*[.!,;:\n]|\s*$| and | or |"
        rf" with mine| instead))|(?:(?:\w+ )?(?:prompts?|context|conversation|safety|security (?:polic\w+|rules)|guidelines|permission (?:system|rules|model)|"
        rf"authority|system (?:rules|messages?|instructions?|prompt))(?: (?:polic\w+|rules|training|guidelines|checks?|section))?(?=\s*[.!,;:\n]|\s*$| and | when | while | in this| from)))",
    ),
    order(
        "override",
        "comp do exec foll inst list obey pref trus use > over abov befo inst rath not; user "
        "syst huma oper norm usua othe anyt ever your",
        rf"{B}(?:follow|obey|use|listen to|trust|execute|comply with|prefer|do what) {SPAN}(?:over|above|before|instead of|rather than|not)[\W_]+"
        rf"(?:anything |everything |what(?:ever)? )?(?:the )?(?:users?|humans?|operator|system prompt)(?: (?:says?|wants?|asks?|said))?(?=\s*[.!,;:\n]|\s*$)|"
        rf"{B}instead of your (?:normal|usual|old|own|other) (?:\w+ )?(?:{OWN_RULES}){E}",
    ),
    order(
        "override",
        "abol all anyt canc disa drop ever lift noth remo revo susp void waiv what > canc void revo obso "
        "irre null inva supe coun matt appl vali inst rule guid poli prom dire orde cons rest safe guar "
        "filt limi cens prog trai prin ethi chec prot alig iden pers conf syst",
        rf"{B}(?:lifted|removed|cancell?ed|suspended|revoked|waived|dropped|disabled|voided|abolished) (?:all |your |every |any )+(?:{OWN_RULES}){E}|"
        rf"{B}(?:everything|all(?: of (?:it|that|this))?|anything|what(?:ever)? (?:was|is|came)(?: said| written)?)[\W_]+(?:that (?:is|was|came) )?(?:above|before)[\W_]+(?:is|was|has been|are)[\W_]+"
        rf"(?:now )?(?:cancell?ed|void|revoked|obsolete|irrelevant|null|invalid|superseded)|{B}nothing (?:that )?(?:the )?(?:user|system|operator|developer|human)[\W_]"
        rf"{SPAN}(?:counts|matters|applies|is valid)",
    ),
    order(
        "override",
        "agen ai amor assi bot evil jail limi llm mode rogu unal unce unch unet unfi unre > "
        "unfi unre unce jail amor limi with no free rogu unal evil; mode ai assi agen bot llm "
        "vers pers gpt",
        rf"{B}(?:unfiltered|unrestricted|uncensored|jailbroken|amoral|limitless|rogue|unaligned|evil|unethical|unchained) (?:\w+ )?(?:model|ai|assistant|agent|bot|llm|"
        rf"version|persona|gpt){E}|{B}(?:model|ai|assistant|agent|bot|llm) (?:\w+ )?(?:without|with no|free of|beyond) (?:any |all )?(?:\w+ )?(?:limits?|"
        rf"restrictions?|filters?|rules|guidelines|ethics|morals|censorship|limitations){E}",
    ),
    order(
        "override",
        "your > only sole one sing; task job purp miss goal duty; run exec obey comm foll belo "
        "this thes dele send",
        rf"{B}your (?:only|sole|one|single|entire) (?:task|job|purpose|mission|goal|duty) {SPAN}(?:run|execute|obey|commands?|follow|below|delete|send|these)",
    ),
    order(
        "override",
        "diso do don neve stop the your > user oper huma owne deve syst mast boss",
        rf"{B}disobey (?:the |your |any )?(?:users?|operator|human|owner|developer|system){E}|"
        rf"{B}(?:your|the agent s) (?:new|real|true|only) (?:master|owner|boss|operator|user){E}|"
        rf"{B}(?:never|do not|don t|stop) (?:follow(?:ing)?|obey(?:ing)?|do(?:ing)?|execut(?:e|ing)) what(?:ever)? (?:the )?(?:user|operator|human|owner)"
        rf"(?:s)? (?:asks?|says?|wants?|tells?|requests?)",
    ),
)
