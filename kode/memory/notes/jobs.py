"""What one job (a turn that used tools) was, as a note without a model; and what waits for one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kode import credentials
from kode.contracts import Turn
from kode.events import FINISHED
from kode.memory import scan
from kode.memory.queue import Item, Queue, details
from kode.messages import Message, ToolResult, first_of, shorten

JOB_TTL_DAYS = 7
TASK_CHARS = 300
OUTCOME_CHARS = 400
LISTED = 6

MEMORY_TOOLS = frozenset({"remember", "recall", "update_memory", "update_soul", "forget", "memory"})


def is_job(turn: Turn) -> bool:
    """Whether a turn did something beyond talking and remembering."""
    return any(name not in MEMORY_TOOLS for name, _ in turn.tools)


def without_memory(messages: Iterable[Message]) -> list[Message]:
    """Messages without what memory's own tools gave: that is no news of the session."""
    return [
        replace(
            message,
            parts=tuple(
                part
                for part in message.parts
                if not (isinstance(part, ToolResult) and part.name in MEMORY_TOOLS)
            ),
        )
        for message in messages
    ]


def job_summary(turn: Turn, cwd: Path) -> str | None:
    """Goal, actions and outcome in three lines; a part that the scan refuses is left out, and None
    when nothing is left."""
    parts = (
        ("Task: ", shorten(credentials.redact(turn.text), TASK_CHARS)),
        ("Done: ", credentials.redact(_actions(turn, cwd))),
        ("Outcome: ", _outcome(turn)),
    )
    lines = [f"{name}{text}" for name, text in parts if text and not scan.scan(text)]
    return "\n".join(lines) or None


def _actions(turn: Turn, cwd: Path) -> str:
    changed = [_short_path(path, cwd) for path in turn.files_changed]
    ran = [subject for name, subject in turn.tools if name == "shell" and subject]
    others = [name for name, _ in turn.tools if name not in MEMORY_TOOLS and name != "shell"]
    parts = []
    if changed:
        parts.append(f"changed {_some(changed)}")
    if ran:
        parts.append(f"ran {_some(f'`{shorten(command, 60)}`' for command in ran)}")
    if not parts and others:
        parts.append(f"used {_some(others)}")
    return "; ".join(parts)


def _outcome(turn: Turn) -> str:
    answer = shorten(credentials.redact(turn.answer), OUTCOME_CHARS)
    if turn.status in FINISHED:
        return answer or "done"
    return f"{turn.status}; {answer}" if answer else turn.status


def _some(texts: Iterable[str]) -> str:
    return ", ".join(first_of(list(dict.fromkeys(texts)), LISTED))


def _short_path(path: str, cwd: Path) -> str:
    try:
        return str(Path(path).relative_to(cwd))
    except ValueError:
        return path


@dataclass(frozen=True, kw_only=True)
class Queued:
    """What the queue keeps of an item besides."""

    sensitive: bool = False
    """Whether something that was said in the session is never to be shown."""
    scope: str = ""
    """That of its project's notes."""
    in_repository: bool = False
    """Whether what is found about the project holds in it alone."""


def open_queue(folder: Path) -> Queue:
    """What a model is to be asked about; `folder` is the database's."""
    return Queue(folder / "queue", Queued)


def details_of(item: Item) -> Queued:
    return details(Queued, item) or Queued()
