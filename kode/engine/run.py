"""One running turn: its collaborators and its totals so far."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kode.engine.agent import Agent
from kode.engine.context import Context
from kode.engine.evidence import Evidence
from kode.engine.repeats import Repeats
from kode.events import Denial, Emit
from kode.messages import Usage


@dataclass(kw_only=True)
class Run:
    """A running turn. The figures that end up on disk and on screen are counted only here."""

    agent: Agent
    context: Context
    emit: Emit
    steering: Callable[[], Sequence[str]] = tuple
    """Returns what the person has typed since the last call."""
    started: float = field(default_factory=time.monotonic)
    recorded: bool = False
    """Whether the person's text is on disk."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None once a reply had an unknown price."""
    answer: str = ""
    files_changed: dict[str, None] = field(default_factory=dict)
    tools: list[tuple[str, str]] = field(default_factory=list)
    """(name, subject) of each call that ran."""
    begun: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    """Call id → tool, subject and monotonic start time of each call whose tool started."""
    acted: bool = False
    held_back: bool = False
    """See `TurnEnded`."""
    denials: list[Denial] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    repeats: Repeats = field(default_factory=Repeats)
    untrusted: list[str] = field(default_factory=list)
    """Outside sources that were read but are not on disk yet."""

    def count(self, usage: Usage, cost_usd: float | None) -> None:
        """Adds a reply to the turn's totals and to the budget."""
        self.usage += usage
        before = self.cost_usd
        self.cost_usd = None if cost_usd is None or before is None else before + cost_usd
        self.agent.spend.add(usage, cost_usd)
