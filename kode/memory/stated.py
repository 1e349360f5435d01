"""Finds statements of the person that may be worth remembering, without a model.

A sentence that asks to remember something, or states what always holds, becomes a proposal for
`kode memory review`, unless an entry covers it by the end of the turn. It becomes an entry once the
person approves it. Until then, if they typed it, it is quoted, with its date, in a later message
that it fits: a weak model may never call memory's tool.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import takewhile
from pathlib import Path

from kode.contracts import MemoryContext, Turn
from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory import frame, rank, terms, when
from kode.memory.base import BaseMemory
from kode.memory.history import Change
from kode.memory.proposals import FOLDER, Proposal, Proposals
from kode.memory.rank import Text
from kode.messages import ToolCall, ToolResult, shorten

FOUND_BY = "kode, from a message"
MAX_TEXT_CHARS = 4_000
"""A longer message is mostly pasted."""
MAX_SENTENCE_CHARS = 300
MIN_WORDS = 4
MAX_A_TURN = 3
NEAR_SHARE = 0.6
"""Share of a sentence's specific words in a text that is about the same."""
QUOTED = 3
"""How many statements go into one message."""
CHANGES_READ = 200
"""How many of the last changes may have settled a statement before it is quoted."""
ABOUT = (
    "The user said this in earlier sessions, the newest first. Memory has no entry of it yet, and "
    "it may have changed since."
)

_LASTING = re.compile(r"\b(?:always|never|we use)\b", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;。！？；])\s+|\n+|(?<=[。！？])")
_COLON = re.compile(r": |：")


async def recall(
    system: BaseMemory, context: MemoryContext, turn: Turn, in_session: set[str]
) -> str:
    """Quotes pending statements of the person that fit the turn's message, in a frame; "" for none.
    `in_session` holds the statements that the conversation contains already; adds these."""
    project = system.project  # looked for on disk
    here = [
        one
        for one in _own(context.root)
        if one.text not in in_session and Path(one.project) == project
    ]
    if not here:
        return ""
    texts = [Text("", one.text, when.stamp_of(one.at)) for one in here]
    ranked = rank.rank(turn.text, texts, context.now(), typo_chars=rank.RECALL_TYPO_CHARS)
    fitting = sorted(one.index for one in ranked if rank.fits(one))[::-1]
    if not fitting:
        return ""
    changes = system.history.tail(CHANGES_READ).changes
    said_now = stated(turn.text)
    quoted: list[Proposal] = []
    for one in (here[index] for index in fitting):
        if not any(is_near(one.text, text) for text in (*said_now, *_kept_since(one, changes))):
            quoted.append(one)
    quoted = quoted[:QUOTED]
    in_session |= {one.text for one in quoted}
    lines = [f"- {one.at[:10]}: {one.text}" for one in quoted]
    return frame.wrap(ABOUT, "\n".join(lines)) if lines else ""


def _own(root: Path) -> Sequence[Proposal]:
    """The pending statements of the person, oldest first."""
    try:
        changed_at = (root / FOLDER).stat().st_mtime_ns
    except OSError:
        return ()
    return _read_own(root, changed_at)


@lru_cache(maxsize=1)
def _read_own(root: Path, changed_at: int) -> Sequence[Proposal]:
    """Cached until the folder changes: an import may leave thousands of files in it."""
    return tuple(one for one in Proposals(root).all() if one.own)


async def propose(
    system: BaseMemory, context: MemoryContext, turn: Turn, in_session: set[str]
) -> None:
    """After a turn that `system` has processed: proposes what the person stated and no entry has,
    and adds it to `in_session`. Raises: StorageError, BusyError."""
    sentences = stated(turn.text)
    if not sentences or context.read_only:
        return
    proposals, project = Proposals(context.root), system.project  # looked for on disk
    known = [entry.text for entry in system.entries()]
    known += [one.text for one in await system.waiting()]
    known += [one.text for one in proposals.all() if Path(one.project) == project]
    kept_now = _kept_in(turn, {tool.name for tool in system.tools()})
    for sentence in sentences:
        if is_known(sentence, known) or any(is_near(sentence, text) for text in kept_now):
            continue
        in_session.add(sentence)
        with suppress(
            MemoryRefused
        ):  # too many waiting, or refused by the scan: nobody asked for it
            done = await proposals.propose(
                sentence,
                "project",
                client=FOUND_BY,
                project=project,
                now=context.now(),
                who="extraction",
                # In a session for another agent the messages are that agent's.
                own=context.typed(sentence) and not context.tainted(),
            )
            if done.change_id:
                line = f'"{shorten(sentence, 60)}" waits in `kode memory review`'
                context.emit(MemoryChanged(text=line, change_id=done.change_id))


def stated(text: str) -> list[str]:
    """What a message states as lasting, at most `MAX_A_TURN` sentences; no questions, no code, no
    quotations."""
    if len(text) > MAX_TEXT_CHARS:
        return []
    sentences = (" ".join(one.split()) for one in _SENTENCE.split(_CODE.sub("", text)) if one)
    found = dict.fromkeys(_fact(sentence) for sentence in sentences if _is_lasting(sentence))
    return list(found)[:MAX_A_TURN]


@cache
def _cues() -> frozenset[str]:
    return frozenset(
        terms.terms_of("please remember note that this keep in mind for later sessions")
    )


def is_known(sentence: str, known: Iterable[str]) -> bool:
    """Whether a line of these texts has all of its words: other words may be another fact."""
    wanted = set(terms.terms_of(sentence)) - _cues()
    return any(wanted <= set(terms.terms_of(line)) for text in known for line in text.splitlines())


def is_near(sentence: str, text: str) -> bool:
    """Whether a text seems to be about the same."""
    wanted = terms.telling(sentence) - _cues()
    return len(wanted & terms.telling(text)) >= NEAR_SHARE * len(wanted)


def _kept_in(turn: Turn, tools: Collection[str]) -> list[str]:
    """What the model passed to memory's tools in this turn, as JSON."""
    parts = [part for message in turn.messages for part in message.parts]
    failed = {one.call_id for one in parts if isinstance(one, ToolResult) and one.is_error}
    return [
        one.arguments
        for one in parts
        if isinstance(one, ToolCall) and one.name in tools and one.id not in failed
    ]


def _kept_since(proposal: Proposal, changes: Iterable[Change]) -> Iterator[str]:
    """Lines that came into memory since a statement, newer statements among them; `changes` are
    newest first."""
    of_it = f"proposed/{proposal.id}"
    for change in takewhile(lambda change: change.target != of_it, changes):
        before = set("\n".join(change.before).splitlines())
        yield from set("\n".join(change.after).splitlines()) - before


def _fact(sentence: str) -> str:
    """The sentence without "Remember this for later:" before it."""
    asking, *fact = _COLON.split(sentence, maxsplit=1)
    is_whole = len(terms.terms_of("".join(fact))) >= MIN_WORDS
    return fact[0] if is_whole and asks_to_remember(asking) else sentence


def _is_lasting(sentence: str) -> bool:
    if len(sentence) > MAX_SENTENCE_CHARS or sentence.endswith(("?", "？")):
        return False
    if not _LASTING.search(sentence) and not asks_to_remember(sentence):
        return False
    return len(terms.terms_of(sentence)) >= MIN_WORDS


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
    if not text.isascii() and any(word in text for word in _UNSPACED):
        return True
    for found in _ASKED.finditer(text):
        before = text[max(0, found.start() - 40) : found.start()]
        if not _TURNED_DOWN.search(before) and not _QUESTION.search(before):
            return True
    return False
