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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode.errors import ConfigError, RefusedError
from kode.events import Emit, TextDelta, ThinkingDelta
from kode.messages import (
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    new_call_id,
)
from kode.provider import Request
from kode.providers.encoding import EncodedMessages, used_ids
from kode.providers.errors import Endpoint, from_status
from kode.registry import ProviderSettings

PIECES = 6
"""A text streams in at most this many pieces."""

CHARS_PER_TOKEN = 4
"""OpenAI's rule of thumb for English text."""

_STATUS_WORDS = {"overflow": 413, "auth": 401, "refused": 400, "transient": 503}
_STOPS = ("end", "tool_calls", "length", "refusal")
_USAGE = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")


@dataclass(frozen=True, kw_only=True)
class ScriptedCall:
    name: str
    arguments: str
    id: str = ""
    """"" for a generated one."""


@dataclass(frozen=True, kw_only=True)
class ScriptedError:
    status: int
    text: str
    retry_after_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptedReply:
    """One reply of a script; the module's docstring explains the fields."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop: StopReason = "end"
    usage: Usage | None = None
    delay_s: float = 0.0
    error: ScriptedError | None = None
    expected: str = ""
    match: str = ""
    then: "tuple[ScriptedReply, ...]" = ()


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
        self._sizes: EncodedMessages[int] = EncodedMessages(_chars_of)

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
            following = replace(reply.then[0], then=(*reply.then[0].then, *reply.then[1:]))
            ids = (part.id for part in parts if isinstance(part, ToolCall))
            self._following |= dict.fromkeys(ids, following)
        return Message(
            role="assistant",
            parts=parts,
            stop=reply.stop,
            usage=reply.usage or self._estimate_usage(request, reply),
            model=self.model,
        )

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""

    def _choose(self, request: Request) -> ScriptedReply:
        last = request.messages[-1] if request.messages else None
        said = _text(last) if last is not None and last.role == "user" else None
        for reply in self._matching:
            if said is not None and re.search(reply.match, said):
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
        if reply.expected and reply.expected not in _last_user_text(request):
            raise RefusedError(
                f"Reply {self._next} of the script expects the user's last message to contain "
                f"{reply.expected!r}, and it does not. Change the script or what is said."
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
        sent = len(request.system) + sum(self._sizes.of(request.messages))
        sent += sum([len(tool.description) + 200 for tool in request.tools])
        said = len(reply.text) + len(reply.thinking)
        said += sum(len(call.name) + len(call.arguments) + 20 for call in reply.calls)
        return Usage(
            input_tokens=sent // CHARS_PER_TOKEN + 1, output_tokens=said // CHARS_PER_TOKEN + 1
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
    return tuple(reply_of(value, where) for value, where in _values(text, path))


def reply_of(value: Any, where: str) -> ScriptedReply:
    """One reply from its JSON; `where` names its place for errors.

    Raises: ConfigError.
    """
    allowed = "text, thinking, calls, stop, usage, delay_s, error, expect, match, then"
    given = _object(value, where, "a reply", allowed)
    calls = _typed(given, "calls", list, [], where)
    stop = given.get("stop", "tool_calls" if calls else "end")
    if stop not in _STOPS:
        raise ConfigError(f"{where}: `stop` is {stop!r}; allowed are {', '.join(_STOPS)}.")
    expect = _object(given.get("expect", {}), where, "`expect`", "last_user_contains")
    match = _typed(given, "match", str, "", where)
    then = _typed(given, "then", list, [], where)
    if then and not calls:
        raise ConfigError(f"{where}: `then` follows the results of calls; give `calls` before it.")
    try:
        re.compile(match)
    except re.error as error:
        raise ConfigError(f"{where}: `match` is no regular expression: {error}.") from error
    return ScriptedReply(
        text=_typed(given, "text", str, "", where),
        thinking=_typed(given, "thinking", str, "", where),
        calls=tuple(_call(call, where) for call in calls),
        stop=stop,
        usage=_usage(given["usage"], where) if given.get("usage") is not None else None,
        delay_s=_seconds(given, "delay_s", where) or 0.0,
        error=_scripted_error(given["error"], where) if given.get("error") is not None else None,
        expected=_typed(expect, "last_user_contains", str, "", where),
        match=match,
        then=tuple(
            reply_of(value, f"{where}, `then` {number}") for number, value in enumerate(then, 1)
        ),
    )


def _values(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    """Each reply's JSON with the name of its place: one list, or one object per line."""
    if text.lstrip().startswith("["):
        for number, value in enumerate(_json(text, path, 1), start=1):
            yield value, f"{path}, reply {number}"
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _json(line, path, number), f"{path}, line {number}"


def _json(text: str, path: Path, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ConfigError(
            f"{path}, line {line}, column {error.colno}: this is not JSON ({error.msg}). "
            "A script is a JSON list of replies, or one JSON object a line."
        ) from error
    except (ValueError, RecursionError) as error:  # a number too long, a list too deep
        raise ConfigError(
            f"{path}, line {first_line}: this cannot be read ({error}). "
            "A script is a JSON list of replies, or one JSON object a line."
        ) from error


def _call(value: Any, where: str) -> ScriptedCall:
    call = _object(value, where, "a call", "name, arguments, id")
    name = _typed(call, "name", str, "", where)
    if not name:
        raise ConfigError(f"{where}: a call has no `name`; give the name of a tool.")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ScriptedCall(name=name, arguments=arguments, id=_typed(call, "id", str, "", where))


def _usage(value: Any, where: str) -> Usage:
    given = _object(value, where, "`usage`", ", ".join(_USAGE))
    for key, count in given.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ConfigError(f"{where}: `{key}` is {count!r}; it must be a number of tokens.")
    return Usage(**given)


def _scripted_error(value: Any, where: str) -> ScriptedError:
    error = _object(value, where, "`error`", "status, text, retry_after_s, code, type")
    word = error.get("status")
    status = _STATUS_WORDS.get(word, 0) if isinstance(word, str) else word
    if not isinstance(status, int) or isinstance(status, bool) or not 400 <= status <= 599:
        words = ", ".join(_STATUS_WORDS)
        raise ConfigError(
            f"{where}: the `status` of an error is {word!r}; allowed are 400 to 599, {words}."
        )
    text = _typed(error, "text", str, f"a scripted error {word}", where)
    return ScriptedError(
        status=status, text=text, retry_after_s=_seconds(error, "retry_after_s", where)
    )


def _object(value: Any, where: str, what: str, allowed: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {what} must be a JSON object with {allowed}.")
    # `wire` says how the tests' scripted server misbehaves; it plays the same files.
    unknown = sorted(set(value) - {*allowed.split(", "), "wire"})
    if unknown:
        raise ConfigError(f"{where}: {what} has no key `{unknown[0]}`; allowed are {allowed}.")
    return value


def _typed(given: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = given.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        expected = "text" if kind is str else "a list"
        raise ConfigError(f"{where}: `{key}` is {value!r}; it must be {expected}.")
    return value


def _seconds(given: Mapping[str, Any], key: str, where: str) -> float | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ConfigError(f"{where}: `{key}` is {value!r}; it must be a number of seconds.")
    return float(value)


def _last_user_text(request: Request) -> str:
    users = (message for message in reversed(request.messages) if message.role == "user")
    last = next(users, None)
    return _text(last) if last is not None else ""


def _text(message: Message) -> str:
    """What a script may match: everything except the workplace, which differs from run to run."""
    texts = (part for part in message.parts if isinstance(part, Text) and part.source != "opening")
    return "\n".join(part.text for part in texts)


def _chars_of(message: Message) -> int:
    chars = 0
    for part in message.parts:
        match part:
            case Text() | Thinking() | ToolResult():
                chars += len(part.text)
            case ToolCall():
                chars += len(part.name) + len(part.arguments)
    return chars + 16


def _pieces(text: str) -> Iterator[str]:
    """Splits before spaces, so that words stay intact."""
    size = max(1, -(-len(text) // PIECES))
    start = 0
    while start < len(text):
        space = text.find(" ", start + size)
        end = len(text) if space < 0 or start + size >= len(text) else space
        yield text[start:end]
        start = end
