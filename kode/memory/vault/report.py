"""Renders the index of the vault's files for a model. Text only."""

from collections.abc import Sequence
from dataclasses import replace

from kode import credentials
from kode.memory import frame
from kode.memory.vault.files import Row, VaultFiles, size_words
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


def _safe(summary: str) -> str:
    what = frame.suspicion(summary)
    return f"(not shown: it looks like {what})" if what else clean(credentials.redact(summary))
