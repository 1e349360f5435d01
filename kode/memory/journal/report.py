"""Renders the journal for a person: show and status. Text only."""

from kode import credentials
from kode.memory.change import origin_of
from kode.memory.history import History
from kode.memory.journal.files import MEMORY, JournalFiles, size_of
from kode.messages import plural, shorten

LATEST_ENTRIES = 5
ENTRY_CHARS = 300


def fill(memory: str, limit_bytes: int) -> str:
    """`12% (1,013/8,192 bytes)`."""
    size = size_of(memory)
    return f"{round(100 * size / limit_bytes)}% ({size:,}/{limit_bytes:,} bytes)"


def show(files: JournalFiles, memory: str, limit_bytes: int, history: History) -> str:
    """MEMORY.md with the change it came from, and the latest entries of the history."""
    entries = files.entries()
    if not memory and not entries:
        return ""
    last = history.origins(lambda change: (change.target,)).get(files.folder.target(MEMORY))
    by_hand = last is None or "".join(last.after) != memory
    edited = ", edited by hand since" if by_hand and last else ""
    came = origin_of(last, "last ") + edited
    head = f"── {MEMORY} · {fill(memory, limit_bytes)} · {files.root / MEMORY}"
    head += f" · {came} ──" if memory or last else " ──"
    parts = [f"{head}\n{credentials.redact(memory) or '(empty)'}"]
    if entries:
        listed = "\n".join(
            f"{entry.at}  {shorten(credentials.redact(entry.text), ENTRY_CHARS)}"
            for entry in entries[-LATEST_ENTRIES:][::-1]
        )
        some = f"the latest {LATEST_ENTRIES} of " if len(entries) > LATEST_ENTRIES else ""
        held = plural(len(entries), "entry", "entries")
        parts.append(f"── history · {some}{held} ──\n{listed}")
    return "\n\n".join(parts)


def status(files: JournalFiles, memory: str, limit_bytes: int, waiting: int) -> str:
    """The system, its fill level and what is pending."""
    over = " · is compressed at the next consolidation" if size_of(memory) > limit_bytes else ""
    lines = [
        "system: journal",
        f"folder: {files.root}",
        f"{MEMORY}: {fill(memory, limit_bytes)}{over}",
        f"history entries: {len(files.entries())}, files: {len(files.history_files())}",
    ]
    if waiting:
        lines.append(f"conversations still to be consolidated: {waiting} (done at the next start)")
    return "\n".join(lines)
