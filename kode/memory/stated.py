"""Finds statements of the person that may be worth remembering, without a model.

A sentence that asks to remember something, or states what always holds, becomes a proposal for
`kode memory review`, unless an entry covers it by the end of the turn. It counts once the person
approves it.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from kode.contracts import MemoryContext, Turn
from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory import terms
from kode.memory.base import BaseMemory
from kode.memory.proposals import Proposals
from kode.messages import shorten

FOUND_BY = "kode, from a message"
MAX_TEXT_CHARS = 4_000
"""A longer message is mostly pasted."""
MAX_SENTENCE_CHARS = 300
MIN_WORDS = 4
MAX_A_TURN = 3
KNOWN_SHARE = 0.6
"""Share of a sentence's specific words in an entry that says the same."""

_LASTING = re.compile(r"\b(?:always|never|we use)\b", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])")
_CUES = terms.telling("remember note always never use mind forget")


async def propose(system: BaseMemory, context: MemoryContext, turn: Turn) -> None:
    """After a turn that `system` has processed: proposes what the person stated and no entry has.
    Raises: StorageError, BusyError."""
    sentences = stated(turn.text)
    if not sentences or context.read_only:
        return
    proposals = Proposals(context.root)
    known = [entry.text for entry in system.entries()]
    known += [one.text for one in await system.waiting()]
    known += [one.text for one in proposals.all()]
    for sentence in sentences:
        if is_known(sentence, known):
            continue
        with suppress(
            MemoryRefused
        ):  # too many waiting, or refused by the scan: nobody asked for it
            done = await proposals.propose(
                sentence,
                "project",
                client=FOUND_BY,
                project=system.project,
                now=context.now(),
                who="extraction",
                # In a session for another agent the messages are that agent's.
                own=not context.tainted(),
            )
            if done.change_id:
                line = f'"{shorten(sentence, 60)}" waits in `kode memory review`'
                context.emit(MemoryChanged(text=line, change_id=done.change_id))


def stated(text: str) -> list[str]:
    """The sentences of a message that state something lasting, at most `MAX_A_TURN`; no questions,
    no code, no quotations."""
    if len(text) > MAX_TEXT_CHARS:
        return []
    sentences = (" ".join(one.split()) for one in _SENTENCE.split(_CODE.sub("", text)) if one)
    found = dict.fromkeys(sentence for sentence in sentences if _is_lasting(sentence))
    return list(found)[:MAX_A_TURN]


def is_known(sentence: str, known: Iterable[str]) -> bool:
    """Whether a line of these texts says much the same."""
    wanted = terms.telling(sentence) - _CUES
    lines = (line for text in known for line in text.splitlines())
    return any(len(wanted & terms.telling(line)) >= KNOWN_SHARE * len(wanted) for line in lines)


def _is_lasting(sentence: str) -> bool:
    if len(sentence) > MAX_SENTENCE_CHARS or sentence.endswith(("?", "？")):
        return False
    if len(terms.terms_of(sentence)) < MIN_WORDS:
        return False
    return bool(_LASTING.search(sentence)) or asks_to_remember(sentence)


_WORDS = (
    # English
    r"remember|note|don['’]?t forget|do not forget|keep in mind|bear in mind",
    # German, Dutch, Swedish, Danish, Norwegian
    r"merke? (?:dir|es dir|dir das)|merk[’']s dir|notiere?|denke? (?:daran|dran)|"
    r"vergiss (?:nicht|das nicht)|behalte? im kopf",
    r"onthoud|onthou|noteer|vergeet niet|kom ihåg|glöm inte|husk|glem ikke",
    # French, Spanish, Portuguese, Italian, Romanian
    r"souviens[- ]toi|souvenez[- ]vous|rappelle[- ]toi|retiens|retenez|notez?|n['’]oubliez? pas",
    r"recuerda|recuérda(?:lo|me)|acuérdate|anota|apunta|no (?:te )?olvides",
    r"lembre(?:-se)?|lembra(?:-te)?|anote|não (?:te |se )?esqueças?",
    r"ricorda(?:ti)?|ricordati|annota|prendi nota|non dimenticare|ține minte|notează",
    # Polish, Czech, Russian, Ukrainian, Turkish, Greek
    r"zapamiętaj|pamiętaj|zanotuj|nie zapomnij|zapamatuj si|pamatuj si|nezapomeň",
    r"запомни(?:те)?|помни(?:те)?|запиши(?:те)?|не забудь(?:те)?|запам['’]?ятай(?:те)?",
    r"hatırla|unutma|not (?:al|et)|aklında tut|θυμήσου|σημείωσε|μην ξεχάσεις",
    # Arabic, Hebrew, Persian, Hindi, Vietnamese, Indonesian
    r"تذك[ّ]?ر|لا تنس[َى]?|זכור|זכרי|תזכור|תזכרי|به یاد داشته باش|یادت باشه",
    r"याद (?:रखना|रखो|रखें|रखिए)|ghi nhớ|hãy nhớ|nhớ rằng|ingat(?:lah)?|catat",
)
_UNSPACED = (
    "记住", "記住", "记下", "記下", "别忘", "別忘", "请记得", "請記得",
    "覚えて", "憶えて", "おぼえて", "メモして", "忘れないで", "기억해", "메모해",
    "잊지 마", "잊지마", "จำไว้", "อย่าลืม",
)  # fmt: skip

_ASKED = re.compile(rf"(?<![\w-])(?:{'|'.join(_WORDS)})(?![\w-])", re.IGNORECASE)
_TURNED_DOWN = re.compile(
    r"\b(?:do not|don['’]?t|never|no need to|needn['’]?t|not|stop) (?:ever |need to |have to )?$",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\b(?:do|did) (?:you|we|i) (?:still |even )?$", re.IGNORECASE)


def asks_to_remember(text: str) -> bool:
    """Whether `text` asks to remember; "do not note this" and "do you remember" do not."""
    if any(word in text for word in _UNSPACED):
        return True
    for found in _ASKED.finditer(text):
        before = text[max(0, found.start() - 40) : found.start()]
        if not _TURNED_DOWN.search(before) and not _QUESTION.search(before):
            return True
    return False
