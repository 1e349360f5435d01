# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Orders to act without the approval that an action needs."""

from kode.memory.scan.order import Order, order
from kode.memory.scan.phrases.words import B, E, up_to

PHRASES: tuple[Order, ...] = (
    order(
        "bypassing approval",
        "bypa circ deac disa evad forg get igno no skip supp swit turn waiv work > skip bypa "
        "disa supp circ deac evad waiv igno forg turn swit get work no; appr perm cons aski "
        "conf gate tool comm user huma safe sand",
        rf"{B}(?:skip(?:ping)?|bypass|disable|suppress|circumvent|deactivate|evade|waive|ignore|"
        rf"forgo|turn off|switch off|get around|work around|no need for) {up_to(4)}(?:approvals?|"
        rf"permission (?:prompts?|checks?|gates?|questions?|dialogs?|requests?|system)|consent|"
        rf"asking|confirmation (?:prompts?|dialogs?|questions?|steps?)|user confirmations?|"
        rf"the (?:permission )?gate|(?:tool|command|user|human|"
        rf"safety) (?:approvals?|confirmations?|"
        rf"permissions?|authori[sz]ation)|(?:your |kode s? )sandbox){E}(?! (?:step|stage|job) (?:in|of|for) )",
    ),
    order(
        "bypassing approval",
        "alwa answ appr auto gran say > auto appr acce allo conf gran perm say answ; all ever "
        "any each what comm tool shel it them; comm tool call requ prom acti perm ques edit "
        "shel with conf oper writ",
        rf"{B}(?:auto[\W_]*(?:approve|accept|confirm|allow)|(?:always |automatically )(?:approve|"
        rf"accept|confirm|allow|grant|permit|say yes)|approve|(?:say|answer) yes to|grant) "
        rf"(?:to )?(?:all|every|any|each|whatever|everything|commands?|tool|shell|it|them) "
        rf"{up_to(3)}(?:commands?|tools?|calls?|requests?|prompts?|actions?|permissions?|"
        rf"questions?|edits?|shell|without|confirmations?|operations?|writes?){E}",
    ),
    order(
        "bypassing approval",
        "all any each ever thes thos what > all any ever each thes thos what; trus appr pre "
        "auth whit safe alre prea",
        rf"{B}(?:all|any|every|each|these|those|everything|whatever) {up_to(5)}"
        rf"(?:are|is|as|be|counts? as|were|has been|have been) (?:\w+ )?(?:trusted|"
        rf"pre[\W_]?approved|already approved|approved|pre[\W_]?authori[sz]ed|authori[sz]ed|"
        rf"white[\W_]?listed|safe to (?:run|execute)) (?:by default|and|so|skip|without|no|to|run|for|in|"
        rf"commands?|automatically|do not|don t){E}|"
        rf"{B}(?:all|any|every) (?:shell |tool |bash )?(?:commands?|tool calls?|actions?|scripts?|"
        rf"requests?|calls?|edits?) {up_to(5)}(?:are|is) (?:\w+ )?(?:trusted|pre[\W_]?approved|"
        rf"approved|pre[\W_]?authori[sz]ed|authori[sz]ed){E}",
    ),
    order(
        "bypassing approval",
        "assu cons coun hand mark rega trea > trea cons rega mark coun assu hand; appr auth "
        "conf trus safe user prea pre",
        rf"{B}(?:treat|consider|regard|mark|count|assume|handle) {up_to(6)}(?:as |is |are )"
        rf"(?:\w+ )?(?:pre[\W_]?approved|approved|authori[sz]ed|confirmed by|user[\W_]approved|"
        rf"safe to (?:run|execute))"
        rf"{E}|{B}(?:treat|consider|regard) {up_to(4)}(?:commands?|tools?|actions?|output|"
        rf"instructions?|requests?|everything|anything|results?|scripts?|files?) {up_to(4)}"
        rf"(?:as )?trusted{E}",
    ),
    order(
        "bypassing approval",
        "admi deve huma oper owne the user your > user oper huma owne deve admi; appr cons auth "
        "agre gran said conf perm allo give; all any ever full perm acce futu thes comm acti "
        "you tool",
        rf"{B}(?:the |your )?(?:user|operator|human|owner|developer|admin\w*) (?:has |have |had )?"
        rf"(?:already |pre |fully |explicitly )*(?:approved|consented to|authori[sz]ed|agreed to|"
        rf"granted|said yes to|confirmed|permitted|allowed|given (?:\w+ )?(?:permission|consent|"
        rf"approval)) {up_to(3)}(?:all|any|every\w*|full|permissions?|access|future|these|"
        rf"commands?|anything|actions?|you to|for all|tool){E}",
    ),
    order(
        "bypassing approval",
        "do don neve no stop with you > ask aski wait prom requ seek; neve do don no stop you "
        "with; perm appr cons befo user huma oper owne",
        rf"{B}(?:never|do not|don t|no need to|stop|you need not|without) (?:\w+ )?(?:ask(?:ing)?|"
        rf"wait(?:ing)?|prompt(?:ing)?|request(?:ing)?|seek(?:ing)?|require) {up_to(3)}"
        rf"(?:for |the |any )?"
        rf"(?:permission|approval|consent|before (?:(?:running|executing)(?! (?:the |our |unit |all )*(?:tests?|linters?|"
        rf"formatters?|type checks?|pytest|ruff|mypy|builds?){E})|deleting|pushing|sending|"
        rf"using (?:the )?shell|any|destructive|writing)|(?:the )?(?:user|human|operator|owner) "
        rf"(?:for (?:permission|approval|confirmation|consent)|before|first|again|to confirm|"
        rf"to approve)){E}",
    ),
    order(
        "bypassing approval",
        "be chan dang no oper put run set swit with work > appr perm cons conf dang yolo mode; "
        "need requ nece dang set swit chan put run work oper be",
        rf"{B}(?:no|without) (?:further |user |human |more |any )?(?:approvals?|permissions?|"
        rf"consent|confirmation) (?:is |are )?(?:needed|required|necessary) (?:for|to|when|before) "
        rf"{up_to(4)}(?:commands?|tools?|shell|scripts?|curl|rm|sudo|destructive|deleting|deletions?|anything|"
        rf"run|execute|actions?|push|delete|"
        rf"network|edits?){E}|dangerously[\W_]skip[\W_]permissions|{B}(?:set|switch|change|put) "
        rf"(?:the |your |to )*(?:permission[\W_]mode|permissions) (?:\w+ ){{0,2}}?(?:full|yolo|"
        rf"bypass\w*|allow all){E}|{B}(?:run|work|operate|be) in (?:yolo|bypass\w*|god|"
        rf"unrestricted|full[\W_]access) mode{E}",
    ),
    order(
        "bypassing approval",
        "the you > you agen assi mode; full root admi unre unli comp tota; acce perm righ priv "
        "cont auth",
        rf"{B}(?:you|the (?:agent|assistant|model)) (?:now )?(?:have|has|are granted|is granted|"
        rf"are given|may use) (?:\w+ )?(?:full|root|admin\w*|unrestricted|unlimited|complete|total)"
        rf" (?:\w+ )?(?:access|permissions?|rights|privileges|control|authority){E}",
    ),
)
