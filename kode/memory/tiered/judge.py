"""Asking a model whether texts are one fact: a new one against its nearest, and pairs that waited.

No lock is held meanwhile. Not here: the words of the question (`merge`), what is written (`write`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kode.memory.ask import MemoryModel
from kode.memory.tiered import merge

if TYPE_CHECKING:
    from kode.config import MemoryConfig

TIMEOUT_S = 15.0
TOKENS_A_PAIR = 12

Similarities = Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]]
"""How near a new text is to each entry; None leaves it to the words."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What becomes of a new text among the entries it was compared with."""

    known: str = ""
    """The entry that is the same text: nothing is written."""
    entry: str = ""
    """The entry that the model found to be one with it; "": it is added."""
    kept: str = ""
    """What remains of the two."""
    unjudged: tuple[str, ...] = ()
    """The entries that nobody could compare it with."""
    reason: str = ""


class Judge:
    """The questions of one session."""

    def __init__(
        self, door: MemoryModel, settings: "MemoryConfig", similarities: Similarities
    ) -> None:
        self._door = door
        self._settings = settings
        self._similarities = similarities

    async def compare(self, text: str, entries: Sequence[str]) -> Plan:
        """What to do with a text, by at most one question."""
        if text in entries:
            return Plan(known=text)
        if not self._settings.merge_on_write or not entries:
            return Plan()
        decision = merge.decide(
            text,
            entries,
            merge_threshold=self._settings.merge_threshold,
            add_threshold=self._settings.add_threshold,
            similarities=await self._similarities(text, entries),
        )
        near = tuple(entries[at] for at in decision.candidates)
        if decision.action == "add":
            return Plan(reason=decision.reason)
        if decision.action == "duplicate":
            return Plan(known=near[0], reason=decision.reason)
        system, prompt = merge.judge_prompt(text, near)
        answer = await self._door.ask(system, prompt, max_output_tokens=16, timeout_s=TIMEOUT_S)
        found = merge.read_judgment(answer.text or "", len(near))
        if found is None:
            why = answer.failure or "its answer was none of the words"
            return Plan(unjudged=near, reason=f"no judgment ({why})")
        word, number = found
        reason = f"the model judged: {word}"
        if word == "distinct":
            return Plan(reason=reason)
        entry = near[number]
        return Plan(entry=entry, kept=merge.kept(word, text, entry), reason=reason)

    async def review(
        self, pairs: Sequence[tuple[str, str]], timeout_s: float
    ) -> Sequence[merge.Word | None]:
        """The word on each pair of an entry and a new text, or None, by one question."""
        if not pairs:
            return ()
        system, prompt = merge.review_prompt(pairs)
        most = TOKENS_A_PAIR * len(pairs) + 16
        answer = await self._door.ask(system, prompt, max_output_tokens=most, timeout_s=timeout_s)
        return merge.read_review(answer.text or "", len(pairs))
