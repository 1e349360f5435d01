"""Renders notes on sessions for a person and a model. Text only."""

from collections.abc import Sequence

from kode import credentials
from kode.memory.tiered.episode_files import Episode, summary_of


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
