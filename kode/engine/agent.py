"""The collaborators of a turn and the limits it keeps. Values and one counter.

`assembly.py` builds an Agent; nothing here knows a concrete provider, tool or memory system.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kode.contracts import (
    Around,
    Background,
    Gate,
    MemorySystem,
    Provider,
    Sandbox,
    Tool,
    ToolContext,
    ToolOutput,
)
from kode.engine.pace import Pace
from kode.extensions.brought import Brought
from kode.extensions.hook_moments import Hooks
from kode.messages import Usage
from kode.session.keeper import Keeper
from kode.session.marks import Marks
from kode.shared_budget import SharedBudget
from kode.workplace import Workplace


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_steps: int
    """Requests to the model in one turn."""
    max_tree_steps: int | None = None
    """Requests in one turn of all agents together: of a parent and its subagents; None: no limit
    beside `max_steps`."""
    timeout_s: float | None = None
    """Wall time of one turn; None: no limit."""
    max_budget_usd: float | None = None
    """Money for the life of this process's session; None: no limit."""
    max_attempts: int
    """Attempts at one reply."""
    compact_at: float
    """Share of the window at which the context is reduced."""
    keep_tool_output_tokens: int
    """The newest tool output that stays when old output is dropped."""
    keep_user_tokens: int
    """The person's own words that survive a compaction verbatim."""


@dataclass
class Spend:
    """What this process has spent so far: replies, compactions, memory and subagents. Together
    with what the rest of the tree has spent it is the one budget of a parent and its subagents."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    steps: int = 0
    """Requests in the present turn, those of its subagents included."""
    elsewhere_usd: float = 0.0
    elsewhere_steps: int = 0
    """For a subagent: of its parent and its siblings."""
    turn_ends_at: float | None = None
    """When the present turn must end, by `time.monotonic`; None: no limit."""

    shared: SharedBudget | None = None
    """What is spent together with kodes that are no part of this tree."""

    paces: defaultdict[str, Pace] = field(default_factory=lambda: defaultdict(Pace))
    """How fast each model has answered, by its name."""

    def begin_turn(self, ends_at: float | None) -> None:
        """From now on steps are counted for a new turn, which has until `ends_at`."""
        self.steps, self.turn_ends_at = 0, ends_at

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """Counts a request; one whose price is unknown (None) counts by its tokens alone. Raises:
        StorageError where what is spent together cannot be written."""
        self.usage += usage
        self.cost_usd += cost_usd or 0.0
        if self.shared is not None:
            self.shared.add(cost_usd or 0.0)


async def directly(
    tool: Tool,
    arguments: Mapping[str, Any],
    context: ToolContext,
    run: Callable[[], Awaitable[ToolOutput]],
) -> ToolOutput:
    """An `Around` that adds nothing."""
    return await run()


async def unchanged(by_person: bool, wish: str) -> str:
    """What is wanted of a compaction's note is what the person wants."""
    return wish


@dataclass(frozen=True, kw_only=True)
class Agent:
    provider: Provider
    tools: tuple[Tool, ...]
    """In the order they are sent, which never changes within a session."""
    gate: Gate
    memory: MemorySystem
    limits: Limits
    place: Workplace
    render_system: Callable[[Mapping[str, str]], Mapping[str, str]]
    """The sections that memory and extensions bring, by name → all sections of the system prompt in
    their order, without empty ones."""
    small: bool = False
    """Of the small profile: memory and where it works stand apart from what the person says; see
    `Request.context_apart`."""
    opening: Callable[[int], tuple[str, ...]] = lambda window: ()
    """A window in tokens → where it works, as sections: see `prompts.opening_sections`."""
    cost_usd: Callable[[Usage], float | None]
    """None when the model's price is unknown."""
    spend: Spend
    seen_files: dict[str, str]
    """Path → content hash, see `ToolContext.seen_files`."""
    keeper: Keeper
    """Keeps what undo needs, around each change."""
    marks: Marks
    """Which files hold what sessions left there that had read outside text."""
    brought: Brought = field(default_factory=Brought)
    """Skills, commands and agents that count where it works."""
    hooks: Hooks | None = None
    around: Around = directly
    """Runs each call that the gate has let pass: see `contracts.Around`."""
    before_compaction: Callable[[bool, str], Awaitable[str]] = unchanged
    """(whether a person asked for it, what they want of the note) → what is wanted of the note."""
    secrets: tuple[str, ...] = ()
    """Values that are masked in tool results: the key in use."""
    sandbox: Sandbox | None = None
    """Where commands are tried that nobody was asked about; None: there is none."""
    background: Background | None = None
    """See `ToolContext.background`."""
    report_bug: Callable[[BaseException], str] | None = None
    """Writes a log file about a fault in kode itself and says in one sentence where it is."""
