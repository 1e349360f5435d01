"""A provider that plays a script: for `kode demo`, for tests, for trying kode without a key.

A script is a file with a JSON list of replies, or JSON lines with one reply each. A reply:

    text, thinking   the reply (streamed in several pieces)
    calls            [{"name": "read_file", "arguments": {"path": "a.py"}}]; arguments may be raw
                     text, and an "id" may be given
    stop             "end", "tool_calls", "length" or "refusal"; by default "tool_calls" with calls
                     and "end" without
    usage            {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"};
                     estimated from the characters when not given
    delay_s          a pause before the reply
    error            fails instead: {"status": 429 or another HTTP status, or one of "overflow",
                     "auth", "refused", "transient"; "text"?, "retry_after_s"?}
    expect           {"last_user_contains": "..."}: the reply fails when the last message of the
                     user does not contain it, which shows where a script and a session part
    match            a regular expression, see below
    then             replies that follow in the same conversation, each once the calls of the one
                     before have their results

Replies play in order, each once, from the beginning in each process. A reply with `match` stands
outside that order: it plays whenever the last message is the user's and its text contains the
expression, as often as that happens. So memory and subagents, which ask the same provider questions
of their own at times nobody can foretell, get their answers without moving the script on; with
`then`, whole conversations.

Nothing here knows a wire format; the statuses of errors mean what they mean on the wire.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from kode.errors import ConfigError, RefusedError
from kode.events import Emit, TextDelta, ThinkingDelta
from kode.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, Usage, new_call_id
from kode.provider import Request
from kode.providers.encoding import used_ids
from kode.providers.errors import Endpoint, from_status
from kode.registry import ProviderSettings

PIECES = 6
"""A text streams in at most this many pieces."""

CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""

_STATUS_WORDS = {"overflow": 413, "auth": 401, "refused": 400, "transient": 503}

Seconds = Annotated[float, Field(ge=0)]
Tokens = Annotated[int, Field(ge=0)]


class ScriptPart(BaseModel):
    """An object in a script."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_wire(cls, value: Any) -> Any:
        """Drops what says how the tests' scripted server, which plays the same files, misbehaves,
        and keys without a value."""
        if not isinstance(value, dict):
            return value
        return {key: each for key, each in value.items() if key != "wire" and each is not None}


class ScriptedCall(ScriptPart):
    name: Annotated[str, Field(min_length=1)]
    arguments: Annotated[
        str,
        BeforeValidator(
            lambda it: it if isinstance(it, str) else json.dumps(it, ensure_ascii=False)
        ),
    ] = "{}"
    id: str = ""
    """"" for a generated one."""


class ScriptedError(ScriptPart):
    status: Annotated[
        int,
        Field(ge=400, le=599),
        BeforeValidator(lambda it: _STATUS_WORDS.get(it, it) if isinstance(it, str) else it),
    ]
    text: str = "a scripted error"
    retry_after_s: Seconds | None = None
    code: Any = None
    type: Any = None


class ScriptedUsage(ScriptPart):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0


class Expectation(ScriptPart):
    last_user_contains: str = ""


class ScriptedReply(ScriptPart):
    """One reply of a script; the module's docstring explains the fields."""

    text: str = ""
    thinking: str = ""
    calls: list[ScriptedCall] = []
    stop: Literal["end", "tool_calls", "length", "refusal", ""] = ""
    usage: ScriptedUsage | None = None
    delay_s: Seconds = 0.0
    error: ScriptedError | None = None
    expect: Expectation = Expectation()
    match: str = ""
    then: "list[ScriptedReply]" = []

    @field_validator("match")
    @classmethod
    def _compile(cls, match: str) -> str:
        try:
            re.compile(match)
        except re.error as error:
            raise ValueError(f"it is no regular expression: {error}") from error
        return match

    @model_validator(mode="after")
    def _check_calls(self) -> "ScriptedReply":
        if self.then and not self.calls:
            raise ValueError("`then` follows the results of calls; give `calls` before it")
        return self


class Scripted:
    """A `Provider` that plays replies."""

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises: ConfigError for a missing or invalid script."""
        if not settings.script:
            raise ConfigError(
                "The provider `scripted` needs a script to play: set `script` in the config, "
                "or run `kode demo`, which brings its own."
            )
        try:
            replies = load_script(Path(settings.script))
        except ConfigError as error:
            raise error.about(settings.used.get("script")) from None
        self.name = settings.row.name
        self.model = settings.model
        self.info = settings.info
        self._matching = tuple(reply for reply in replies if reply.match)
        self._ordered = tuple(reply for reply in replies if not reply.match)
        self._next = 0
        self._following: dict[str, ScriptedReply] = {}
        """Call id → the reply that follows its result."""

    async def reply(self, request: Request, emit: Emit) -> Message:
        """Makes one attempt at one reply; see `kode.provider.Provider`. Raises: the error of the
        script; RefusedError at its end."""
        reply = self._choose(request)
        await asyncio.sleep(reply.delay_s)
        if reply.error is not None:
            raise self._error(reply.error)
        for piece in _pieces(reply.thinking):
            emit(ThinkingDelta(text=piece))
            await asyncio.sleep(0)
        for piece in _pieces(reply.text):
            emit(TextDelta(text=piece))
            await asyncio.sleep(0)
        parts = tuple(self._parts(reply, used_ids(request.messages) if reply.calls else set()))
        if reply.then:
            then = [*reply.then[0].then, *reply.then[1:]]
            following = reply.then[0].model_copy(update={"then": then})
            ids = (part.id for part in parts if isinstance(part, ToolCall))
            self._following |= dict.fromkeys(ids, following)
        return Message(
            role="assistant",
            parts=parts,
            stop=reply.stop or ("tool_calls" if reply.calls else "end"),
            usage=Usage(**reply.usage.model_dump())
            if reply.usage is not None
            else self._estimate_usage(request, reply),
            model=self.model,
        )

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""

    def _choose(self, request: Request) -> ScriptedReply:
        last = request.messages[-1] if request.messages else None
        words = _text(last) if last is not None and last.role == "user" else None
        for reply in self._matching:
            if words is not None and re.search(reply.match, words):
                return reply
        for part in last.parts if last is not None else ():
            if isinstance(part, ToolResult) and part.call_id in self._following:
                return self._following[part.call_id]
        if self._next >= len(self._ordered):
            raise RefusedError(
                f"The script has {len(self._ordered)} replies and kode asked for one more. "
                "Add a reply to the script, or end the session here."
            )
        reply = self._ordered[self._next]
        self._next += 1
        users = [message for message in request.messages if message.role == "user"]
        if reply.expect.last_user_contains not in (_text(users[-1]) if users else ""):
            raise RefusedError(
                f"Reply {self._next} of the script expects the user's last message to contain "
                f"{reply.expect.last_user_contains!r}, and it does not. Change the script or the "
                "message."
            )
        return reply

    def _error(self, error: ScriptedError) -> Exception:
        endpoint = Endpoint(base_url="the script", model=self.model)
        pause = {} if error.retry_after_s is None else {"retry-after": str(error.retry_after_s)}
        return from_status(error.status, error.text, pause, endpoint)

    def _parts(self, reply: ScriptedReply, used: set[str]) -> Iterator[Part]:
        if reply.thinking:
            yield Thinking(text=reply.thinking, origin=f"scripted/{self.model}")
        if reply.text:
            yield Text(text=reply.text)
        for call in reply.calls:
            call_id = call.id if call.id and call.id not in used else new_call_id()
            used.add(call_id)
            yield ToolCall(id=call_id, name=call.name, arguments=call.arguments)

    def _estimate_usage(self, request: Request, reply: ScriptedReply) -> Usage:
        sent = len(request.system) + sum(map(_chars_of, request.messages))
        sent += sum([len(tool.description) + 200 for tool in request.tools])
        chars = len(reply.text) + len(reply.thinking)
        chars += sum(len(call.name) + len(call.arguments) + 20 for call in reply.calls)
        return Usage(
            input_tokens=sent // CHARS_PER_TOKEN + 1, output_tokens=chars // CHARS_PER_TOKEN + 1
        )


def load_script(path: Path) -> tuple[ScriptedReply, ...]:
    """The replies of a script file.

    Raises: ConfigError that names the file, the line or reply, the value, and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"The script {path} cannot be read: {reason}.") from error
    return tuple(_read_reply(value, where) for value, where in _values(text, path))


def _read_reply(value: Any, where: str) -> ScriptedReply:
    """One reply from its JSON; `where` names its place for errors. Raises: ConfigError."""
    try:
        return ScriptedReply.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        keys = [str(key + 1) if isinstance(key, int) else key for key in fault["loc"]]
        match fault["type"]:
            case "missing":
                words = " is missing"
            case "extra_forbidden":
                parents = [key for key in fault["loc"][:-1] if isinstance(key, str)]
                allowed = _FIELDS[parents[-1] if parents else "then"].model_fields
                words = f" is no key; allowed are {', '.join(allowed)}"
            case "model_type":
                words = " must be a JSON object"
            case _:
                reason = fault["msg"].removeprefix("Value error, ")
                words = f": {repr(fault['input'])[:80]} cannot be used: {reason}"
        place = f"`{'.'.join(keys)}`" if keys else "the reply"
        raise ConfigError(f"{where}: {place}{words}.") from None


_FIELDS: dict[str, type[ScriptPart]] = {
    "then": ScriptedReply,
    "calls": ScriptedCall,
    "error": ScriptedError,
    "usage": ScriptedUsage,
    "expect": Expectation,
}


def _values(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    """Each reply's JSON with the name of its place: one list, or one object per line."""
    if text.lstrip().startswith("["):
        for number, value in enumerate(_parse(text, path, 1), start=1):
            yield value, f"{path}, reply {number}"
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _parse(line, path, number), f"{path}, line {number}"


def _parse(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long or a list too deep, too
        if isinstance(error, json.JSONDecodeError):
            line += error.lineno - 1
        raise ConfigError(
            f"{path}, line {line}: this is not JSON ({error}). A script is a JSON list of replies, "
            "or one JSON object a line."
        ) from error


def _text(message: Message) -> str:
    """What a script may match: everything except the workplace, which differs from run to run."""
    texts = (part for part in message.parts if isinstance(part, Text) and part.source != "opening")
    return "\n".join(part.text for part in texts)


def _chars_of(message: Message) -> int:
    return 16 + sum(
        len(part.name + part.arguments)
        if isinstance(part, ToolCall)
        else len(getattr(part, "text", ""))
        for part in message.parts
    )


def _pieces(text: str) -> Iterator[str]:
    """Splits before spaces, so that words stay intact."""
    size = max(1, -(-len(text) // PIECES))
    start = 0
    while start < len(text):
        space = text.find(" ", start + size)
        end = len(text) if space < 0 or start + size >= len(text) else space
        yield text[start:end]
        start = end
