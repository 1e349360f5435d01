"""What Anthropic's Messages API refuses, in its words, and what it makes of a prompt."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.strict_server.cache import Piece
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused, check_shape, refuse, schema_fault
from tests.strict_server.replies import Key, Memory, compact, digest, unseal

Body = dict[str, Any]
Block = dict[str, Any]

THINKING = ("thinking", "redacted_thinking")
FIELDS = {
    *"model max_tokens stream system tools tool_choice thinking output_config messages".split()
}
THINKING_FIELDS = {"type", "display", "budget_tokens"}
"""Fewer than the vendor takes: what kode sends."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
UNMODIFIED = "`thinking` blocks in the latest assistant message cannot be modified."
THINKING_FIRST = (
    "Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, "
    "a final `assistant` message must start with a thinking block."
)
NO_RESULT = "`tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
NO_USE = "unexpected `tool_use_id` found in `tool_result` blocks: {id}."
BOUND = (
    "Invalid `thinking` block. The block is bound to a different conversation: the system prompt, "
    "the tools or the messages before it are not those it was created with."
)


@dataclass
class Turn:
    """One message, with a list of blocks in any case."""

    role: str
    at: int
    blocks: list[Block]
    dropped: set[int] = field(default_factory=set)


@dataclass
class Checked:
    """What the model reads of a request that nothing is wrong with."""

    turns: list[Turn]
    thinks: bool
    shows: bool
    """Whether thinking blocks hold text."""
    pieces: list[Piece]


def check(body: Body, headers: Mapping[str, str], model: Model, memory: Memory) -> Checked:
    """Raises `Refused` for the first thing that the vendor would refuse."""
    refuse(headers.get("anthropic-beta"), "anthropic-beta: no beta is open to this key")
    _shape(body, memory)
    thinking = body.get("thinking", {})
    extra = ", ".join((body.keys() - FIELDS) | (thinking.keys() - THINKING_FIELDS))
    refuse(extra, f"{extra}: Extra inputs are not permitted")
    _parameters(body, model)
    _tools(body)
    turns = turns_of(body)
    _marks(body)
    _texts(body, turns)
    _roles(turns, memory)
    _pairs(turns)
    thinks = _thinks(body, model)
    _thinking(body, turns, model, thinks)
    pieces = pieces_of(body, turns)
    total = sum(len(piece.text.encode()) for piece in pieces) // 4
    refuse(total > model.window, f"prompt is too long: {total} tokens > {model.window} maximum")
    shows = thinking.get("display", "omitted" if model.omits else "summarized") == "summarized"
    return Checked(turns, thinks, shows, pieces)


# ── shape ────────────────────────────────────────────────────────────────────────────────────


def _shape(body: Body, memory: Memory) -> None:
    """Against the SDK's types; a block of the server's own that comes back whole is right."""
    plain = {key: value for key, value in body.items() if key != "stream"}
    if isinstance(plain.get("messages"), list):
        plain["messages"] = [
            _known(message, at, memory) for at, message in enumerate(plain["messages"])
        ]
    check_shape("messages", plain)


def _known(message: Any, at: int, memory: Memory) -> Any:
    blocks = texts_of(message.get("content")) if isinstance(message, dict) else None
    is_own = isinstance(blocks, list) and message.get("role") == "assistant"
    if not is_own or not all(isinstance(block, dict) for block in blocks):
        return message
    known = []
    for number, block in enumerate(blocks):
        given = {k: v for k, v in block.items() if k != "cache_control" and v is not None}
        plain = memory.known(key_of(given), given, f"messages.{at}.content.{number}")
        known.append(plain | {k: v for k, v in block.items() if k == "cache_control" or v is None})
    return message | {"content": known}


def key_of(block: Block) -> Key:
    """What tells one block from others."""
    kind = block.get("type")
    name = {"thinking": "signature", "redacted_thinking": "data", "text": "text"}.get(str(kind))
    return (kind, compact(block.get(name or ("id" if "id" in block else "tool_use_id"))))


def texts_of(content: Any) -> Any:
    """Text as a list of blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def turns_of(body: Body) -> list[Turn]:
    return [
        Turn(message["role"], at, texts_of(message.get("content", [])))
        for at, message in enumerate(body["messages"])
    ]


# ── parameters ───────────────────────────────────────────────────────────────────────────────


def _thinks(body: Body, model: Model) -> bool:
    kind = body.get("thinking", {}).get("type")
    return bool(kind in ("adaptive", "enabled") or (kind is None and model.thinks))


def _parameters(body: Body, model: Model) -> None:
    limit, most, thinking = body["max_tokens"], model.max_output, body.get("thinking", {})
    refuse(limit < 1, "max_tokens: Input should be greater than or equal to 1")
    tail = f"which is the maximum allowed number of output tokens for {model.name}"
    refuse(limit > most, f"max_tokens: {limit} > {most}, {tail}")
    kind, tokens = thinking.get("type"), thinking.get("budget_tokens", 0)
    instead = "adaptive" if "adaptive" in model.thinking else "enabled"
    tail = f'Use "thinking.type.{instead}" and "output_config.effort" to control thinking.'
    words = f'"thinking.type.{kind}" is not supported for this model. {tail}'
    refuse(kind and kind not in model.thinking, words)
    if kind == "enabled":
        words = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        refuse(tokens < 1024, words)
        refuse(tokens >= limit, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if effort := body.get("output_config", {}).get("effort"):
        refuse(not model.efforts, "This model does not support the effort parameter.")
        levels = ", ".join(sorted(model.efforts))
        words = f"This model does not support effort level '{effort}'. Supported levels: {levels}."
        refuse(effort not in model.efforts, words)
    wanted = body.get("output_config", {}).get("format") or {}
    _closed(wanted.get("schema"), "output_config.format.schema")
    forced = body.get("tool_choice", {}).get("type", "auto") not in ("auto", "none")
    refuse(forced, "Thinking may not be enabled when tool_choice forces tool use.")


def _closed(schema: Any, path: str) -> None:
    """Structured output wants closed objects."""
    for inner in schema if isinstance(schema, list) else ():
        _closed(inner, path)
    if isinstance(schema, dict):
        is_open = schema.get("type") == "object" and schema.get("additionalProperties") is not False
        words = "'additionalProperties' must be explicitly set to false"
        refuse(is_open, f"{path}: For 'object' type, {words}")
        for inner in schema.values():
            _closed(inner, path)


def _tools(body: Body) -> None:
    names = [tool.get("name", "") for tool in body.get("tools", ())]
    refuse(len({*names}) < len(names), "tools: Tool names must be unique.")
    for at, tool in enumerate(body.get("tools", ())):
        path, schema = f"tools.{at}.custom", tool.get("input_schema", {})
        words = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
        refuse(not NAME.fullmatch(names[at]), f"{path}.name: {words}")
        path += ".input_schema"
        is_none = "input_schema" in tool and schema.get("type") != "object"
        refuse(is_none, f"{path}.type: Input should be 'object'")
        # From reports of 2026 in the issues of many agents.
        words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        refuse(schema.keys() & {"anyOf", "oneOf", "allOf"}, f"{path}: {words}")
        words = "JSON schema is invalid. It must match JSON Schema draft 2020-12."
        refuse(schema_fault(compact(schema)), f"{path}: {words}")
        for name in schema.get("properties", {}):
            words = "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
            is_odd = not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
            refuse(is_odd, f"{path}.properties: {words}")


# ── blocks ───────────────────────────────────────────────────────────────────────────────────


def _marks(body: Body) -> None:
    places = ("tools", "system", "messages")
    marked = [each for place in places for each in _marked(body.get(place), place)]
    marks = [(path, block["cache_control"]) for path, block in marked]
    words = f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    refuse(len(marks) > 4, words)
    short = False
    for path, mark in marks:
        words = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
        is_late = mark.get("ttl", "5m") == "1h" and short
        refuse(is_late, f"{path}.cache_control.ttl: {words}")
        short = short or mark.get("ttl", "5m") == "5m"
    for path, block in marked:
        is_blank = block.get("type") == "text" and not block["text"].strip()
        refuse(is_blank, f"{path}.text: cache_control cannot be set for empty text blocks")


def _marked(value: Any, path: str) -> Iterator[tuple[str, Block]]:
    """The blocks with a mark, those within a block before it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value or ())
    for key, each in inner if not isinstance(value, str) else ():
        if isinstance(each, dict | list):
            yield from _marked(each, f"{path}.{key}")
    if isinstance(value, dict) and value.get("cache_control"):
        yield path, value


def _texts(body: Body, turns: list[Turn]) -> None:
    for block in texts_of(body.get("system", "x")):
        refuse(not block["text"], "system: text content blocks must be non-empty")
    for turn in turns:
        words = "all messages must have non-empty content except for the optional final assistant"
        is_last = turn is turns[-1] and turn.role == "assistant"
        refuse(not turn.blocks and not is_last, f"messages.{turn.at}: {words} message")
        for block in turn.blocks:
            text = block["text"] if block["type"] == "text" else "x"
            refuse(not text, "messages: text content blocks must be non-empty")
            words = "messages: text content blocks must contain non-whitespace text"
            refuse(not text.strip(), words)


ROLES = {"tool_use": "assistant", "server_tool_use": "assistant", "tool_result": "user"}
ROLES |= dict.fromkeys(THINKING, "assistant")


def _roles(turns: list[Turn], memory: Memory) -> None:
    refuse(not turns, "messages: at least one message is required")
    refuse(turns[0].role != "user", 'messages: first message must use the "user" role')
    for turn in turns:
        refuse(turn.role not in ("user", "assistant"), f'messages: Unexpected role "{turn.role}".')
        for at, block in enumerate(turn.blocks):
            kind = block["type"]
            role = ROLES.get(kind, turn.role)
            words = f"`{kind}` blocks can only be used in `{role}` messages"
            refuse(role != turn.role, f"messages.{turn.at}.content.{at}: {words}")
    paused = any(key_of(block) in memory.paused for block in turns[-1].blocks)
    is_begun = turns[-1].role == "assistant" and not paused
    refuse(is_begun, "This model does not support assistant message prefill.")


def _pairs(turns: list[Turn]) -> None:
    waiting: list[str] = []
    asked_at = -1
    seen: set[str] = set()
    for _, blocks in _merged(turns):
        results = [block["tool_use_id"] for _, _, block in blocks if block["type"] == "tool_result"]
        first = [block for _, _, block in blocks[: len(waiting)]]
        answered = {block.get("tool_use_id") for block in first if block["type"] == "tool_result"}
        missing = ", ".join(name for name in waiting if name not in answered)
        refuse(missing, f"messages.{asked_at}: {NO_RESULT.format(ids=missing)}")
        for at, number, block in blocks:
            name = block.get("tool_use_id")
            is_odd = block["type"] == "tool_result" and name not in waiting
            refuse(is_odd, f"messages.{at}.content.{number}: {NO_USE.format(id=name)}")
        double = ", ".join({name for name in results if results.count(name) > 1})
        words = "each tool_use must have a single result. Found multiple `tool_result` blocks with"
        refuse(double, f"messages.{blocks[0][0]}: {words} id: {double}")
        waiting = []
        for at, number, block in blocks:
            if block["type"] not in ("tool_use", "server_tool_use"):
                continue
            where = f"messages.{at}.content.{number}"
            words = f"{block['type']}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            refuse(not NAME.fullmatch(block["id"]), f"{where}.{words}")
            refuse(block["id"] in seen, f"{where}: `tool_use` ids must be unique")
            seen.add(block["id"])
            if block["type"] == "tool_use":
                waiting, asked_at = [*waiting, block["id"]], at
    missing = ", ".join(waiting)
    refuse(missing, f"messages.{asked_at}: {NO_RESULT.format(ids=missing)}")


def _merged(turns: list[Turn]) -> list[tuple[str, list[tuple[int, int, Block]]]]:
    """Neighbours of one role as one, each block with its message's and its own number."""
    merged: list[tuple[str, list[tuple[int, int, Block]]]] = []
    for turn in turns:
        numbered = [(turn.at, at, block) for at, block in enumerate(turn.blocks)]
        if merged and merged[-1][0] == turn.role:
            merged[-1][1].extend(numbered)
        else:
            merged.append((turn.role, numbered))
    return merged


# ── thinking ─────────────────────────────────────────────────────────────────────────────────


def _thinking(body: Body, turns: list[Turn], model: Model, thinks: bool) -> None:
    """Refuses what was tampered with; the turns remember what was dropped."""
    last = max((at for at, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    first = last  # neighbours of one role are one message
    while first > 0 and turns[first - 1].role == "assistant":
        first -= 1
    latest = turns[first : last + 1]
    if body.get("thinking", {}).get("type") == "enabled" and latest:
        asked = any(block["type"] == "tool_use" for turn in latest for block in turn.blocks)
        found = latest[0].blocks[0]["type"] if latest[0].blocks else "text"
        is_missing = asked and turns[-1].role != "assistant" and found not in THINKING
        words = THINKING_FIRST.format(found=found)
        refuse(is_missing, f"messages.{latest[0].at}.content.0.type: {words}")
    before = Beginning(body)
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            where = f"messages.{turn.at}.content.{at}"
            if block["type"] in THINKING:
                said = _said(block, where, turn in latest and thinks)
                if said["model"] != model.name:
                    turn.dropped.add(at)
                    continue
                is_moved = model.binds and said["prefix"] != before.digest_for(turn.role)
                refuse(is_moved, f"{where}: {BOUND}")
                if turn in latest and thinks:
                    _whole(turn, at, said)
            before.add(turn.role, block)


class Beginning:
    """The tools, the system prompt and the blocks so far, to which thinking is bound."""

    def __init__(self, body: Body) -> None:
        self.running, self.role = hashlib.sha256(), ""
        for part in (body.get("tools", []), texts_of(body.get("system", []))):
            self.running.update(compact([bare(one) for one in part]).encode())

    def add(self, role: str, block: Block) -> None:
        self.running.update((role * (role != self.role) + compact(bare(block))).encode())
        self.role = role

    def digest_for(self, role: str) -> str:
        """The digest of what is before a block of a role."""
        after = self.running.copy()
        after.update((role * (role != self.role)).encode())
        return after.hexdigest()[:16]


def bound_to(body: Body, turns: list[Turn], reply: list[Block]) -> str:
    """What the block after those of a reply is bound to."""
    before = Beginning(body)
    for turn in [*turns, Turn("assistant", -1, reply)]:
        for at, block in enumerate(turn.blocks):
            if at not in turn.dropped:
                before.add(turn.role, block)
    return before.digest_for("assistant")


def _said(block: Block, where: str, latest: bool) -> dict[str, Any]:
    """What the server signed with a block; raises where it is not its own or was changed."""
    kind = block["type"]
    name = "signature" if kind == "thinking" else "data"
    said = unseal(block[name]) or {}
    words = f"{where}: Invalid `{name}` in `{kind}` block"
    refuse(said.get("kind") != kind, words)
    is_changed = kind == "thinking" and said["own"] != digest(block["thinking"])
    refuse(is_changed, f"{where}: {UNMODIFIED}" if latest else words)
    return said


def _whole(turn: Turn, at: int, said: dict[str, Any]) -> None:
    """The reply that a thinking block was part of is in the message whole and in order."""
    first = at - said["index"]
    part = turn.blocks[max(0, first) : first + said["of"]]
    if first < 0 or digest(*(outline(block) for block in part)) != said["reply"]:
        raise Refused(f"messages.{turn.at}.content.{at}: {UNMODIFIED}")


def outline(block: Block) -> Any:
    """What must be the same in a block that comes back beside thinking."""
    kind = block["type"]
    if kind in THINKING:
        return [kind, block.get("thinking", "")]
    return [kind, block.get("text", block.get("id", block.get("tool_use_id")))]


def bare(block: Any) -> Any:
    """A block without its cache marks and nulls, its own keys in one order (what it holds keeps
    its)."""
    if not isinstance(block, dict):
        return block
    without = {k: block[k] for k in sorted(block) if k != "cache_control" and block[k] is not None}
    if isinstance(without.get("content"), list):
        without["content"] = [bare(inner) for inner in without["content"]]
    return without


# ── the prompt ───────────────────────────────────────────────────────────────────────────────


def pieces_of(body: Body, turns: list[Turn]) -> list[Piece]:
    """Tools, system, messages, as the cache counts them. Another `thinking` or `tool_choice` makes
    other messages of the same ones, as the vendor's notes say."""
    blocks = (*body.get("tools", ()), *texts_of(body.get("system", [])))
    pieces = [_piece(compact(bare(block)), block) for block in blocks]
    thinking = {key: value for key, value in body.get("thinking", {}).items() if key != "display"}
    seed = compact([thinking, body.get("tool_choice")])
    role = ""
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            if at in turn.dropped:
                continue
            head = turn.role if turn.role != role else ""
            if not role and (thinking or body.get("tool_choice")):
                head += digest(seed)
            role = turn.role
            pieces.append(_piece(head + compact(bare(block)), block))
    return pieces


def _piece(text: str, block: Block) -> Piece:
    inner = block.get("content")
    marks = [block, *(inner if isinstance(inner, list) else ())]
    given = [b["cache_control"] for b in marks if isinstance(b, dict) and b.get("cache_control")]
    return Piece(text, given[0].get("ttl", "5m") if given else "")
