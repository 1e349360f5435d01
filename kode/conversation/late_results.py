"""What subagents left when kode ended or was stopped, told to the model with the next message."""

from pathlib import Path

from kode.session.entries import TaintEntry
from kode.session.log import Session


async def late_results(agents: Path, session: Session, output_dir: Path) -> tuple[str, int]:
    """(a note for the model, how many results it tells) of the subagents whose records are in the
    folder `agents`, and whose results the session does not hold; ("", 0) without any. Ends those
    that nobody waits for. Untrusted text in a result taints the session.

    Raises: StorageError.
    """
    if not agents.is_dir():
        return "", 0
    from kode.subagents import records

    await records.settle(agents)
    late = records.unseen(agents, session.entries)
    if not late:
        return "", 0
    if any(map(records.is_tainted, late)):
        session.append(TaintEntry(source="a subagent"))
    return records.note(late, output_dir), len(late)
