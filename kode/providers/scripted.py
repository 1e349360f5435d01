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
    error            fails instead: {"status": an HTTP status, "text"?, "retry_after_s"?}
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
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from kode.errors import ConfigError, RefusedError
from kode.events import Emit
from kode.messages import Message, Text, ToolResult, calls_of
from kode.provider import Request
from kode.providers import ProviderSettings
from kode.providers.draft import Draft, Kind
from kode.providers.errors import Endpoint, status_error
from kode.providers.request import used_ids

PIECES = 6
"""A text streams in at most this many pieces, none shorter than a token."""

CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""

Seconds = Annotated[float, Field(ge=0)]
Counted = Literal["input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"]


class ScriptPart(BaseModel):
    """An object in a script."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScriptedCall(ScriptPart):
    name: Annotated[str, Field(min_length=1)]
    arguments: Annotated[
        str, BeforeValidator(lambda it: it if isinstance(it, str) else json.dumps(it))
    ] = "{}"
    id: str = ""
    """"" for a generated one."""


class ScriptedError(ScriptPart):
    status: Annotated[int, Field(ge=400, le=599)]
    text: str = "a scripted error"
    retry_after_s: Seconds | None = None


class ScriptedReply(ScriptPart):
    """One reply of a script; the module's docstring explains the fields."""

    text: str = ""
    thinking: str = ""
    calls: list[ScriptedCall] = []
    stop: Literal["end", "tool_calls", "length", "refusal", ""] = ""
    usage: dict[Counted, Annotated[int, Field(ge=0)]] | None = None
    delay_s: Seconds = 0.0
    error: ScriptedError | None = None
    match: re.Pattern[str] | None = None
    then: "list[ScriptedReply]" = []
    wire: Any = None
    """How the scripted server of the tests, which plays the same files, misbehaves."""


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
            self._replies = load_script(Path(settings.script))
        except ConfigError as error:
            raise error.about(settings.used.get("script")) from None
        self._ordered = iter([reply for reply in self._replies if reply.match is None])
        self._matching = [(reply.match, reply) for reply in self._replies if reply.match]
        self.name = settings.row.name
        self.model = settings.model
        self.info = settings.info
        self._following: dict[str, ScriptedReply] = {}
        """Call id → the reply that follows its result."""

    async def reply(self, request: Request, emit: Emit) -> Message:
        """Makes one attempt at one reply; see `kode.provider.Provider`. Raises: the error of the
        script; RefusedError at its end."""
        reply = self._choose_reply(request)
        await asyncio.sleep(reply.delay_s)
        if reply.error is not None:
            endpoint, error = Endpoint(base_url="the script", model=self.model), reply.error
            after = error.retry_after_s
            pause = {} if after is None else {"retry-after": str(after)}
            raise status_error(error.status, error.text, pause, endpoint)
        draft = Draft(f"{self.name}/{self.model}", emit)
        texts: Mapping[Kind, str] = {"thinking": reply.thinking, "text": reply.text}
        for kind, text in texts.items():
            size = max(CHARS_PER_TOKEN, -(-len(text) // PIECES))
            for start in range(0, len(text), size):
                if start:
                    await asyncio.sleep(0)
                draft.add(kind, kind, text[start : start + size])
        for number, call in enumerate(reply.calls):
            part = draft.part("call", number)
            part.id, part.name = call.id, call.name
            draft.add_arguments(part, call.arguments)
        draft.count_usage(**(reply.usage or _estimate_usage(request, reply)))
        stop = reply.stop or ("tool_calls" if reply.calls else "end")
        draft.note_stop("stop" if stop == "end" else stop)
        message = draft.finish(self.model, used_ids(request.messages) if reply.calls else ())
        if reply.then:
            then = [*reply.then[0].then, *reply.then[1:]]
            following = reply.then[0].model_copy(update={"then": then})
            self._following |= dict.fromkeys((call.id for call in calls_of(message)), following)
        return message

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""

    def _choose_reply(self, request: Request) -> ScriptedReply:
        last = request.messages[-1] if request.messages else None
        parts = last.parts if last is not None else ()
        for pattern, reply in self._matching if last is not None and last.role == "user" else ():
            # A script may match everything except the workplace, which differs from run to run.
            texts = [p.text for p in parts if isinstance(p, Text) and p.source != "opening"]
            if pattern.search("\n".join(texts)):
                return reply
        for part in parts:
            if isinstance(part, ToolResult) and part.call_id in self._following:
                return self._following[part.call_id]
        following = next(self._ordered, None)
        if following is None:
            raise RefusedError(
                f"kode asked for one more than the {len(self._replies)} replies of the script. "
                "Add a reply to the script, or end the session here."
            )
        return following


def _estimate_usage(request: Request, reply: ScriptedReply) -> dict[Counted, int]:
    sent = len(request.system) + 200 * len(request.tools) + 16 * len(request.messages)
    for tool in request.tools:
        sent += len(tool.description)
    for message in request.messages:
        for part in message.parts:
            sent += len(getattr(part, "text", "")) + len(getattr(part, "arguments", ""))
    characters = len(reply.text) + len(reply.thinking)
    for call in reply.calls:
        characters += 20 + len(call.name) + len(call.arguments)
    return {
        "input_tokens": sent // CHARS_PER_TOKEN + 1,
        "output_tokens": characters // CHARS_PER_TOKEN + 1,
    }


def load_script(path: Path) -> list[ScriptedReply]:
    """The replies of a script file.

    Raises: ConfigError that names the file, the line or reply, the key, and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            places = [(f"reply {n}", each) for n, each in enumerate(json.loads(text), 1)]
        else:
            lines = enumerate(text.splitlines(), 1)
            places = [(f"line {n}", json.loads(line)) for n, line in lines if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"The script {path} cannot be read: {getattr(error, 'strerror', None) or error}. A "
            "script is a JSON list of replies, or one JSON object a line."
        ) from error
    try:
        return TypeAdapter(list[ScriptedReply]).validate_python([value for _, value in places])
    except ValidationError as error:
        fault = error.errors()[0]
        number, *loc = fault["loc"]
        keys = ".".join(map(str, loc)) or "the reply"
        raise ConfigError(
            f"{path}, {places[int(number)][0]}: `{keys}` cannot be "
            f"{json.dumps(fault['input'])[:80]}: {fault['msg'].removeprefix('Value error, ')}."
        ) from None
