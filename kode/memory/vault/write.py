"""Changing a vault file: all or nothing, scanned, in the history first."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import replacing, scan
from kode.memory.base import Outcome
from kode.memory.change import (
    BY_HAND,
    REBUILD,
    Author,
    Change,
    nothing_left,
    refuse_redacted,
    undo_of,
)
from kode.memory.history import History
from kode.memory.lines import revert_lines
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


class VaultWriter:
    """Operations of one author on the vault.

    `seen` holds the file versions that the author was shown or has written (`replacing`).
    """

    def __init__(self, files: VaultFiles, history: History, settings: "Vault", seen: Seen) -> None:
        self.files = files
        self._history = history
        self._budget_bytes = settings.facts_budget_bytes
        allowlist = settings.facts_allowlist
        self._allowed = None if allowlist is None else {n.removeprefix("facts/") for n in allowlist}
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
        body, noticed = _check(content, author)
        async with self.files.lock():
            before = self.files.read(name)
            self._check_known(name, before, body, author, named)
            _check_keeps_episodes(name, before, body)
            after = _ending(_with_summary(name, body))
            self._check_budget(name, before, len(content.encode(errors="replace")))
            whole = () if before is None else (before,)
            change = self._change(author, "write", name, before, before=whole, after=(after,))
            size = size_words(len(after.encode(errors="replace")))
            line = f"{'created' if before is None else 'wrote'} {name} ({size})"
            return self._put(name, before, after, change, line, noticed)

    async def patch(self, path: str, patches: Sequence[Patch], author: Author) -> Outcome:
        """Applies patches in order, all or none. Raises as `write`."""
        name = self._writable(path)
        if not patches:
            raise MemoryRefused("`patches` is empty: give at least one {oldText, newText}.")
        for _, new in patches:
            scan.check(new)
        async with self.files.lock():
            before = self.files.read(name)
            if before is None:
                raise MemoryRefused(f"There is no {name} to patch. `memory_write` creates it.")
            after = _apply_patches(name, before, patches)
            if after == before and author.source_hash:
                return self._confirmed(name, patches[-1][1].strip(), author)
            if after == before:
                raise MemoryRefused(f"The patches change nothing in {name}. Nothing was written.")
            if not scan.scan(before):
                scan.check(
                    after, max_chars=len(after)
                )  # two harmless patches may form one harmful text
            self._check_budget(name, before, _counted(after))
            change = self._change(author, "patch", name, before, before=(before,), after=(after,))
            quoted = _quote(patches[-1][1] or "(removed)")
            return self._put(name, before, after, change, f'patched {name} "{quoted}"')

    async def append(
        self, path: str, entry: str, author: Author, now: datetime, *, summary: str | None = None
    ) -> Outcome:
        """Appends an entry to a file, creating it with a title; `summary` overrides the generated
        one. Episodes go to the month of `now`, whatever month was given.

        Raises as `write`.
        """
        name = self._writable(path, month_file(now))
        text, noticed = _check(entry, author)
        block = text.strip()
        if is_episodes(name) and not any(line.startswith("## ") for line in block.split("\n")):
            block = f"## {now:%Y-%m-%d %H:%M}\n{block}"
        if summary is not None:
            scan.check(summary)
        outcome = await self._add_entry(name, block, author, summary=summary)
        asked = checked_name(path)
        moved = "" if asked == name else f"stored under {name}, the present month, not {asked}"
        return replace(outcome, detail="; ".join(filter(None, (moved, noticed))))

    async def _add_entry(
        self, name: str, block: str, author: Author, *, summary: str | None = None
    ) -> Outcome:
        async with self.files.lock():
            before = self.files.read(name)
            if before is not None and _holds(before, block) and author.source_hash:
                return self._confirmed(name, block, author)
            if author.who != "model" and before is not None and _holds(before, block):
                return Outcome(line=f"{name} holds this entry already")
            after = with_entry(name, before, block)
            given = summaries.clean(summary) if summary is not None else ""
            after = summaries.with_summary(after, given) if given else _with_summary(name, after)
            self._check_budget(name, before, _counted(after))
            change = self._change(author, "append", name, before, after=(block,))
            return self._put(name, before, after, change, f'appended to {name} "{_quote(block)}"')

    def check(self, name: str, before: str | None, after: str | None) -> None:
        """Raises: MemoryRefused if a file may not become so, whoever writes it."""
        self._writable(name)
        if after is not None:
            _check_keeps_episodes(name, before, after)
            self._check_budget(name, before, _counted(after))

    def _confirmed(self, name: str, text: str, author: Author) -> Outcome:
        same = (text,)
        change = self._change(author, "confirm", name, text, before=same, after=same)
        written = self._history.append(change)
        return Outcome(line=f'confirmed in {name} "{_quote(text)}"', change_id=written.id)

    async def remove(self, path: str, author: Author) -> Outcome:
        """Removes a file with its content. Raises as `write`."""
        name = self._writable(path)
        async with self.files.lock():
            before = self.files.read(name)
            if before is None:
                raise MemoryRefused(f"There is no {name}. Nothing was changed.")
            self._check_known(name, before, "", author, (before,))
            change = self._change(author, "remove", name, before, before=(before,))
            with self._history.making(change) as written:
                self.files.remove(name)
            self.seen.pop(name, None)
        return Outcome(line=f"removed {name}", change_id=written.id)

    async def undo(self, change: Change, author: Author) -> Outcome:
        """Undoes one change, if its result is still there.

        Raises: MemoryRefused with the obstacle; StorageError, BusyError.
        """
        files, name = self.files.of_target(change.target)
        refuse_redacted(change, f"Edit {files.path(name)} by hand.")
        if change.before and change.before == change.after:  # it was a confirmation
            written = self._history.append(undo_of(change, author))
            return Outcome(line=f"undid {change.kind} {change.id}", change_id=written.id)
        async with files.lock():
            now = files.read(name)
            after = _revert(name, now, change)
            whole = {
                "before": () if now is None else (now,),
                "after": () if after is None else (after,),
            }
            undoing = undo_of(change, author, target=files.target(name), **whole)
            with self._history.making(undoing) as written:
                if after is None:
                    files.remove(name)
                else:
                    files.write(name, after)
        line = f"undid {change.kind} {change.id} in {name}"
        return Outcome(line=line, change_id=written.id)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _writable(self, path: str, month: str | None = None) -> str:
        """The name to write to: with `month`, episodes go there."""
        name = checked_name(path)
        if is_episodes(name):
            if month is not None:
                return month
            if not is_month(name):
                raise MemoryRefused(
                    f"{name}: episodes are kept by month, as episodes/2026-03.md. "
                    "Use `memory_append`, which finds the month."
                )
            return name
        if self._allowed is not None and name.removeprefix("facts/") not in self._allowed:
            allowed = ", ".join(f"facts/{n}" for n in sorted(self._allowed)) or "none"
            raise MemoryRefused(
                f"{name} is not among the facts files that may be written: {allowed}. "
                "Put it into one of them. Nothing was changed."
            )
        return name

    def _change(
        self, author: Author, kind: str, name: str, was: str | None, **texts: tuple[str, ...]
    ) -> Change:
        reason = "created" if was is None else ""
        return Change.by(author, SYSTEM, kind, self.files.target(name), reason=reason, **texts)

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

    def _check_budget(self, name: str, before: str | None, counted: int) -> None:
        """`counted`: the file's size in bytes, without its generated summary."""
        if self._budget_bytes is None or not is_facts(name):
            return
        own = _counted(before) if before is not None else 0
        others = sum(_counted(self.files.read(n) or "") for n in self.files.names() if is_facts(n))
        total = others - own + counted
        if total <= self._budget_bytes or counted < own:
            return
        raise MemoryRefused(
            f"The facts would take {total:,} bytes, over their budget of "
            f"{self._budget_bytes:,}; they take {others:,} now. Condense {name} (say the same in "
            "less, drop what is no longer true), then try again. Nothing was changed."
        )

    def _put(
        self,
        name: str,
        before: str | None,
        after: str,
        change: Change,
        line: str,
        detail: str = "",
    ) -> Outcome:
        """Records the change, then writes the file: a crash in between loses nothing. Call with the
        lock held."""
        if after == before:
            return Outcome(line=f"{name} reads so already")
        with self._history.making(change) as written:
            self.files.write(name, after)
        # A writer that has not seen the old content must not overwrite it unread later.
        if before is None or change.kind == "write" or self.seen.get(name) == version_of(before):
            self.seen[name] = version_of(after)
        return Outcome(line=line, detail=detail, change_id=written.id)


def with_entry(name: str, text: str | None, block: str) -> str:
    """The text of a file, None for a new one, with an entry at its end."""
    body = (text or title_of(name)).rstrip("\n")
    gap = "\n" if is_facts(name) and _both_bullets(body, block) else "\n\n"
    return f"{body}{gap}{block}\n"


def _check(content: str, author: Author) -> tuple[str, str]:
    """The text with normalized line ends, and the scan's remark on what a person wrote."""
    text = plain_lines(content).removeprefix("\ufeff")
    if not text.strip():
        raise MemoryRefused("There is nothing to write: give the text in Markdown.")
    return text, scan.check(text, author=author.who)


def _with_summary(name: str, text: str) -> str:
    """`text` with a generated summary; if none can be generated, the old one stays."""
    made = summaries.made_from(text, episodes=is_episodes(name))
    return summaries.with_summary(text, made) if made else text


def _apply_patches(name: str, before: str, patches: Sequence[Patch]) -> str:
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
        at = text.index(old)
        text = text[:at] + plain_lines(new) + text[at + len(old) :]
    made = summaries.made_from(before, episodes=is_episodes(name))
    was = summaries.summary_of(before)
    # A generated summary is regenerated; one that somebody worded stays.
    if was and was == made and summaries.summary_of(text) == was:
        text = _with_summary(name, text)
    return text


def _check_keeps_episodes(name: str, before: str | None, body: str) -> None:
    """A month may be corrected by rewriting it, but must not lose an episode."""
    if not is_episodes(name) or before is None:
        return
    kept = set(body.split("\n"))
    lost = [x for x in before.split("\n") if x.startswith("## ") and x not in kept]
    if lost:
        raise MemoryRefused(
            f'{name} would lose {len(lost)} episodes, among them "{_quote(lost[0][3:])}". '
            "Use `memory_append` to add one, or `memory_patch` to change one. Nothing was changed."
        )


def _revert(name: str, now: str | None, change: Change) -> str | None:
    """The text of the file without the change; None for no file. Raises: MemoryRefused."""
    before = change.before[0] if change.before else None
    after = change.after[0] if change.after else None
    if change.kind == "append":
        if not after or now is None or not _holds(now, after):
            raise nothing_left(change)
        return _without_entry(name, now, after)
    if _same(now, after):
        made_of_state = change.kind in (BY_HAND, REBUILD, "import")  # which leave a summary out
        if before and made_of_state and not summaries.summary_of(before):
            return _whole(name, before, now or "")
        return before
    if _same(now, before):
        raise nothing_left(change)
    texts = (summaries.without_summary(text or "") for text in (now, before, after))
    body = revert_lines(*texts)
    if body is None:
        raise MemoryRefused(
            f"{name} was changed since {change.id} in the same lines. Undo the later change first "
            "(`kode memory log`), or edit the file by hand."
        )
    return _whole(name, body, now or "")


def _whole(name: str, body: str, was: str) -> str | None:
    """A file with this text, None if only the title is left. Regenerates a generated summary; keeps
    one that somebody worded."""
    if body.strip() in ("", title_of(name).strip()):
        return None
    summary = worded_in(name, was)
    return _ending(summaries.with_summary(body, summary) if summary else _with_summary(name, body))


def worded_in(name: str, text: str) -> str:
    """The summary that somebody worded; "" if it was generated."""
    summary = summaries.summary_of(text)
    return "" if summary == summaries.made_from(text, episodes=is_episodes(name)) else summary


def _without_entry(name: str, text: str, entry: str) -> str | None:
    """None if only the title is left."""
    at = f"\n{text}".rindex(f"\n{entry}\n")
    rest = f"{text[:at].rstrip(chr(10))}\n{text[at + len(entry) + 1 :]}"
    return _whole(name, summaries.without_summary(rest), text)


def _same(one: str | None, other: str | None) -> bool:
    """Whether two texts differ only in the summary and blank lines."""
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


def _ending(text: str) -> str:
    return text.rstrip("\n") + "\n"


def _quote(text: str) -> str:
    return shorten(text.lstrip("# "), QUOTED_CHARS)
