"""Renders the tiered memory for a person: show, status, the outcome of a change. Text only."""

from collections.abc import Sequence
from pathlib import Path

from kode import credentials
from kode.memory.change import origin_of
from kode.memory.ledger import Ledger
from kode.memory.lineage import Entry
from kode.memory.tiered.episode_files import Episode, summary_of
from kode.memory.tiered.facts import FactFile, shorten
from kode.messages import plural


def show(files: Sequence[FactFile], root: Path, ledger: Ledger, buffer: Sequence[str]) -> str:
    """Every entry with its origin, and the buffer; `root` is memory's folder."""
    parts = []
    for file in files:
        if file.scope == "project" and not file.entries:
            continue
        lines = [f"{file.label} · {file.fill} · {file.path}"]
        if not file.standing:
            lines.append("  (empty)")
        target = file.path.relative_to(root).as_posix()
        for entry in file.entries:
            if entry in file.archived and entry == file.in_archive[0]:
                lines.append(
                    f"{file.label}, archived: not in prompts, found by search · {file.archive_path}"
                )
            change = ledger.statement(Entry(target=target, key=entry, text=entry)).change
            came = f"    ({origin_of(change)})" if change else "    (edited by hand)"
            text = credentials.redact(entry).replace("\n", "\n    ")
            doubt = file.doubts.get(entry)
            hidden = ": not shown to a model" if doubt and doubt.expired else ""
            since = file.since.get(entry)
            stale = [f"    (since {since})"] if since else []
            stale += [f"    (may be stale: {doubt.why}{hidden})"] if doubt else []
            other = file.disputed.get(entry)
            if other:
                stale.append(f'    (not settled: contradicts "{shorten(other, 80)}")')
            if entry in file.unjudged:
                stale.append("    (not compared with a similar one)")
            lines += [f"  - {text}", came, *stale]
        parts.append("\n".join(lines))
    if buffer:
        parts.append("\n".join(["recent turns of this session", *(f"  {x}" for x in buffer)]))
    return "\n\n".join(parts)


def episodes(newest: Sequence[Episode], project: str) -> str:
    """The episodes, one per line, with the project's marked by `*`."""
    return "\n".join(
        f"{'*' if episode.project == project else ' '} {episode.session_id}  "
        f"{episode.updated_at[:10]}  {episode.turns:3} turns  {summary_of(episode.narrative)}"
        + ("" if episode.recallable else "  (waits for `kode memory approve`)")
        for episode in newest
    )


def episode(one: Episode) -> str:
    """One episode in full."""
    head = f"session {one.session_id} · {one.turns} turns · {one.created_at[:16]}"
    if one.updated_at[:10] != one.created_at[:10]:
        head += f" to {one.updated_at[:16]}"
    if not one.recallable:
        head += " · from untrusted content: waits for `kode memory approve`"
    return f"{head}\n\n{credentials.redact(one.text)}"


def _entries(file: FactFile) -> str:
    return plural(len(file.standing), "entry", "entries")


def status(root: Path, files: Sequence[FactFile], counts: tuple[int, int], pairs: int) -> str:
    """The system, its fill levels and what is pending."""
    episodes, pending = counts
    lines = ["system: tiered", f"folder: {root}"]
    lines += [
        f"{file.label}: {_entries(file)}, {file.fill}"
        for file in files
        if file.scope == "global" or file.entries
    ]
    lines.append(f"episodes: {episodes}")
    if pending:
        lines.append(f"sessions still to be noted: {pending} (done at the next start)")
    if pairs:
        lines.append(f"similar facts to compare: {pairs} (a model does that when a session ends)")
    return "\n".join(lines)
