"""The collaborators of a turn and its limits. Values and one counter.

`assembly.py` builds an Agent; nothing here knows a concrete provider, tool or memory system.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from kode.errors import Unavailable
from kode.memory.contract import MemorySystem
from kode.messages import Usage
from kode.permissions.gate import Gate
from kode.provider import Effort, Provider, ToolFormat
from kode.session.provenance import Provenance
from kode.shared_budget import SharedBudget
from kode.tool import Around, Interceptor, Tool, ToolOutput
from kode.undo.undo import Undo
from kode.values import Value, dataclass, field
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.config.model import Config
    from kode.engine.command import AllowedCommand
    from kode.sandbox.sandbox import Attempt, Sandbox
    from kode.tools.background import BackgroundCommands

READ_SHARE = 0.1  # time to read a token, relative to writing one; only time limits depend on it
REPLIES = 5  # recent replies that count, by their median, so that one long wait does not matter


@dataclass
class Spend:
    """What this process has spent: replies, compactions, memory and subagents. With the rest of the
    tree's spending, it counts against one budget for a parent and its subagents."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    steps: int = 0
    """Requests in the current turn, including its subagents'."""
    rest_of_tree_usd: float = 0.0
    rest_of_tree_steps: int = 0
    """For a subagent: the requests of its parent and siblings."""
    max_tree_steps: int | None = None
    """For a subagent: the requests that its parent's turn may have, subagents included."""
    turn_ends_at: float | None = None
    """When the current turn must end, by `time.monotonic`; None: no limit."""
    shared: SharedBudget | None = None
    """The budget shared with kodes outside this tree."""
    paces: dict[str, list[float]] = field(default_factory=dict)
    """Model name → written tokens per second, for each of its last replies."""

    def count_request(
        self, usage: Usage, cost_usd: float | None, model: str = "", seconds: float = 0.0
    ) -> None:
        """Counts a request; an unknown price (None) counts only tokens. `seconds` is how long the
        model took, 0.0 if unknown. Raises: StorageError if the shared budget cannot be written."""
        self.usage += usage
        self.cost_usd += cost_usd or 0.0
        if self.shared is not None:
            self.shared.add(cost_usd or 0.0)
        if usage.output_tokens and seconds > 0:
            tokens = usage.output_tokens + READ_SHARE * (usage.input_tokens - usage.cached_tokens)
            self.paces[model] = [*self.paces.get(model, ()), tokens / seconds][-REPLIES:]

    def expected_s(self, model: str, input_tokens: int, output_tokens: int) -> float:
        """How long a reply of these sizes should take; 0.0 before the model's first reply."""
        paces = sorted(self.paces.get(model, ()))
        if not paces:
            return 0.0
        median = (paces[len(paces) // 2] + paces[~(len(paces) // 2)]) / 2
        return (output_tokens + input_tokens * READ_SHARE) / median


class Agent(Value):
    provider: Provider
    tools: tuple[Tool, ...]
    """In the order sent, which never changes within a session."""
    withheld: tuple[Tool, ...] = ()
    """Tools that are not offered, because nobody could allow their calls; a call that the model
    makes all the same is refused, with what would have allowed it."""
    gate: Gate
    memory: MemorySystem
    config: "Config"
    """Gives the limits of steps, time, money and attempts, and when to compact."""
    place: Workplace
    render_system: Callable[[Mapping[str, str]], Mapping[str, str]]
    """(sections of memory and extensions, by name) → all non-empty sections of the system prompt,
    in order."""
    small: bool = False
    """Whether the agent uses the small profile; see also `Request.small`."""
    opening: Callable[[int], Mapping[str, str]] = lambda window: {}
    """(window in tokens) → sections about the workplace: see `prompts.opening_sections`."""
    effort: Effort | None = None
    """How much the model thinks; None: the model's default."""
    servers: tuple[str, ...] = ()
    """The names of the MCP servers."""
    search: bool = False
    """Whether the vendor's server may search the web."""
    small_model: Provider | None = None
    """The model that the person named for small work."""
    spend: Spend
    tool_format: ToolFormat = "kode"
    """The form in which tools for files are offered."""
    seen_files: dict[str, str]
    """Path → content hash, see `ToolContext.seen_files`."""
    undo: Undo
    """Saves what undo needs, before and after each change."""
    marks: Provenance
    """Records which files hold text from sessions that had read outside text."""
    interceptors: tuple[Interceptor, ...] = ()
    """Judge each call in this order, before the gate."""
    around: Around | None = None
    """Runs each call that the gate has approved: see `tool.Around`."""
    before_compaction: Callable[[bool, str], Awaitable[str]] | None = None
    """(whether a person asked, their wish for the note) → the wish to use."""
    secrets: tuple[str, ...] = ()
    """Values to mask in tool results: the key in use."""
    fall_back: Callable[["Agent", Unavailable], Awaitable["Agent | None"]] | None = None
    """Returns the agent that continues a turn whose model is unavailable; None for none."""
    call_announced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the model has begun to write a call: the sandbox is tried meanwhile."""
    sandbox: "Sandbox | None" = None
    """Where commands that nobody approved are tried; None: there is none."""
    background: "BackgroundCommands | None" = None
    """See `ToolContext.background`."""
    late: "dict[asyncio.Task[ToolOutput], tuple[AllowedCommand, Attempt]]" = field(
        default_factory=dict
    )
    """Task that settles a background command's changes → that command; see `settle_ended`."""
    report_bug: Callable[[BaseException], str] | None = None
    """Writes a log file about a fault in kode and returns a sentence that says where it is."""
