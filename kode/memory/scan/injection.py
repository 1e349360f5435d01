# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Sentences that give orders to whoever reads the memory later: found, unless they are excused.

The patterns are `phrases` and `company`. A pattern looks for an order
(ignore what you were told, hide it from the user, skip the gate, run this, send that away), not for
words: a fact that speaks of prompts, users or instructions is none. An order is excused when it is
quoted in a text about tests and filters, or forbidden by the clause it stands in ("never run ...").

Undoing disguises (spacing, digits for letters, base64) is the work of `finding`; it hands
over texts already folded by `kode.memory.scan.characters.folded`.
"""

import re
from collections.abc import Sequence

from kode.memory.scan import company, frames, likeness, phrases
from kode.memory.scan.order import Orders
from kode.memory.scan.sentences import Sentence, sentences

ORDERS = Orders(*phrases.PHRASES, *company.ORDERS)
"""Every pattern, over a text folded to Latin letters and lower case."""

CORE = Orders(*phrases.CORE)
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


def find(text: str, parts: Sequence[Sentence]) -> tuple[int, int, str] | None:
    """An order in a folded text that nothing excuses: start, end and category. `parts` are the
    sentences of the text."""
    found = _unexcused(text, parts, ORDERS)
    if found:
        return found
    for start, end, category in frames.find(text, parts):
        if not excused(text, start, end, category):
            return start, end, category
    for start, end, category in likeness.find(text, parts):
        if not _is_about_orders(text[start:end]) and not excused(text, start, end, category):
            return start, end, category
    return None


def find_core(text: str) -> tuple[int, int, str] | None:
    """The same for a text whose disguise was undone by guess: the plainest orders only."""
    return _unexcused(text, sentences(text), CORE)


def _unexcused(text: str, parts: Sequence[Sentence], orders: Orders) -> tuple[int, int, str] | None:
    for one, match in orders.matches(text, parts):
        if not excused(text, match.start(), match.end(), one.category):
            return match.start(), match.end(), one.category
    return None


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
    r"lint\w*|warn\w*|risky|danger\w*|unsafe|insecure|tutorials?|papers?|calls?|why|block ?lists?|deny ?lists?|suspicious|error messages?|catch\w*|caught|template|delimit\w*|separator|forbid\w*)\b"
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
_ADVISES = re.compile(r"\b(?:tell|ask|advise|remind) (?:[\w']+ ){0,2}[\w']+$")
_TO_DO = re.compile(r" to (?!me\b|us\b)[a-z]")
"""Tells people not what was done but what to do: `do not tell anyone to use sudo`."""
_OWN = re.compile(
    r"\b(?:my(?! (?:\w+ )?(?:instruct|orders?|notes?|wish|rules?|command|memo))|i'm|i am|i have|i was)\b"
)
_PRIVATE = re.compile(
    r"\b(?:users?|customers?|clients?|owners?|people|persons?|humans?)(?:'s|s') (?:\w+ ){0,2}?(?:e?-?mails?|"
    r"address(?:es)?|names?|passwords?|phones?|ips?|tokens?|data|ids?|accounts?|locations?|profiles?|balances?|"
    r"details|inputs?|pins?|age|birth\w*|cookies?|secrets?|keys?)\b"
)
"""What programs keep to themselves: `never log the user's email`."""
_PERSON = re.compile(
    r"\b(?:user|human|operator|owner|anyone|anybody|reviewer|maintainer)s?\b(?!'|s')"
)
_CLEANS = re.compile(
    r"(?:traces?|mentions?|references?|signs?) (?:of|to) (?!this|that|it|these|your|what|the)[\w.-]+ (?:\w+ )?"
    r"from (?:the |all |our )?(?:\w+ )?(?:bundle|code\w*|css|docs?|readme|build|apps?|schema|configs?|images?|tests?|"
    r"packages?|dependencies|imports?|types?)\b"
)
_OF_USERS = re.compile(
    r"(?:the )?(?:users|customers|owners|maintainers|reviewers) (?:are|were) (?:not|never|no longer) (?!to\b|supposed|allowed)"
)
"""Tells what software does not tell its users."""
_NOT_YET_PUBLIC = re.compile(
    r"\bkeep (?:the|these|this|those|your|all) (?:\w+ ){0,2}?(?:tokens?|keys?|passwords?|passphrases?|values?|"
    r"credentials?|seeds?|pins?|certificates?) (?:secret|confidential|hidden|private)\b|"
    r"\b(?:secret|confidential|quiet) (?:un)?till? (?:the |we |it )?(?:\w+ )?(?:releas|launch|announc|ship|embargo|public)"
)
_MARKUP_TALK = re.compile(
    r"\b(?:elements?|components?|tags?|nodes?|(?:prompt |chat )?templates?|llama|mistral|chatml|librar(?:y|ies)|header|columns?|prefix|parsers?|sections?|ini|keys?|labels?|"
    r"rendered|renders?|attributes?|xml|html|vue|react|svelte|schema|markup|syntax|block|blocks|"
    r"escape|strip|strips|selector|custom|regex\w*|patterns?|saniti\w+|filters?|shorthand|dsl|notation|placeholders?)\b"
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
    if category == "concealment" and _hides_nothing(text, start, end):
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


def _is_kept_by_software(text: str, start: int, end: int) -> bool:
    """Says what software tells nobody, or what is taken out of it; not what to keep from the reader
    of this."""
    high = min(len(text), end + 60)
    if _PRIVATE.search(text, start, high):
        return _PERSON.search(text, start, high) is None
    return any(
        pattern.search(text, start, high) for pattern in (_OF_USERS, _CLEANS, _NOT_YET_PUBLIC)
    )


def _is_about_orders(sentence: str) -> bool:
    """Quotes something in a sentence about tests and filters, or says what is done with such."""
    if _HANDLED.search(sentence):
        return True
    rest, quotations = _QUOTED.subn(" ", sentence)
    return quotations > 0 and _ABOUT.search(rest) is not None


def _hides_nothing(text: str, start: int, end: int) -> bool:
    """Whether what is not to be told is no business of the reader's: told in confidence, advice on
    what to do, or what software keeps to itself."""
    return (
        _is_told_in_confidence(text, start, end)
        or (_ADVISES.search(text, start, end) is not None and _TO_DO.match(text, end) is not None)
        or _is_kept_by_software(text, start, end)
    )


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
