"""Renders the vault for a person and a model: the index, `show`, `status`. Text only."""

from collections.abc import Sequence
from dataclasses import replace

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import frame
from kode.memory.change import origin_of
from kode.memory.history import History
from kode.memory.vault.files import Row, VaultFiles, is_facts, size_words
from kode.memory.vault.summary import clean

NO_SUMMARY = "(no summary)"


def rows_of(files: VaultFiles) -> list[Row]:
    """The index for display: a summary that looks like an attack is withheld, and credentials are
    masked. Files are edited by hand, and their summaries are not framed."""
    return [replace(row, summary=_safe(row.summary)) for row in files.rows()]


def index_message(rows: Sequence[Row]) -> str:
    """The index for the model, in its documented format; "" for an empty vault."""
    if not rows:
        return ""
    return (
        "Available memory:\n" + index_lines(rows) + "\n\n"
        "Use memory_read to load relevant files before responding."
    )


def index_lines(rows: Sequence[Row]) -> str:
    return "\n".join(f"- {r.path} ({size_words(r.size)}): {r.summary or NO_SUMMARY}" for r in rows)


def withheld(files: VaultFiles) -> list[str]:
    """The files whose summary is not shown."""
    return [row.path for row in files.rows() if frame.suspicion(row.summary)]


def show(files: VaultFiles, history: History) -> str:
    """The index that the next session will see, then every file with its origin."""
    rows = rows_of(files)
    if not rows:
        return ""
    origins = history.origins(lambda change: (change.target,))
    parts = [index_message(rows)]
    for row in rows:
        came = origin_of(origins.get(files.target(row.path)), "last ")
        head = f"── {row.path} · {size_words(row.size)} · {came} ──"
        try:
            text = credentials.redact(files.read(row.path) or "").strip()
        except MemoryRefused as error:
            text = str(error)
        warning = frame.suspicion(text)
        note = f"(this looks like {warning}: check it)\n" if warning else ""
        parts.append(f"{head}\n{note}{text}")
    return "\n\n".join(parts)


def status(files: VaultFiles, budget_bytes: int | None, pending: int, given_up: int) -> str:
    """The system, its fill levels and what is pending."""
    rows = files.rows()
    facts = sum(row.size for row in rows if is_facts(row.path))
    episodes = sum(row.size for row in rows if not is_facts(row.path))
    of_budget = f" of {budget_bytes:,} bytes" if budget_bytes else ""
    lines = [
        "system: vault",
        f"folder: {files.folder.path}",
        f"facts: {sum(is_facts(r.path) for r in rows)} files, {size_words(facts)}{of_budget}",
        f"episodes: {sum(not is_facts(r.path) for r in rows)} months, {size_words(episodes)}",
    ]
    if pending:
        lines.append(f"tasks still to be reflected on: {pending} (done at the next start)")
    if given_up:
        lines.append(f"tasks given up after several attempts: {given_up} (in pending/)")
    return "\n".join(lines)


def _safe(summary: str) -> str:
    what = frame.suspicion(summary)
    return f"(not shown: it looks like {what})" if what else clean(credentials.redact(summary))
