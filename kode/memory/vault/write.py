"""Changing a vault file: all or nothing, scanned, in the history first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import replacing, scan
from kode.memory.base import Outcome
from kode.memory.change import Author, Change
from kode.memory.history import History
from kode.memory.replacing import IN_PART, NotReplaced, Seen
from kode.memory.stored import plain_lines, version_of
from kode.memory.vault import summary as summaries
from kode.memory.vault.files import (
    SYSTEM,
    VaultFiles,
    checked_name,
    is_episodes,
    is_facts,
    is_month,
    month_file,
    size_words,
    title_of,
)
from kode.messages import shorten

if TYPE_CHECKING:
    from kode.config.model import Vault

QUOTED_CHARS = 80
READ_CHARS = 40_000
"""No model sees a longer file in full."""

Patch = tuple[str, str]
"""A text that occurs exactly once, and its replacement."""
_DID = {"write": "wrote", "patch": "patched", "append": "appended to", "remove": "removed"}


class VaultWriter:
    """Operations of one author on the vault.

    `seen` holds the file versions that the author was shown or has written (`replacing`).
    """

    def __init__(self, files: VaultFiles, history: History, settings: "Vault", seen: Seen) -> None:
        self.files = files
        self._history = history
        self._settings = settings
        self.seen = seen

    def read(self, path: str) -> tuple[str, str]:
        """Name and text of a file. Raises: MemoryRefused if there is none."""
        name = checked_name(path)
        text = self.files.read(name)
        if text is None:
            listed = ", ".join(self.files.names()[:20]) or "nothing"
            raise MemoryRefused(f"There is no {name}. Memory holds: {listed}.")
        self.seen[name] = version_of(text) if len(text) <= READ_CHARS else IN_PART
        return name, text

    async def write(
        self, path: str, content: str, author: Author, *, named: Sequence[str] = ()
    ) -> Outcome:
        """Creates or overwrites a file, with a new summary; `named` are the parts that the request
        names as what goes.

        Raises: MemoryRefused (refused, full), StorageError, BusyError; then nothing changed.
        """
        name = self._writable(path)
        body, noticed = _checked(content, author)

        def after(before: str | None) -> str:
            self._check_known(name, before, body, author, named)
            _check_keeps_episodes(name, before, body)
            return regenerated(name, body).rstrip("\n") + "\n"

        return replace(await self._make("write", name, author, after), detail=noticed)

    async def patch(self, path: str, patches: Sequence[Patch], author: Author) -> Outcome:
        """Applies patches in order, all or none. Raises as `write`."""
        name = self._writable(path)
        if not patches:
            raise MemoryRefused("`patches` is empty: give at least one {oldText, newText}.")
        for _, new in patches:
            scan.check(new)

        def after(before: str | None) -> str:
            if before is None:
                raise MemoryRefused(f"There is no {name} to patch. `memory_write` creates it.")
            text = _patched(name, before, patches)
            if not scan.scan(before):  # two harmless patches may form one harmful text
                scan.check(text, max_chars=len(text))
            return text

        entry = patches[-1][1].strip() or "(removed)"
        return await self._make("patch", name, author, after, entry=entry)

    async def append(
        self, path: str, entry: str, author: Author, now: datetime, *, summary: str | None = None
    ) -> Outcome:
        """Appends an entry to a file, creating it with a title; `summary` overrides the generated
        one. Episodes go to the month of `now`, whatever month was given.

        Raises as `write`.
        """
        asked = checked_name(path)
        name = month_file(now) if is_episodes(asked) else self._writable(asked)
        text, noticed = _checked(entry, author)
        block = as_entry(name, text, now)
        scan.check(summary or "")

        def after(before: str | None) -> str:
            if before is not None and holds(before, block):
                return before
            text = with_entry(name, before, block)
            given = summaries.clean(summary or "")
            return summaries.with_summary(text, given) if given else regenerated(name, text)

        outcome = await self._make("append", name, author, after, entry=block)
        moved = "" if asked == name else f"stored under {name}, the present month, not {asked}"
        return replace(outcome, detail="; ".join(filter(None, (moved, noticed))))

    async def remove(self, path: str, author: Author) -> Outcome:
        """Removes a file with its content. Raises as `write`."""
        name = self._writable(path)

        def after(before: str | None) -> None:
            if before is None:
                raise MemoryRefused(f"There is no {name}. Nothing was changed.")
            self._check_known(name, before, "", author, (before,))

        return await self._make("remove", name, author, after)

    def check(self, name: str, before: str | None, after: str | None) -> None:
        """Raises: MemoryRefused if a file may not become so, whoever writes it."""
        self._writable(name)
        budget = self._settings.facts_budget_bytes
        if budget is None or after is None or not is_facts(name):
            return
        own, counted = _counted(before or ""), _counted(after)
        facts = sum(_counted(self.files.read(n) or "") for n in self.files.names() if is_facts(n))
        total = facts - own + counted
        if total > budget and counted >= own:
            raise MemoryRefused(
                f"The facts would take {total:,} bytes, over their budget of {budget:,}; they take "
                f"{facts:,} now. Condense {name} (say the same in less, drop what is no longer "
                "true), then try again. Nothing was changed."
            )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _make(
        self,
        kind: str,
        name: str,
        author: Author,
        after: Callable[[str | None], str | None],
        *,
        entry: str = "",
    ) -> Outcome:
        """Makes one change: `after` says what becomes of the text, None for no file; `entry` is
        what it is about, where that is not the whole file."""
        async with self.files.lock():
            before = self.files.read(name)
            text = after(before)
            if text == before:
                return self._unchanged(name, author, entry)
            self.check(name, before, text)
            sides = {
                "before": () if before is None or kind == "append" else (before,),
                "after": () if text is None else (entry if kind == "append" else text,),
            }
            reason = "created" if before is None else ""
            target = self.files.target(name)
            change = Change.by(author, SYSTEM, kind, target, reason=reason, **sides)
            with self._history.making(change) as written:
                if text is None:
                    self.files.remove(name)
                else:
                    self.files.write(name, text)
        size = f" ({size_words(len((text or '').encode(errors='replace')))})"
        did = "created" if before is None and kind == "write" else _DID[kind]
        # A writer that has not seen the old content must not overwrite it unread later.
        if text is None:
            self.seen.pop(name, None)
        elif before is None or kind == "write" or self.seen.get(name) == version_of(before):
            self.seen[name] = version_of(text)
        about = f' "{_quote(entry)}"' if entry else size if text else ""
        return Outcome(line=f"{did} {name}{about}", change_id=written.id)

    def _unchanged(self, name: str, author: Author, entry: str) -> Outcome:
        """What stands there already is confirmed by an author who cites code."""
        if not (author.source_hash and entry):
            return Outcome(line=f"{name} reads so already")
        sides = {"before": (entry,), "after": (entry,)}
        change = Change.by(author, SYSTEM, "confirm", self.files.target(name), **sides)
        written = self._history.append(change)
        return Outcome(line=f'confirmed in {name} "{_quote(entry)}"', change_id=written.id)

    def _writable(self, path: str) -> str:
        """The name of a file that may be written. Raises: MemoryRefused."""
        name = checked_name(path)
        if is_episodes(name):
            if not is_month(name):
                raise MemoryRefused(
                    f"{name}: episodes are kept by month, as episodes/2026-03.md. "
                    "Use `memory_append`, which finds the month."
                )
            return name
        allowlist = self._settings.facts_allowlist
        names = sorted(f"facts/{one.removeprefix('facts/')}" for one in allowlist or ())
        if allowlist is not None and name not in names:
            raise MemoryRefused(
                f"{name} is not among the facts files that may be written: "
                f"{', '.join(names) or 'none'}. Put it into one of them. Nothing was changed."
            )
        return name

    def _check_known(
        self, name: str, before: str | None, after: str, author: Author, named: Sequence[str]
    ) -> None:
        if before is None:
            if self.seen.get(name):
                raise NotReplaced("changed", name, "It is gone: `memory_list` shows what there is.")
            return
        if author.who in ("model", "extraction"):
            replacing.check(
                self.seen,
                name,
                before,
                after,
                named=named,
                to_read="Read it with `memory_read`, then write all of it; or change lines with "
                "`memory_patch`, add some with `memory_append`.",
                to_lose="Name what goes as `oldText` of `memory_patch`, or write what still holds.",
            )


def as_entry(name: str, text: str, now: datetime) -> str:
    """A text as it stands in a file; an episode has a heading."""
    block = text.strip()
    if is_facts(name) or any(line.startswith("## ") for line in block.split("\n")):
        return block
    return f"## {now:%Y-%m-%d %H:%M}\n{block}"


def with_entry(name: str, text: str | None, block: str) -> str:
    """The text of a file, None for a new one, with an entry at its end."""
    body = (text or title_of(name)).rstrip("\n")
    bullets = ("- ", "* ")
    last = body.rpartition("\n")[2].lstrip()
    both = is_facts(name) and last.startswith(bullets) and block.startswith(bullets)
    return f"{body}{chr(10) if both else chr(10) * 2}{block}\n"


def holds(text: str, block: str) -> bool:
    """Whether an entry stands in a text, in lines of its own."""
    return f"\n{block}\n" in f"\n{text}\n"


def regenerated(name: str, text: str) -> str:
    """`text` with a generated summary; if none can be generated, the old one stays."""
    made = summaries.made_from(text, episodes=is_episodes(name))
    return summaries.with_summary(text, made) if made else text


def worded_in(name: str, text: str) -> str:
    """The summary that somebody worded; "" if it was generated."""
    summary = summaries.summary_of(text)
    return "" if summary == summaries.made_from(text, episodes=is_episodes(name)) else summary


def _checked(content: str, author: Author) -> tuple[str, str]:
    """The text with normalized line ends, and the scan's remark on what a person wrote."""
    text = plain_lines(content).removeprefix("\ufeff")
    if not text.strip():
        raise MemoryRefused("There is nothing to write: give the text in Markdown.")
    return text, scan.check(text, author=author.who)


def _patched(name: str, before: str, patches: Sequence[Patch]) -> str:
    """Raises: MemoryRefused naming the text that is missing or ambiguous."""
    text = before
    for number, (old, new) in enumerate(patches, 1):
        old = plain_lines(old)
        count = text.count(old) if old else 0
        if count != 1:
            found = f"occurs {count} times" if count else "was not found"
            hint = "Quote more of the lines around it" if count else "Read the file again"
            what = f'"{_quote(old)}"' if old else "an empty text"
            raise MemoryRefused(
                f"Patch {number} of {len(patches)}: oldText {what} {found} in {name}. "
                f"{hint}, then send all patches again. Nothing was changed."
            )
        text = text.replace(old, plain_lines(new))
    was = summaries.summary_of(before)
    is_made = was and was == summaries.summary_of(text) and not worded_in(name, before)
    return regenerated(name, text) if is_made else text


def _check_keeps_episodes(name: str, before: str | None, body: str) -> None:
    """A month may be corrected by rewriting it, but must not lose an episode."""
    kept = set(body.split("\n"))
    was = (before or "").split("\n") if is_episodes(name) else ()
    lost = [line for line in was if line.startswith("## ") and line not in kept]
    if lost:
        raise MemoryRefused(
            f'{name} would lose {len(lost)} episodes, among them "{_quote(lost[0][3:])}". '
            "Use `memory_append` to add one, or `memory_patch` to change one. Nothing was changed."
        )


def _counted(text: str) -> int:
    """Bytes, without the summary, which nobody chose."""
    return len(summaries.without_summary(text).strip("\n").encode(errors="replace"))


def _quote(text: str) -> str:
    return shorten(text.lstrip("# "), QUOTED_CHARS)
