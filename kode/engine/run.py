"""One turn as it runs: what takes part in it, and what it has come to so far."""

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
    """The figures that end on disk and on the screen are counted here and nowhere else."""

    agent: Agent
    context: Context
    emit: Emit
    steering: Callable[[], Sequence[str]] = tuple
    """Hands over what the person has said since it was last called."""
    started: float = field(default_factory=time.monotonic)
    recorded: bool = False
    """Whether the person's text is on disk."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None once the price of a reply was unknown."""
    answer: str = ""
    files_changed: dict[str, None] = field(default_factory=dict)
    tools: list[tuple[str, str]] = field(default_factory=list)
    """(name, subject) of each call that ran."""
    begun: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Call id → subject and start (by the monotonic clock) of each call whose tool was started."""
    acted: bool = False
    held_back: bool = False
    """See `TurnEnded`."""
    denials: list[Denial] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    repeats: Repeats = field(default_factory=Repeats)
    untrusted: list[str] = field(default_factory=list)
    """Outside sources read that are not on disk yet."""

    def count(self, usage: Usage, cost_usd: float | None) -> None:
        """Counts a reply for the turn and for the budget."""
        self.usage += usage
        before = self.cost_usd
        self.cost_usd = None if cost_usd is None or before is None else before + cost_usd
        self.agent.spend.add(usage, cost_usd)
