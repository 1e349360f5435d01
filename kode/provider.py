"""A model behind a wire format: what is asked of it, and what kode knows about it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from kode.events import Emit
from kode.messages import Message
from kode.values import Value

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers, least first."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)

ThinkingType = Literal["adaptive", "enabled", "between_tools", "disabled"]
"""`thinking.type` of the Messages API."""

ToolFormat = Literal["kode", "patch", "editor"]
"""The form in which tools for files are offered; see `kode.tools.builtin`."""

Api = str
"""A wire format: `responses` (OpenAI's Responses), `chat` (Chat Completions), `messages`
(Anthropic's Messages), `scripted`, or one that a plug-in adds."""


class ModelInfo(Value):
    """What kode knows about a model. Prices are US dollars per million tokens; None is unknown."""

    context_window: int
    max_output_tokens: int
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    cache_write_price: float | None = None
    known: bool = False
    """True when the model's window is known, False when it is a cautious guess."""
    sees_images: bool | None = None
    """None: unknown; images are sent, and the server decides."""
    sees_pdf: bool | None = None
    efforts: tuple[Effort, ...] = ()
    """The levels that the model accepts, least first; (): it has no such setting, or none is
    known, and none is sent."""
    default_effort: Effort | None = None
    """What the vendor recommends for coding; None leaves it to the server."""
    thinking: tuple[ThinkingType, ...] = ()
    """The ways of thinking that the Messages API accepts for it; () where it has none, and in the
    other formats."""
    cache_marks: bool = False
    """Whether the Responses API takes `prompt_cache_breakpoint` and `prompt_cache_options`."""
    apis: tuple[Api, ...] = ()
    """The wire formats in which the vendor serves the model with tools; (): any."""
    searches: bool = False
    """Whether the vendor's server can search the web for it."""

    @property
    def is_priced(self) -> bool:
        """Whether kode can tell what a request costs: see `kode.providers.models.cost_usd`."""
        return self.input_price is not None and self.output_price is not None


class ToolSpec(Value):
    """How a tool is described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of an object."""
    api_type: str = ""
    """The type under which Anthropic's API knows the tool, with its own description and schema."""
    grammar: str = ""
    """In Lark's notation: the tool's only parameter is free text, where the API takes grammars."""


class Request(Value):
    system: str
    messages: Sequence[Message]
    """Every call has its result; the last message is from the user or from tools."""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    """None: the model's default (or its maximum, where the wire format requires a value)."""
    effort: Effort | None = None
    """How much to think, or the nearest level that the model has; None is its default."""
    conversation: str = ""
    """Names the session to the server, for its cache; "" for a single question."""
    search: bool = False
    """Whether the vendor's server may search the web, if it can."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema the server must enforce on the answer, which then has no calls."""
    small: bool = False
    """Whether the model is weak. A weak model misspells rare names unless it takes the likeliest
    token each time, and mistakes memory and other context for part of the task. So context that was
    recorded for one is sent as an answered message before the task, also to a stronger model later:
    the beginning of the conversation stays the same."""
    aside: bool = False
    """Whether the answer stays out of the conversation: a compaction's note, a side question's."""


class Provider(Protocol):
    """One model behind one wire format."""

    @property
    def name(self) -> str:
        """The name of its row in `kode.registry`, or in the config."""

    @property
    def model(self) -> str: ...

    @property
    def info(self) -> ModelInfo: ...

    async def reply(self, request: Request, emit: Emit) -> Message:
        """One attempt at one reply, which the loop retries; streams `TextDelta` and `ThinkingDelta`
        to `emit`. The message has a stop reason, usage where the server gave it, unique call ids
        and raw argument texts; with stop `length` its calls must not run.

        Raises: TransientError, ContextOverflow, RefusedError (also when the server cannot enforce
            `answer_schema`), AuthenticationError, CancelledError (the connection is closed).
        """

    async def aclose(self) -> None:
        """Closes connections. May be called twice."""


AskReply = Callable[[Request], Awaitable[Message]]
"""`await ask_reply(request)` → the model's message, in one attempt, which counts against the
session's budget. Raises ProviderError."""
