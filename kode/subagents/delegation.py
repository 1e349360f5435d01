"""What a parent knows of its children: of all of them together, and of each."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode.contracts import SnapshotSection
from kode.engine.agent import Spend
from kode.messages import Usage
from kode.subagents.protocol import Answer, Question, Result, Start, Task

COMMAND = (sys.executable, "-P", "-m", "kode", "subagent")
"""`-P`: a project with a folder `kode` or a file `json.py` must not become part of the child."""

PATIENCE_S = 10.0
"""The child's own deadline is this much shorter than the parent's, so that it ends by itself with a
summary of how far it came."""

AskPerson = Callable[[Question, str], Awaitable[Answer]]
"""`await ask(question, asker)` puts a child's question to the person."""


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What a parent's children have in common."""

    folder: Path
    """`sessions/<id>/agents`; created with the first child."""
    session_id: str | None
    cwd: Path
    environment: Mapping[str, str]
    """Of the children themselves; without keys."""
    start: Callable[[], Start]
    """The first line for a child that is started now."""
    snapshot: Callable[[], Awaitable[tuple[SnapshotSection, ...]]]
    memory_system: str
    ask: AskPerson | None
    """None where no person can be asked."""
    spend: Spend
    """This process's; what its children use is added to it."""
    record: Callable[[Usage, float | None], None]
    """Keeps what a child has used, and what it cost in dollars (None: unknown). Must not raise."""
    max_concurrency: int
    timeout_s: float
    max_steps: int
    command: Sequence[str] = COMMAND
    patience_s: float = PATIENCE_S
    alive: "dict[str, Child]" = field(default_factory=dict)
    """By id; the children that are told what the others use."""


@dataclass
class Child:
    """One child as its parent sees it."""

    index: int
    task: Task
    folder: Path
    mark: str
    started: float = 0.0
    timeout_s: float = 0.0
    process: asyncio.subprocess.Process | None = None
    result: Result | None = None
    activity: str = "starting"
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    steps: int = 0
    untrusted: bool = False
    questions: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Those of it that wait for the person."""
    lines: int = 0
    flooded: bool = False
    stderr: bytes = b""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens
