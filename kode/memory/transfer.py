"""`export`, `import` and `copy`: what a memory holds, out of it, into it, into another system.

Here: the order of steps and the words for a person. The form of a text is in `exchange`, what each
system's rows mean in its own `carry`.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kode import durable
from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory import exchange
from kode.memory.exchange import Carried
from kode.memory.scan import scan

MAX_IMPORT_BYTES = 64_000_000
LISTED = 40
TEXT_CHARS = 80


async def export(system: MemorySystem, file: Path | None) -> str:
    """The text, or with `file` (written 0600) one line about it. Raises: MemoryRefused,
    StorageError."""
    rows = await exchange.carrier_of(system).rows()
    text = exchange.written(rows)
    if file is None:
        return text.rstrip("\n")
    durable.replace(file, text.encode(errors="replace"))
    entries = "1 entry" if len(rows) == 1 else f"{len(rows)} entries"
    return f"exported {entries} of {system.name} to {file}"


async def import_(system: MemorySystem, file: Path) -> str:
    """Takes in what `export` wrote, edited or not: all of it, or nothing. Raises: MemoryRefused,
    StorageError."""
    rows = exchange.read(_read(file))
    others = [row for row in rows if row.row.get("system", system.name) != system.name]
    if others:
        other = others[0].row["system"]
        raise MemoryRefused(
            f"Nothing was imported: line {others[0].line} is of the {other} memory, and this is "
            f"{system.name}. Use `kode memory --memory {other} import`, then `kode memory copy "
            f"--from {other} --to {system.name}`."
        )
    taken = await exchange.carrier_of(system).take_rows(rows)
    lines = [f"imported {taken.added} new, {taken.changed} changed; {taken.known} were there"]
    if taken.change_ids:
        ids = taken.change_ids
        lines.append(f"undo with: kode memory undo {' · '.join(ids[:5])}")
    return "\n".join(lines)


async def copy(source: MemorySystem, target: MemorySystem, *, dry_run: bool) -> str:
    """Carries over what has a meaning in the target, and lists what has not; the source is only
    read. Raises: MemoryRefused, StorageError, BusyError."""
    pieces = await exchange.carrier_of(source).pieces()
    done = await exchange.carrier_of(target).take(pieces, dry_run=dry_run)
    counts = Counter(one.done for one in done)
    verb = "would be carried" if dry_run else "carried"
    lines = [
        f"{source.name} → {target.name}: {counts['carried']} {verb}, {counts['known']} there "
        f"already, {counts['left']} left out"
    ]
    lines += _section("carried" if not dry_run else "to be carried", "→", done, "carried")
    lines += _section("left out", "because", done, "left")
    return "\n".join(lines)


def _section(head: str, joint: str, done: Sequence[Carried], which: str) -> list[str]:
    found = [one for one in done if one.done == which]
    if not found:
        return []
    lines = [f"{head}:"]
    for one in found[:LISTED]:
        piece = one.piece
        hidden = piece.private or scan(piece.content) is not None
        line = " ".join(piece.content.split())
        text = "(not shown)" if hidden else line[:TEXT_CHARS] + ("…" if line[TEXT_CHARS:] else "")
        lines.append(f"  [{piece.origin}] {text} {joint} {one.why}")
    if len(found) > LISTED:
        lines.append(f"  ... and {len(found) - LISTED} more")
    return lines


def _read(file: Path) -> str:
    """Raises: MemoryRefused."""
    try:
        if file.stat().st_size > MAX_IMPORT_BYTES:
            raise MemoryRefused(f"{file} is larger than 64 MB. Import it in parts.")
        return file.read_bytes().decode()
    except OSError as error:
        raise MemoryRefused(
            f"{file} cannot be read: {error.strerror}. Name a file that `kode memory export` wrote."
        ) from error
    except UnicodeDecodeError as error:
        raise MemoryRefused(f"{file} is not UTF-8 text. Save it as UTF-8 and try again.") from error
