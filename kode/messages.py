"""Messages and their parts, apart from a provider's wire format (`providers/`) and from the lines
of a session file (`session/entries.py`)."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from kode.values import Amounts, Value, field

Kind = TypeVar("Kind")
Role = Literal["user", "assistant", "tool"]

StopReason = Literal[
    "end", "tool_calls", "malformed_call", "length", "refusal", "interrupted", "paused"
]
"""Why an assistant message ended. `malformed_call`: its text looks like a tool call that cannot be
parsed. `length`: cut off by the token limit, so none of its calls may run. `interrupted`: the text
is what had arrived. `paused`: the vendor's server stopped while it ran its own tools, and continues
when the message is sent back."""

Own = Mapping[str, Any] | None
"""A part of a reply in the provider's own form, as it came, where that says more than the part's
other fields. It goes back unchanged to the `origin` of its message; others get the plain form."""


class Text(Value):
    text: str
    source: str = ""
    """Who added the text: "" is the person (in a user message) or the model; "steering" the person
    while a turn runs; else "opening", "memory", "news" (changes since the session's beginning),
    "attachment", "outside" (one from outside the working folders), "compaction", "note",
    "instructions" (a skill or command; survives compactions). All are sent to the model."""
    section_name: str = ""
    """Which section of the opening it is, `place`, `instructions` or `skills`; of memory's texts
    for a small model `memory` or `recall`, see `Request.small`; "" for other texts."""
    typed: str | None = None
    """The part that the person typed, if they pasted a block or piped text; None: all."""
    own: Own = None
    type: Literal["text"] = "text"


class Thinking(Value):
    """Reasoning of the model, sent back only to the origin that can verify it."""

    text: str = ""
    signature: str = ""
    redacted: str = ""
    """Opaque data of a redacted block; then `text` is empty."""
    origin: str = ""
    """Who produced it, as `anthropic/claude-...`; "" in a message that has an origin itself."""
    own: Own = None
    type: Literal["thinking"] = "thinking"


class ToolCall(Value):
    id: str
    """Unique within the session: the provider boundary repairs empty and duplicate ids."""
    name: str
    """Reduced to what every provider accepts: `[A-Za-z0-9_-]{1,64}`."""
    arguments: str
    """The raw argument text from the model. `kode.engine.call` parses it strictly."""
    written: str = ""
    """The text that the model wrote instead of a call, if the server did not parse it; the first
    call of a reply holds the text of all."""
    own: Own = None
    type: Literal["tool_call"] = "tool_call"

    def __post_init__(self) -> None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", self.name)[:64] or "unnamed"
        if name != self.name:  # else the call would go back with both names
            object.__setattr__(self, "name", name)
            object.__setattr__(self, "own", None)


class ServerItem(Value):
    """A part of a reply in the provider's own form alone, such as a search that the vendor's server
    made, with its results. Only its origin gets it back."""

    own: Mapping[str, Any] = field(default_factory=dict)
    """Empty if a credential in it was masked: then nobody gets it back."""
    text: str = ""
    """What it says, for a person and for another model; "" if nothing."""
    type: Literal["server_item"] = "server_item"


Cut = Literal["", "interrupted", "not_run", "unknown"]
"""How the end of its turn cut a call: while it ran; before it ran; `unknown` when the process was
killed, so that no result was stored."""

RefusedBy = Literal["person", "rule", "mode", "nobody", "hook", "plugin", "sandbox", "fault"]
"""`nobody`: nobody could be asked. `sandbox`: it could only run in one, and this machine has none.
`fault`: it was not possible: a full disk, a file that somebody else changed meanwhile."""


class Refusal(Value):
    """That a call, or a part of it, was refused."""

    by: RefusedBy
    message: str = ""
    """The person's words with it; of any other refusal the reason, in sentences; "" for none."""
    decisive: str = ""
    """The part of a command that decides, with its reason, in a sentence; "" if it is all of it."""
    passes: str = ""
    """The flag that would let it pass; "" if none would."""
    of: Literal["call", "outside", "changes"] = "call"
    """What was refused: the call; for a command that ran in the sandbox, that it runs again without
    it, or that what it changed is kept."""
    not_kept: tuple[str, ...] = ()
    """Of changes: the files and folders that were not kept, for a person."""

    @property
    def for_model(self) -> str:
        """The refusal in sentences."""
        if self.by == "nobody":
            return f"Denied: there is nobody to ask. {self.for_person}"
        then = "Do not try it another way; do something else, or ask what they want."
        return f"{self.for_person} {then}" if self.by == "person" else self.for_person

    @property
    def for_person(self) -> str:
        """The same for the person, who knows what to do."""
        files, allow = ", ".join(self.not_kept), "Keep it" if self.of == "changes" else "Allow it"
        loss = f"Not kept of what it changed: {files}." if files else ""
        words = self.message and f'They say: "{self.message}".'
        flag = self.passes and f"{allow} with {self.passes}."
        sentences = {
            "person": (loss, "The person refused this.", self.decisive, words),
            "nobody": (loss, self.reason, flag),
        }
        return " ".join(filter(None, sentences.get(self.by, (loss, self.message))))

    @property
    def reason(self) -> str:
        """What decides, or all of the reason."""
        return self.decisive or self.message


class ToolResult(Value):
    call_id: str
    name: str
    text: str
    is_error: bool = False
    lasting: bool = False
    """Whether it survives when the conversation before it is summarized, or its output dropped."""
    refusals: tuple[Refusal, ...] = ()
    """What was refused of the call."""
    cut: Cut = ""
    exit_status: int | None = None
    """Of a finished command, -1 when it timed out; None for other tools."""
    type: Literal["tool_result"] = "tool_result"


class Image(Value):
    """An image, or a PDF, attached to a message. Its bytes are in a file; see `kode.images`."""

    name: str
    """The original file name: `shot.png`."""
    media_type: str
    """`image/png`, `image/jpeg`, `image/gif`, `image/webp` or `application/pdf`."""
    width: int
    height: int
    """In pixels; width and height are 0 if the file does not say."""
    size_bytes: int
    kept_in: str
    """The absolute path of kode's own copy, named by its content."""
    call_id: str = ""
    """The call whose result shows it; "" if it was attached."""
    type: Literal["image"] = "image"

    @property
    def description(self) -> str:
        """In a few words: `shot.png, 640×480, 12 KB`."""
        size = f", {self.width}×{self.height}" if self.width else ""
        return f"{self.name}{size}, {max(1, round(self.size_bytes / 1000))} KB"


Part = Text | Thinking | ToolCall | ToolResult | Image | ServerItem


class Usage(Amounts):
    """Token counts of one request. `input_tokens` includes the cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens written to the provider's cache (billed higher by some)."""
    hour_write_tokens: int = 0
    """Those of them that the cache keeps for an hour, at twice the input price."""
    thinking_tokens: int = 0
    """Output tokens that the model thought; part of `output_tokens`."""

    @property
    def uncached_tokens(self) -> int:
        """Input tokens neither read from nor written to a cache."""
        return max(0, self.input_tokens - self.cached_tokens - self.cache_write_tokens)


class Message(Value):
    role: Role
    parts: tuple[Part, ...]
    stop: StopReason | None = None
    """Set on assistant messages."""
    usage: Usage | None = None
    """Token usage of the request that produced this assistant message."""
    model: str = ""
    """The model that wrote an assistant message."""
    origin: str = ""
    """Format, provider and model that wrote it, as `messages:anthropic/claude-...`: who gets its
    parts back in their own form."""
    bound: str = ""
    """Of a message with thinking: the digest of what it answered, see `session.messages.Chain`."""
    moved: bool = False
    """Whether what it answered has changed: thinking that is bound to that does not go back."""


def user_message(text: str, source: str = "") -> Message:
    """A message from the person, or of another `source` of a text."""
    return Message(role="user", parts=(Text(text=text, source=source),))


def failure_of(call: ToolCall, text: str, *, cut: Cut = "") -> ToolResult:
    """The result of a call that did not run, or did not finish."""
    return ToolResult(call_id=call.id, name=call.name, text=text, is_error=True, cut=cut)


def text_of(message: Message) -> str:
    """The person's or the model's own text parts, joined; no memory, no tools."""
    texts = list[str]()
    for part in message.parts:
        if isinstance(part, Text) and part.source in ("", "steering"):
            texts.append(part.text)
    return "\n".join(texts)


def _parts_of(kind: type[Kind], message: Message) -> tuple[Kind, ...]:
    """The parts of one kind in a message, in order."""
    parts = list[Kind]()
    for part in message.parts:
        if isinstance(part, kind):
            parts.append(part)
    return tuple(parts)


calls_of, results_of = partial(_parts_of, ToolCall), partial(_parts_of, ToolResult)
images_of = partial(_parts_of, Image)


def shorten(text: str, max_chars: int) -> str:
    """`text` on one line, white space folded, cut to `max_chars` with "…"."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def cut_list(names: Sequence[str], most: int) -> list[str]:
    """The first `most` names, then how many more there are: "and 3 more"."""
    more = len(names) - most
    return [*names[:most], f"and {more:,} more"] if more > 0 else list(names)


def plural(number: int, noun: str, several: str = "") -> str:
    """`1 line`, `2,000 lines`; pass `several` for irregular plurals."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def align_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Formats rows with equally many cells as lines; columns are as wide as their widest cell, with
    two spaces between. `right`: the indices of the columns that are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ways = [">" if index in right else "<" for index in range(len(widths))]
    return ["  ".join(map("{:{}{}}".format, row, ways, widths)).rstrip() for row in rows]
