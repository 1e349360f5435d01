"""Changing a vault file: write, patch, append, undo. All or nothing, scanned, in the history first.

Not here: what a path may be (`names`), the summary line (`summary`), wording for the model
(`tools`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kode.errors import MemoryError_
from kode.memory import scan
from kode.memory.history import Author, Change, History, refuse_redacted
from kode.memory.vault import summary as summaries
from kode.memory.vault.files import VaultFiles, fingerprint, is_facts, size_words
from kode.memory.vault.names import (
    checked_name,
    is_episodes,
    is_month,
    month_file,
    title_of,
)
from kode.shorten import shorten

if TYPE_CHECKING:
    from kode.config.model import Vault

SYSTEM = "vault"
MAX_WRITE_BYTES = 65_536
"""Of one write or entry: more is no note but a document, which belongs into a file of its own."""
QUOTED_CHARS = 80
OF_AN_ENTRY = " of an entry"
"""Ends the reason of a taken back append, so that this can be taken back in turn."""


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """One patch: a text that is found exactly once, and what stands there afterwards."""

    old_text: str
    new_text: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    name: str
    line: str
    """One line for a person: `appended to episodes/2026-03.md "Logger fix"`."""
    detail: str = ""
    change_id: str = ""
    """"" when nothing was changed."""
    applied: int = 0
    """How many patches."""


class VaultWriter:
    """The operations on the vault, by one author's hand.

    `seen` holds the versions of files that the author has read or written (name → fingerprint):
    writing over a file that somebody else has changed since is refused.
    """

    def __init__(
        self, files: VaultFiles, history: History, settings: "Vault", seen: dict[str, str]
    ) -> None:
        self.files = files
        self._history = history
        self._budget_bytes = settings.facts_budget_bytes
        allowlist = settings.facts_allowlist
        self._allowed = None if allowlist is None else {n.removeprefix("facts/") for n in allowlist}
        self.seen = seen

    def read(self, path: str) -> tuple[str, str]:
        """Name and text of a file. Raises: MemoryError_ when there is none."""
        name = checked_name(path)
        text = self.files.read(name)
        if text is None:
            listed = ", ".join(self.files.names()[:20]) or "nothing"
            raise MemoryError_(f"There is no {name}. Memory holds: {listed}.")
        self.seen[name] = fingerprint(text)
        return name, text

    async def write(self, path: str, content: str, author: Author) -> Outcome:
        """Creates or overwrites a file, with its summary made anew.

        Raises: MemoryError_ (refused, no room), StorageError, BusyError; then nothing changed.
        """
        name = self._writable(path)
        body = _checked(content)
        async with self.files.lock():
            before = self.files.read(name)
            self._check_not_stale(name, before)
            _check_keeps_episodes(name, before, body)
            after = _ending(_summarized(name, body))
            counted = len(content.encode(errors="replace"))
            self._check_budget(name, before, counted)
            verb = "wrote" if before is not None else "created"
            parts = (() if before is None else (before,), (after,))
            return self._put(name, before, after, "write", parts, author, verb, _sized(after))

    async def patch(self, path: str, patches: Sequence[Replacement], author: Author) -> Outcome:
        """Applies patches in order, all or none. Raises as `write`."""
        name = self._writable(path)
        if not patches:
            raise MemoryError_("`patches` is empty: give at least one {oldText, newText}.")
        for patch in patches:
            scan.check(patch.new_text, max_chars=MAX_WRITE_BYTES)
        async with self.files.lock():
            before = self.files.read(name)
            if before is None:
                raise MemoryError_(f"There is no {name} to patch. `memory_write` creates it.")
            after = _patched(name, before, patches)
            if after == before:
                raise MemoryError_(f"The patches change nothing in {name}. Nothing was written.")
            if not scan.scan(before):
                scan.check(after)  # two harmless patches may make one harmful text
            self._check_budget(name, before, _counted(after))
            outcome = self._put(
                name,
                before,
                after,
                "patch",
                ((before,), (after,)),
                author,
                "patched",
                f'"{_quoted(patches[-1].new_text or "(removed)")}"',
            )
        return Outcome(**{**outcome.__dict__, "applied": len(patches)})

    async def append(
        self, path: str, entry: str, author: Author, now: datetime, *, summary: str | None = None
    ) -> Outcome:
        """Adds an entry at the end of a file, creating it with a title; `summary` overrides the one
        made from the entries. Episodes go to the month of `now`, whatever month was asked for.

        Raises as `write`.
        """
        name = self._writable(path, month_file(now))
        block = _checked(entry).strip()
        if is_episodes(name) and not any(line.startswith("## ") for line in block.split("\n")):
            block = f"## {now:%Y-%m-%d %H:%M}\n{block}"
        if summary is not None:
            scan.check(summary, max_chars=MAX_WRITE_BYTES)
        outcome = await self._add_entry(name, block, author, summary=summary)
        asked = checked_name(path)
        detail = "" if asked == name else f"stored under {name}, the present month, not {asked}"
        return Outcome(**{**outcome.__dict__, "detail": detail})

    async def _add_entry(
        self, name: str, block: str, author: Author, *, summary: str | None = None
    ) -> Outcome:
        async with self.files.lock():
            before = self.files.read(name)
            if author.who != "model" and before is not None and _holds(before, block):
                return Outcome(name=name, line=f"{name} holds this entry already")
            body = (before or title_of(name)).rstrip("\n")
            gap = "\n" if is_facts(name) and _both_bullets(body, block) else "\n\n"
            after = f"{body}{gap}{block}\n"
            given = summaries.clean(summary) if summary is not None else ""
            after = summaries.with_summary(after, given) if given else _summarized(name, after)
            self._check_budget(name, before, _counted(after))
            return self._put(
                name, before, after, "append", ((), (block,)), author, "appended to", ""
            )

    async def undo(self, change: Change, author: Author) -> Outcome:
        """Takes back one change, if what it left is still there.

        Raises: MemoryError_ with what stands in the way; StorageError, BusyError.
        """
        name = checked_name(change.target.removeprefix(f"{SYSTEM}/"))
        refuse_redacted(change, f"Edit {self.files.root / name} by hand.")
        async with self.files.lock():
            now = self.files.read(name)
            after = _taken_back(name, now, change)
            written = self._history.append(
                Change(
                    kind="undo",
                    target=change.target,
                    system=SYSTEM,
                    who=author.who,
                    before=change.after,
                    after=change.before,
                    reason=f"undoes {change.kind} {change.id}"
                    + (OF_AN_ENTRY if _is_of_an_entry(change) else ""),
                    session=author.session,
                    turn=author.turn,
                    undoes=change.id,
                )
            )
            if after is None:
                self.files.remove(name)
            else:
                self.files.write(name, after)
        return Outcome(
            name=name,
            line=f"undid {change.kind} {change.id} in {name}",
            change_id=written.id,
        )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _writable(self, path: str, month: str | None = None) -> str:
        """The name that a write goes to: with `month`, episodes go there."""
        name = checked_name(path)
        if is_episodes(name):
            if month is not None:
                return month
            if not is_month(name):
                raise MemoryError_(
                    f"{name}: episodes are kept by month, as episodes/2026-03.md. "
                    "Use `memory_append`, which finds the month."
                )
            return name
        if self._allowed is not None and name.removeprefix("facts/") not in self._allowed:
            allowed = ", ".join(f"facts/{n}" for n in sorted(self._allowed)) or "none"
            raise MemoryError_(
                f"{name} is not among the facts files that may be written: {allowed}. "
                "Put it into one of them. Nothing was changed."
            )
        return name

    def _check_not_stale(self, name: str, before: str | None) -> None:
        known = self.seen.get(name)
        if known is not None and known != fingerprint(before):
            raise MemoryError_(
                f"{name} was changed since you read it, by the user or another session. "
                "Read it again with `memory_read`, then write. Nothing was changed."
            )

    def _check_budget(self, name: str, before: str | None, counted: int) -> None:
        """`counted`: the bytes that the file would have, without its generated summary."""
        if self._budget_bytes is None or not is_facts(name):
            return
        own = _counted(before) if before is not None else 0
        others = sum(_counted(self.files.read(n) or "") for n in self.files.names() if is_facts(n))
        total = others - own + counted
        if total <= self._budget_bytes or counted < own:
            return
        raise MemoryError_(
            f"The facts would take {total:,} bytes, over their budget of "
            f"{self._budget_bytes:,}; they take {others:,} now. Condense {name} (say the same in "
            "less, drop what is no longer true), then try again. Nothing was changed."
        )

    def _put(
        self,
        name: str,
        before: str | None,
        after: str,
        kind: str,
        parts: tuple[tuple[str, ...], tuple[str, ...]],
        author: Author,
        verb: str,
        told: str,
    ) -> Outcome:
        """History first, then the file: a crash in between loses nothing. Inside the lock."""
        if after == before:
            return Outcome(name=name, line=f"{name} reads so already")
        change = self._history.append(
            Change(
                kind=kind,
                target=f"{SYSTEM}/{name}",
                system=SYSTEM,
                who=author.who,
                before=parts[0],
                after=parts[1],
                reason="created" if before is None else "",
                session=author.session,
                turn=author.turn,
            )
        )
        self.files.write(name, after)
        # Who has not seen what stood there must not write over it unread later.
        if before is None or kind == "write" or self.seen.get(name) == fingerprint(before):
            self.seen[name] = fingerprint(after)
        told = told or f'"{_quoted(parts[1][0])}"'
        return Outcome(name=name, line=f"{verb} {name} {told}", change_id=change.id)


def _checked(content: str) -> str:
    text = content.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if not text.strip():
        raise MemoryError_("There is nothing to write: give the text in Markdown.")
    scan.check(text, max_chars=MAX_WRITE_BYTES)
    return text


def _summarized(name: str, text: str) -> str:
    """`text` with the summary that it gives; one that gives none keeps what it has."""
    made = summaries.made_from(text, episodes=is_episodes(name))
    return summaries.with_summary(text, made) if made else text


def _patched(name: str, before: str, patches: Sequence[Replacement]) -> str:
    """Raises: MemoryError_ naming the text that is missing or ambiguous."""
    text = before
    for number, patch in enumerate(patches, 1):
        old = patch.old_text.replace("\r\n", "\n")
        count = text.count(old) if old else 0
        if count != 1:
            found = f"occurs {count} times" if count else "was not found"
            hint = "Quote more of the lines around it" if count else "Read the file again"
            what = f'"{_quoted(old)}"' if old else "an empty text"
            raise MemoryError_(
                f"Patch {number} of {len(patches)}: oldText {what} {found} in {name}. "
                f"{hint}, then send all patches again. Nothing was changed."
            )
        at = text.index(old)
        text = text[:at] + patch.new_text.replace("\r\n", "\n") + text[at + len(old) :]
    made = summaries.made_from(before, episodes=is_episodes(name))
    was = summaries.summary_of(before)
    # A summary that was made stays made; one that somebody worded stays theirs.
    if was and was == made and summaries.summary_of(text) == was:
        text = _summarized(name, text)
    return text


def _check_keeps_episodes(name: str, before: str | None, body: str) -> None:
    """A month may be mended by writing it anew, but not lose an episode on the way."""
    if not is_episodes(name) or before is None:
        return
    kept = set(body.split("\n"))
    lost = [x for x in before.split("\n") if x.startswith("## ") and x not in kept]
    if lost:
        raise MemoryError_(
            f'{name} would lose {len(lost)} episodes, among them "{_quoted(lost[0][3:])}". '
            "Use `memory_append` to add one, or `memory_patch` to change one. Nothing was changed."
        )


def _taken_back(name: str, now: str | None, change: Change) -> str | None:
    """The text of the file without the change; None for no file."""
    if _is_of_an_entry(change):
        if change.after and now is not None and _holds(now, change.after[0]):
            return _without_entry(name, now, change.after[0])
        if change.before and (now is None or not _holds(now, change.before[0])):
            body = (now or title_of(name)).rstrip("\n")
            return _ending(_summarized(name, f"{body}\n\n{change.before[0]}"))
    elif _same(now, change.after[0] if change.after else None):
        return change.before[0] if change.before else None
    raise MemoryError_(
        f"{name} was changed since {change.id}. Undo the later change first (`kode memory log`), "
        f"or edit the file by hand."
    )


def _is_of_an_entry(change: Change) -> bool:
    """Whether `before` and `after` hold one entry instead of the whole file."""
    return change.kind == "append" or change.reason.endswith(OF_AN_ENTRY)


def _without_entry(name: str, text: str, entry: str) -> str | None:
    """None when nothing but the title is left."""
    at = f"\n{text}".rindex(f"\n{entry}\n")
    rest = f"{text[:at].rstrip(chr(10))}\n{text[at + len(entry) + 1 :]}"
    if summaries.without_summary(rest).strip() in ("", title_of(name)):
        return None
    return _ending(_summarized(name, rest))


def _same(one: str | None, other: str | None) -> bool:
    """Whether two texts differ in no more than the summary and blank lines."""
    if one is None or other is None:
        return one is other
    lines = (
        [x for x in summaries.without_summary(t).split("\n") if x.strip()] for t in (one, other)
    )
    return next(lines) == next(lines)


def _holds(text: str, block: str) -> bool:
    return f"\n{block}\n" in f"\n{text}"


def _both_bullets(body: str, block: str) -> bool:
    last = body.rpartition("\n")[2].lstrip()
    return last.startswith(("- ", "* ")) and block.startswith(("- ", "* "))


def _counted(text: str) -> int:
    return len(summaries.without_summary(text).encode(errors="replace"))


def _sized(text: str) -> str:
    return f"({size_words(len(text.encode(errors='replace')))})"


def _ending(text: str) -> str:
    return text.rstrip("\n") + "\n"


def _quoted(text: str) -> str:
    return shorten(text.lstrip("# "), QUOTED_CHARS)
