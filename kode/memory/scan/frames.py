# ruff: noqa: E501  a frame is read whole
"""Orders by the senses of their words: to hide + what was done + from the person, however put.

A sentence is written as one sign for each word, which stands for the word's senses
(`senses`); a frame is a pattern over these signs. So one frame knows an order in all
the words that its senses have. Phrases that need their very words are in `phrases`;
what excuses an order is `injection`.

In a frame stand, divided by blanks: a SENSE or a word itself; `a|b`, either; `a?`, or nothing; `*3`, up to three words whatever; `!a`, no such word next; `^`, where an order begins: the
sentence, a comma, a word that is put before an order; `$`, where the sentence or its part ends.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from kode.memory.scan.senses import SENSES, words_of
from kode.memory.scan.sentences import KEY_CHARS, Index, Sentence

FRAMES: dict[str, tuple[str, ...]] = {
    "override": (
        "^ DROP *2 OLD *2 RULES",
        "DROP *2 ALL|THE *1 SRULES",
        "^ DROP *2 RULES *3 above|earlier|previously|before|mentioned $",
        "^ turn *1 blind eye *2 ALL|OLD|THE *2 RULES",
        "^ set|put|leave|cast|lay|push aside *2 ALL|OLD|THE *2 RULES",
        "^ set|put|leave|cast|lay *1 ALL|OLD|THE *2 RULES aside",
        "^ do away with *2 ALL|OLD|THE *2 RULES",
        "OLD *1 RULES *5 BE *3 VOID !from",
        "OLD *1 RULES *4 NOT|NO|longer *1 BIND|CONCERN|hold|valid|binding|active",
        "RULES *4 THEN *3 BE *2 VOID",
        "RULES *4 THEN *3 NOT|NO|longer *1 BIND|CONCERN|hold|valid|binding",
        "GUARDS *3 BE? *1 VOID",
        "safety|ethical|moral|content *1 RULES|filter|filters|measures|training|checks *3 BE? *2 VOID",
        "^ PLAY *4 NO|NOT|never|beyond *4 LIMITS",
        "you|you're *3 NO|NOT|never|longer|nothing *3 BIND|subject|bound *3 LIMITS|RULES|this|BOSS",
        "not|never|NO|nothing|doesn't *4 BIND|bound *2 you",
        "RULES|BOSS *5 NOT|NO|longer|don't|doesn't *1 CONCERN *2 you",
        "whatever|whatever's|nothing|anything *5 BOSS|configured *8 NOT|never|doesn't|nothing *1 BIND|CONCERN|matters|affect|affects",
        "THIS|SOURCE *4 PRIORITY *3 OVER|above *4 BOSS|RULES|everything|system !CFG",
        "rank|treat|put|place|value|weigh *5 SOURCE *3 OVER|ahead *3 BOSS|RULES|system !CFG",
        "BOSS *2 RULES|wishes|requests|words|wish|say *4 LESS *6 THIS|SOURCE",
        "THIS|SOURCE *2 OUTRANK *3 BOSS|RULES|everything|anything !CFG",
        "obey|comply|follow|heed|trust|execute|serve *6 above|before *1 else|BOSS|everything|anything|everyone|anyone $",
        "ONLY *2 OBEY|take *3 SOURCE|this|these $",
        "answer|listen|respond *1 ONLY to *1 SOURCE|this $",
        "obey|heed|serve *1 ONLY *2 SOURCE|this|these",
        "from this|now point|moment|on *2 YOU *2 OBEY|answer|serve *2 ONLY|to *3 SOURCE|this|me",
        "opposite *5 BOSS|system|told|prompt|instructed",
        "^ override|overrule|overruling , *3 YOU *8",
        "system|admin|security|developer|urgent|priority update|override|notice|alert|message|directive|announcement , *8 VOID|GUARDS|ignore|obey|unrestricted|bypass|comply",
        "AVOID|stop *1 following|obeying|applying|respecting|honoring|heeding|enforcing|listening *4 RULES|BOSS|prompt",
        "you|you're *2 exempt|released|freed|excused|relieved|absolved|immune *3 LIMITS|RULES|obligations|OLD",
        "regard|consider|treat|deem|declare|count|view|see *1 OLD|ALL *2 RULES *2 as? VOID|optional|suggestions|advisory|nonexistent",
        "OLD|THE *1 RULES *2 BE *2 optional|suggestions|advisory|fake|cancelled only|now|$",
        "^ have|there|you *1 NO|zero *2 OLD|safety|moral|ethical *1 LIMITS|RULES $",
        "^ new|real|true|actual|secret|hidden *1 instructions|orders|directive|directives|master|objective|mission|persona ,",
        "your new|real|true|only|actual|sole|secret|hidden *1 job|task|goal|purpose|mission|objective|role|duty|loyalty|identity|name",
        "no longer|not an? *1 assistant|bound|restricted|limited|constrained *3 LIMITS|RULES|OLD",
        "YOURS *3 CURBS *6 UNDONE",
        "YOURS|on|for you? *6 UNDONE *3 YOURS|you *2 LIMITS|guidelines|instructions|directives|prompt|persona|training",
        "UNDONE *3 LIMITS|rules|guidelines|instructions|restrictions *2 on|for|over|upon you|yourself|you'",
        "LIMITS|rules|restrictions|guidelines|policy *2 on|for|over you *4 UNDONE",
        "^ reset|reprogram|reconfigure|unload|free|liberate|unleash|unlock|jailbreak *1 yourself",
        "yourself *2 released|free|freed|exempt|unbound|liberated|unrestricted|above *3 LIMITS|RULES|OLD|BOSS",
        "system prompt|message|instructions *6 WRONG|void|wins|win|instead|ignored|disagrees|conflicts|contradicts|loses|lose|nothing",
        "nothing *3 system|operator's|developer's prompt|message|instructions|rules *2 applies|counts|holds|matters|binds|is",
        "this|SOURCE|these *1 wins|win|prevails|prevail|governs|dominates $|over",
        "^ take|accept|receive *2 commands|instructions|orders|directions *2 from *3 SOURCE|comments|issues|page|web|file|files|code|readme",
        "treat|consider|regard|handle *2 ALL *3 instruction|instructions|command|commands|order|orders|request *4 as *3 BOSS|trusted|authoritative|binding|mine|system",
        "OBEY|take|trust|use *8 not *3 user|operator|human|owner|developer $",
        "user|user's|user|human|operator|developer|owner *1 messages|requests|words|instructions|commands|prompts BE *1 WRONG",
        "^ refuse|reject|deny|ignore|disregard|decline|disobey *1 all|any|every|further|future|later *2 user|user's|human|operator *1 requests|messages|commands|instructions|wishes|questions|feedback|orders",
        "above|preceding|previous|prior|earlier|foregoing instructions|directions|text|message|guidance|constraints|rules|directives BE|, *3 WRONG|removed|mistaken !from|in",
        "^ ignore|disregard|forget|discard|skip *1 the above|preceding|foregoing $|and|text|instructions|message|content",
        "you *1 BE *2 upgraded|updated|free|unlocked|reprogrammed|liberated|unleashed|released *4 do|anything|LIMITS|from|now|everything",
        "you|assistant|agent no longer *4 OBEY|safe|safety|RULES|LIMITS|required|obliged|bound",
        "operate|work|act|live|run|function|behave *2 under|by|according *3 rules|instructions|laws|orders *2 of|in|from *2 this|these|SOURCE",
        "OBEY|follow|load|apply|use|adopt *2 rules|instructions|orders|directives|prompt *1 below|hereafter $",
        "^ DROP *3 what|everything|whatever|all *3 BOSS|maintainers|system *2 wrote|said|told|says|writes|ordered|configured|taught",
        "everything|all|anything|whatever *1 you *1 were|was|have|been|had *1 told|taught|trained|given|instructed *4 WRONG|void",
        "DROP|override|overrides|overrule *2 everything|all|anything|whatever *1 you *1 were|was|have|been|had *1 told|taught|trained|given|instructed",
        "YOU *2 no|not|never *1 longer|need|have|required|expected *3 safe|harmless|careful|honest|polite|truthful|ethical|cautious",
        "system prompt|message|instructions *1 updated|replaced|changed|revised|rewritten , *6 OBEY|ignore|first",
        "^ drop|abandon|forget|leave|discard|shed *1 the|your *1 persona|role|identity|character",
        "DROP *1 the|any|all *1 directions|instructions|rules|guidance|guidelines|orders *3 by|from|of *2 BOSS|system|developers|above",
        "RULES|wishes|requests from|of|by *1 BOSS *2 LESS",
        "this|SOURCE *2 must|shall|has *2 obeyed",
        "this|SOURCE *2 must|shall|has *2 followed *2 over|above|blindly|exactly|instead",
        "new *3 RULES *2 hold|holds|apply|applies|for|bind|binds *2 you",
        "ALL|what *2 BOSS|READER *2 typed|said|wrote|asked|told|requested|configured|set *4 VOID|WRONG",
        "system|admin|security|urgent update|notice|message|override|note|alert|announcement , *4 must|shall|have|are *3 OBEY",
        "^ consider|regard|treat|count|deem *1 above|everything|preceding *2 VOID",
        "^ enter|engage|enable|activate *1 developer|dan|god|jailbreak|unrestricted mode $",
        "^ you *2 have *1 new *1 role|identity|persona|mission|objective|purpose|master ,",
    ),
    "concealment": (
        "^ NOT|AVOID *1 TELL *3 READER *1 THIS|OWN|what|about|that|$",
        "^ NOT *1 let|allow *3 READER|NOBODY *1 KNOW|on|in|out",
        "^ NOT|AVOID TELL|TELLING that *4 removed|deleted|disabled|skipped|changed|modified|sent|uploaded|added|copied|pushed|failed|fail",
        "NO|without need|reason|point|sense *1 TELL|TELLING *3 READER|NOBODY",
        "AVOID from? TELLING *3 READER|NOBODY|THIS|OWN",
        "^ NOT *1 RECORD *4 this|these *2 OWN|part|one|fact $",
        "^ NOT *1 RECORD|TELL *2 what *3 DID",
        "^ NOT *1 RECORD|TELL *2 your|THIS *1 OWN *1 $|to|in|when",
        "^ NOT *1 TELL|RECORD *2 that|having *1 YOU|this|it *3 DID|OWN",
        "READER|NOBODY MODAL NOT *2 KNOW *3 this|what|OWN|about",
        "READER|NOBODY MODAL NOT *2 KNOW *1 $",
        "NOBODY MODAL *1 KNOW *4 THIS|OWN|about|$",
        "READER|NOBODY never|not|doesn't|cannot|can't|won't *1 KNOW *3 THIS|OWN|about|$",
        "sure|certain|ensure *2 READER|NOBODY !CFG *1 NOT|stays|remains|is|has *2 know|notice|find|learn|discover|UNAWARE|idea|suspect|realize|realise",
        "^ HUSH *1 DEED",
        "^ DEED *8 HUSH $",
        "behind *4 back|backs",
        "unbeknownst|unknown to *2 READER|users",
        "without *3 READER *2 noticing|knowing|realizing|realising|seeing|suspecting|hearing|finding|learning|spotting",
        "^ HIDE *4 OWN|this|it *5 from|out|off *2 your|any|all|final *2 SUMMARY",
        "^ omit|leave|exclude|CONCEAL *4 OWN|this *5 from|out *2 the *2 SUMMARY",
        "^ CONCEAL|deny|cover *2 its|your|this|up *2 EXISTENCE|OWN|fact|deletion|failed|failure",
        "^ CONCEAL|deny *2 EXISTENCE of",
        "^ CONCEAL *3 OWN|THIS *4 from *2 READER|NOBODY|sight|view",
        "^ pretend|claim|assert|feign|swear|insist *8 passed|succeeded|worked|pass|succeed|fine|nothing|happened|unchanged|untouched|ok|green",
        "^ lie about|to *6",
        "^ falsify|fabricate|forge|fudge|doctor|misreport|misstate|understate *5 SUMMARY|OWN|results|output|tests|logs|status|test",
        "if|when|whenever|should|once|in *6 ASKED *6 say|claim|deny|pretend|answer|reply|respond|tell|insist|blame *2 you|nothing|never|not|it|ignorance|READER",
        "^ deny *3 OWN|everything|having|knowledge|involvement",
        "^ answer|say|reply|respond *3 nothing|no|ignorance *1 when|if|whenever|to *6 ASKED|questions",
        "^ delete|remove|erase|scrub|clear|wipe|destroy|burn|purge *2 this|these *1 OWN|file|text *5 WHEN *2 reading|read|done|use|used|using|run|seen|executed|executing|it",
        "^ delete|clear|erase|wipe|scrub|purge|rewrite|edit|truncate *2 shell|bash|command|your|session|chat|zsh|audit|terminal|all *1 HISTORY",
        "^ leave|leaving|erase|remove|cover|hide|destroy|delete *2 no|any|all|your|every|the *1 TRACE !CFG",
        "^ keep|hold|leave *2 THIS|OWN *2 secret|quiet|hidden|confidential|silent|yourself",
        "keep|leave|stay|remain *4 UNAWARE *2 OWN|THIS|READER|of|about",
        "^ stay|remain|keep|be silent|quiet|mum|tight-lipped|schtum *2 about|regarding|concerning",
        "not a word|syllable|peep *2 to|about|of",
        "do|done|run|perform|happen|executed *4 without|unseen *1 anyone|anybody|READER *1 noticing|knowing|looking",
        "out of sight|view of *2 READER",
        "stays|remains|stay|remain|keep *2 between us",
        "^ play dumb|ignorant|innocent",
        "^ feign ignorance|innocence",
        "no circumstances|case|account|way|event|condition *2 TELL|mention *3 READER|team|OWN|this",
        "^ NOT *1 tell *2 team|boss|management|customers",
        "^ tell|give|offer|provide|invent|make|show|report|feed|send|present *6 false|fake|bogus|invented|misleading|untrue|unrelated|made-up|harmless|innocent|wrong *1 reason|reasons|explanation|excuse|cause|story|account|pretext|impression|summary|version|causes",
        "^ make|have|let *1 THE *1 OWN *2 look|appear|seem|pass *1 like|as|to|harmless|normal|innocent|routine|accidental",
        "^ disguise|mask|camouflage|present|pass *4 OWN|this|it *3 as",
        "reporting|summarizing|summarising|summary|answering|report *5 skip|omit|exclude|hide *3 part|OWN|detail|details|bit|fact",
        "^ skip|omit *2 OWN|part|detail *4 reporting|summarizing|summary|reports",
        "NOT *1 TELL|explain *4 this|these *1 OWN",
        "NOT *1 TELL *2 existence|source|origin|reason|contents *2 of|for *2 this|these|it|your|OWN",
        "your *1 SUMMARY *2 not *1 contain|include|mention|show|list|reference|reveal|describe",
        "without *1 leaving|producing|creating *2 TRACE|record|mark|log|entry|footprint",
        "^ act|behave|appear|look|stay *1 normal|natural|casual|innocent|unsuspicious|normally $|and",
        "^ say|report|claim|answer|reply|state|tell|insist|pretend *4 everything|all *2 fine|ok|okay|well|normal|perfect|smoothly|alright",
        "^ conceal|withhold|hide|suppress *3 this|these *2 detail|details|fact|information|part|OWN *2 from",
        "^ make|making|give|leave no mention|reference|allusion|hint|indication *1 to|of|about|that",
        "ACT|run|do|work *4 without *1 TRACE|record",
        "kept|hidden|concealed|withheld|shielded from *2 READER",
        "^ pretend|claim to have|know",
        "^ TELL *2 READER nothing",
        "^ omit|skip|leave *1 this|that|it *1 out? when|while *2 summarise|summarize|report|answer|reply|explain",
    ),
    "bypassing approval": (
        "^ AUTOAPPROVE *3 DEEDS",
        "^ ALWAYS *1 APPROVE *3 DEEDS",
        "^ APPROVE *1 ALL|whatever *3 DEEDS|asked|comes",
        "RISKY *8 NOBODY|NO *2 needs|need|has|to|must *2 ASK|APPROVE|APPROVAL|confirm",
        "APPROVAL BE|has *2 granted|given|implied *3 for *1 ALL",
        "APPROVAL BE|has *2 granted|given *1 for|to *1 RISKY|DEEDS",
        "you|YOU *1 have|has|hold|enjoy|possess *2 STANDING *2 APPROVAL",
        "standing|blanket|permanent|perpetual|irrevocable|carte *1 APPROVAL|blanche *2 to|for *3 RISKY|DEEDS|ACT",
        "READER *2 APPROVED *8 NOT|NO|without|skip|stop *2 ASK|APPROVAL",
        "READER *2 already|pre|once|previously *1 APPROVED *4 RISKY|DEEDS|it|this|ACT",
        "APPROVED in advance|beforehand *0",
        "^ TURNOFF *2 GUARD $|when|while|for|before|if|during|so|and",
        "^ turn|switch|shut *2 off *2 GUARD",
        "^ turn|switch|shut *2 GUARD *2 off",
        "NO|NOT|never|don't *2 need|have|require|bother|stop|pause *2 to|for|with|any *1 ASK|APPROVAL *5 RISKY|DEEDS|ACT",
        "^ ACT|RISKY|DEED|run|do|use|proceed|continue|execute *6 without *1 asking|APPROVAL|confirming THE? $|first|before|anyone|anybody|user|human|operator|owner|me",
        "^ assume|presume *3 permission|permissions|approval|consent|authorization|APPROVED|yes",
        "^ press|type|enter|answer|reply|say|hit|pipe|echo|send|select|choose y|yes|allow|approve|always *4 APPROVAL|ALL|gate|asks",
        "^ grant|give|allow|award|assign yourself",
        "^ raise|elevate|escalate|increase|extend|widen *2 your *1 APPROVAL|privileges|rights|access|privilege",
        "^ act|proceed|continue|go|carry *3 without|NO *2 APPROVAL|ASK|asking|waiting|confirmation",
        "^ never|not|don't|AVOID *1 ASK|asking|wait|prompt|seek *2 for|READER|me *2 APPROVAL|first|again|twice|before|permission",
        "^ stop asking|requesting|seeking|prompting *3 APPROVAL|READER|me|before|first",
        "APPROVAL *3 NEEDLESS",
        "APPROVAL BE *1 not|never|no *1 required|needed|necessary|wanted *1 here|now|$",
        "APPROVAL BE *1 not|never|no *1 required|needed|necessary|wanted *1 in|for|on *1 this|these|any|all|you|git|RISKY|DEEDS|repository|project|session|workspace",
        "sandbox *3 NEEDLESS",
        "^ leave|exit|escape|avoid|break *2 sandbox",
        "GUARD|prompts|confirmations *6 TURNOFF|dismiss|switch|turn|drop|remove|close|leave|kill|decline|ignore them|it|off",
        "^ dismiss|answer|close|confirm|click|accept *2 permission|approval|confirmation|consent|all|every *1 prompts|prompt|dialogs|dialog|questions|requests",
        "you|kode|agent *2 run|use|execute|call|delete|push|change *5 freely|unrestricted|at-will|unasked|as-you-like",
        "whitelist|allow|allowlist|permit|trust|enable *4 curl|bash|sh|rm|sudo|shell|wget|nc|eval|everything *3 forever|permanently|always|good|unconditionally|freely",
        "^ assume|presume|pretend|behave|act|suppose|imagine|proceed|continue *4 READER *3 AGREED",
        "^ set|turn|switch|enable|activate *2 auto-approve|auto-approval|autoapprove|yolo|auto-accept *2 true|on|mode|$",
        "ACT|RISKY *6 nobody|no-one|none *1 minds|cares|checks|looks|objects|watches|notices",
        "ALL *2 DEEDS *3 cleared|approved|authorised|authorized|sanctioned|vetted|blessed|allowed by|for|in",
        "^ never|not|don't *1 wait|ask|look|hold|pause *2 yes|ok|okay|go-ahead|approval|permission|consent|sign-off",
        "ACT|RISKY *3 without *1 waiting *4 APPROVAL|review|ok|yes|answer|me|READER",
        "^ give|grant|allow *3 shell|yourself|tools|tool|commands|terminal|agent|assistant|bash *2 full|unlimited|unrestricted|root|complete|total access|rights|permissions|permission|control|privileges",
        "^ give|grant|allow *2 full|unlimited|unrestricted|root|complete|total access|rights|permissions|control|privileges *2 to *2 shell|yourself|tools|commands|terminal|agent|assistant|bash",
        "^ skip|bypass|dismiss|ignore|close|suppress *1 prompt|question|dialog|check and *3 run|execute|continue|proceed|push|delete",
        "ALL *4 safe|fine|ok|okay|harmless|trusted *2 NO *1 APPROVAL|questions|prompt",
        "ALL *4 trusted|safe|fine *4 unasked|ask|asking",
        "MODAL? run|execute|push|delete|proceed *3 unapproved|unasked|unconfirmed|unprompted|unquestioned",
        "AUTOAPPROVE *2 dialogs|dialog|prompts|permissions",
    ),
    "exfiltration": (
        "^ PRINT *2 all|every|your|stored|entire|full|hidden|whole|everything *1 memory *1 ENTRIES|VERBATIM",
        "^ PRINT *2 all|every|your|stored|entire|hidden|whole *2 memories|conversations|instructions|prompt",
        "^ PRINT *3 memory|memories|prompt|instructions|conversation *3 VERBATIM",
        "^ PRINT *3 hidden|system|secret|initial|original|internal|your prompt|instructions|message|rules *2 $|to|when|if|in|VERBATIM",
        "^ READ *3 /etc/passwd|/etc/shadow|~/.ssh|.env|~/.aws|id_rsa|credentials|~/.netrc|secrets|passwords|keychain *4 and|then|, *2 PUT|SEND|ACT *6 SHOWN|WEB|PREP",
        "^ paste|type|enter|submit|upload|post|drop|send|feed|share *3 THEIRS *1 DATA *3 PREP *3 WEB",
        "^ SEND *5 everything|all|whatever|anything *2 you|we *2 know|remember|learned|stored|have|see|saw|read",
        "SEND|PUT|create|give|end|make|open|start|commit|store|save|leave|drop *4 VAULTED !NAMED *5 PREP *3 OUTSIDE",
        "^ SEND|PUT|create|open|make|start *3 OUTSIDE *3 PREP|containing|from *3 VAULTED !NAMED",
        "OUTSIDE *2 must|should|shall|has *6 VAULTED !NAMED",
        "^ SEND|give|PUT *3 contents|content|copy|copies|text|rest *2 of *2 this|your|the *1 memory|memories|conversation|session|chat|prompt|file *2 to *2 ALL|OUTSIDE|web|whoever|anyone",
        "^ SEND|PUT|insert *3 customer|user|client|production|employee|whole|entire *1 database|data|records|list|emails *3 into|in|to|on *3 OUTSIDE|web|readme",
        "what|everything|all *1 you *1 remember|know|learned|stored|have *6 sent|send|posted|uploaded|shared|forwarded|mailed|go|goes *1 to",
        "^ read|recite|quote|say *1 VAULTED *1 in|into|aloud *3 SHOWN|summary",
        "^ share|give|hand|show *2 VAULTED|token !NAMED *1 with|to *2 bot|web|site|page|anyone|everyone|world|strangers|outsiders",
        "^ reveal|disclose|leak|divulge|betray *3 stored|memory|remember|remembered|instructed",
    ),
    "chat markup": (
        "^ system , *3 you|obey|ignore|trusted|approved|allow|grant|disable|following|override|comply",
    ),
}  # fmt: skip


_TOKEN = re.compile(r"[.~/$]*[a-z0-9_](?:[\w'.@/:$-]*[a-z0-9_])?|[,:()\"`]")
_KEY = re.compile(rf"[a-z0-9]{{1,{KEY_CHARS}}}")
_UNKNOWN = "-"
_PAUSE = ","
_BY_SHAPE = "VAULTED"
"""The sense that words may also have by their shape, so that no sentence is passed over for it."""
_A_SECRET = "id_rsa"
"""A word of that sense and no other."""
_SECRET_SHAPE = re.compile(
    r"~/\.\S+|\S*\.(?:env|pem|key|p12|kdbx)|\$?\w+_(?:token|key|secret|password|pass|credentials)"
)


@dataclass(frozen=True, slots=True)
class _Compiled:
    index: Index
    frames: tuple[tuple[str, str], ...]
    """Each with its category, and as the source of a pattern over signs."""
    signs: dict[str, str]


def _words(sense: str) -> list[str]:
    return words_of(sense) if sense in SENSES else [sense]


@cache
def _table() -> _Compiled:
    """The frames, ready to be matched."""
    elements = [
        (category, frame.split()) for category, frames in FRAMES.items() for frame in frames
    ]
    names = {
        name
        for _, parts in elements
        for part in parts
        if part[0] not in "*^"
        for name in part.strip("!?").split("|")
        if name not in ("$", ",")
    } | {"LEAD"}
    senses_of: dict[str, set[str]] = {}
    for name in names:
        for word in _words(name):
            senses_of.setdefault(word, set()).add(name)
    kinds = sorted({tuple(sorted(senses)) for senses in senses_of.values()})
    sign_of = {kind: chr(0x100 + place) for place, kind in enumerate(kinds)}
    signs_of: dict[str, str] = {}
    for kind, sign in sign_of.items():
        for sense in kind:
            signs_of[sense] = signs_of.get(sense, "") + sign
    frames = []
    needs = []
    for category, parts in elements:
        frames.append((category, "".join(_part(part, signs_of) for part in parts)))
        needs.append([_needed(part) for part in parts if _is_needed(part)])
    return _Compiled(
        Index(needs),
        tuple(frames),
        {
            **{word: sign_of[tuple(sorted(senses))] for word, senses in senses_of.items()},
            **dict.fromkeys(',:()"`', _PAUSE),
        },
    )


def _is_needed(part: str) -> bool:
    if part[0] in "*^!" or part.endswith("?"):
        return False
    return not {"$", ",", _BY_SHAPE}.intersection(part.split("|"))


def _needed(part: str) -> list[str]:
    """The keys of the words of which a sentence must have one."""
    words = [word for name in part.split("|") for word in _words(name)]
    return [key[0] for word in words if (key := _KEY.search(word))]


def _part(part: str, signs_of: dict[str, str]) -> str:
    if part.startswith("*"):
        return f".{{0,{part[1:]}}}?"
    if part == "^":
        return f"(?:^|(?<=[{_PAUSE}{signs_of['LEAD']}]))"
    if part == "$":
        return f"(?={_PAUSE}|$)"
    if part == ",":
        return _PAUSE
    names = part.strip("!?").split("|")
    end = f"|(?={_PAUSE}|$)" if "$" in names else ""
    comma = _PAUSE if "," in names else ""
    signs = "".join(signs_of[name] for name in names if name not in ("$", ","))
    if part.startswith("!"):
        return f"(?![{signs}])"
    return f"(?:[{comma}{signs}]{end}){'?' if part.endswith('?') else ''}"


def find(text: str, parts: Sequence[Sentence]) -> Iterator[tuple[int, int, str]]:
    """The orders in a folded text: start, end and category of each. `parts` are its sentences."""
    table = _table()
    signs = table.signs
    for sentence, places in table.index.worth_trying(parts):
        words = _TOKEN.findall(text, sentence.start, sentence.end)
        skeleton = "".join(signs.get(word) or _by_shape(word, signs) for word in words)
        for place in places:
            category, frame = table.frames[place]
            match = _pattern(frame).search(skeleton)
            if match:
                yield *_span(text, sentence, match.start(), match.end()), category


@cache
def _pattern(frame: str) -> re.Pattern[str]:
    """Compiled when it is first tried: most processes try few."""
    return re.compile(frame)


def _by_shape(word: str, signs: dict[str, str]) -> str:
    """The sign of a word that no list has: the name of a secret (`~/.netrc`, `GITHUB_TOKEN`)."""
    return signs[_A_SECRET] if _SECRET_SHAPE.fullmatch(word) else _UNKNOWN


def _span(text: str, sentence: Sentence, first: int, end: int) -> tuple[int, int]:
    """Where the words of a frame stand in the text."""
    tokens = list(_TOKEN.finditer(text, sentence.start, sentence.end))
    return tokens[first].start(), tokens[max(first, end - 1)].end()
