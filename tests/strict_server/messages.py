"""What Anthropic's Messages API refuses, in its words, and what it makes of a prompt."""

import base64
import hashlib
import itertools
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.strict_server.cache import Piece
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused, check_shape, refuse, schema_fault
from tests.strict_server.replies import Key, Memory, compact, digest, unseal

Body = dict[str, Any]
Block = dict[str, Any]

FIELDS = {
    *"model max_tokens stream system tools tool_choice thinking output_config messages".split()
}
THINKING_FIELDS = {"type", "display", "budget_tokens"}
"""Fewer than the vendor takes: what kode sends."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
UNMODIFIED = "`thinking` blocks in the latest assistant message cannot be modified."
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
    _attachments(body, model)
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
    name = {"thinking": "signature", "text": "text"}.get(str(kind))
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
    refuse(not 0 < limit <= most, f"max_tokens: {limit} > {most} or < 1")
    kind, tokens = thinking.get("type"), thinking.get("budget_tokens", 0)
    words = f'"thinking.type.{kind}" is not supported for this model.'
    refuse(kind and kind not in model.thinking, words)
    is_odd = kind == "enabled" and not 1024 <= tokens < limit
    refuse(is_odd, "thinking.enabled.budget_tokens: 1024 at least, less than `max_tokens`")
    effort = body.get("output_config", {}).get("effort")
    words = f"This model does not support effort level '{effort}'. Supported levels: "
    refuse(effort and effort not in model.efforts, words + ", ".join(sorted(model.efforts)))
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
        refuse(is_open, f"{path}: 'additionalProperties' must be explicitly set to false")
        for inner in schema.values():
            _closed(inner, path)


def _tools(body: Body) -> None:
    names = [tool.get("name", "") for tool in body.get("tools", ())]
    refuse(len({*names}) < len(names), "tools: Tool names must be unique.")
    for at, tool in enumerate(body.get("tools", ())):
        path, schema = f"tools.{at}.custom.input_schema", tool.get("input_schema", {})
        refuse(not NAME.fullmatch(names[at]), f"tools.{at}.custom.name: {names[at]}")
        is_none = "input_schema" in tool and schema.get("type") != "object"
        refuse(is_none, f"{path}.type: Input should be 'object'")
        # From reports of 2026 in the issues of many agents.
        is_open = schema.keys() & {"anyOf", "oneOf", "allOf"}
        refuse(is_open, f"{path} does not support oneOf, allOf, or anyOf at the top level")
        fault = schema_fault(compact(schema))
        refuse(fault, f"{path}: JSON schema is invalid. It must match draft 2020-12: {fault}")
        odd = [
            n for n in schema.get("properties", {}) if not re.fullmatch(r"[\w.-]{1,64}", n, re.A)
        ]
        refuse(odd, f"{path}.properties: Property keys should match, not {odd}")


# ── blocks ───────────────────────────────────────────────────────────────────────────────────


def _marks(body: Body) -> None:
    parts = map(body.get, ("tools", "system", "messages"))
    marked = [*_blocks_with("cache_control", [*parts])]
    refuse(len(marked) > 4, f"A maximum of 4 cache_control. Found {len(marked)}.")
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    refuse(lives != sorted(lives), "cache_control.ttl: '1h' must not come after '5m'")
    blank = [b for b in marked if b.get("type") == "text" and not b["text"].strip()]
    refuse(blank, "cache_control cannot be set for empty text blocks")


def _blocks_with(key: str, value: Any) -> Iterator[Block]:
    """The blocks that have a key, those within a block before it."""
    inner = value.values() if isinstance(value, dict) else value
    for each in inner if isinstance(value, dict | list) else ():
        yield from _blocks_with(key, each)
    if isinstance(value, dict) and value.get(key):
        yield value


def _texts(body: Body, turns: list[Turn]) -> None:
    for block in texts_of(body.get("system", "x")):
        refuse(not block["text"], "system: text content blocks must be non-empty")
    for turn in turns:
        refuse(not turn.blocks, f"messages.{turn.at}: all messages must have non-empty content")
        for block in turn.blocks:
            is_blank = block["type"] == "text" and not block["text"].strip()
            refuse(is_blank, "messages: text content blocks must contain non-whitespace text")


def _attachments(body: Body, model: Model) -> None:
    most = 100 if model.window < 1_000_000 else 600
    blocks = _blocks_with("source", body["messages"])
    files = [(block["type"], base64.b64decode(block["source"]["data"])) for block in blocks]
    sides = [max(struct.unpack(">II", data[16:24])) for kind, data in files if kind == "image"]
    refuse(len(sides) > 20 and max(sides) > 2000, "many-image requests: at most 2000 pixels")
    pages = sum(len(re.findall(rb"/Type /Page\b", file)) for kind, file in files if kind != "image")
    refuse(pages > most, f"messages: A maximum of {most} PDF pages may be provided.")
    refuse(len(sides) > most, f"messages: too many images: {len(sides)} > {most}")


ROLES = {"tool_use": "assistant", "server_tool_use": "assistant", "tool_result": "user"}
ROLES["thinking"] = "assistant"


def _roles(turns: list[Turn], memory: Memory) -> None:
    """The user and the assistant in turn, although the vendor joins neighbours."""
    refuse(not turns, "messages: at least one message is required")
    for turn, expected in zip(turns, itertools.cycle(("user", "assistant")), strict=False):
        refuse(turn.role != expected, f'messages.{turn.at}: Unexpected role "{turn.role}".')
        for block in turn.blocks:
            role = ROLES.get(block["type"], turn.role)
            words = f"`{block['type']}` blocks can only be used in `{role}` messages"
            refuse(role != turn.role, f"messages.{turn.at}: {words}")
    paused = any(key_of(block) in memory.paused for block in turns[-1].blocks)
    is_begun = turns[-1].role == "assistant" and not paused
    refuse(is_begun, "This model does not support assistant message prefill.")


def _pairs(turns: list[Turn]) -> None:
    waiting: set[str] = set()
    seen: set[str] = set()
    for turn in turns:
        results = [block["tool_use_id"] for block in turn.blocks if block["type"] == "tool_result"]
        first = {block.get("tool_use_id") for block in turn.blocks[: len(waiting)]}
        where = f"messages.{turn.at}"
        refuse(waiting - first, f"{where}: {waiting} without `tool_result` immediately after")
        refuse({*results} - waiting, f"{where}: unexpected `tool_use_id` in {results}")
        refuse(len(results) > len({*results}), f"{where}: each must have a single result")
        made = [b for b in turn.blocks if b["type"] in ("tool_use", "server_tool_use")]
        for name in (block["id"] for block in made):
            is_odd = not NAME.fullmatch(name) or name in seen
            refuse(is_odd, f"{where}: `tool_use` ids must be unique and match: {name}")
            seen.add(name)
        waiting = {block["id"] for block in made if block["type"] == "tool_use"}
    refuse(waiting, f"messages: {waiting} without `tool_result` immediately after")


# ── thinking ─────────────────────────────────────────────────────────────────────────────────


def _thinking(body: Body, turns: list[Turn], model: Model, thinks: bool) -> None:
    """Refuses what was tampered with; the turns remember what was dropped."""
    last = max((at for at, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    if body.get("thinking", {}).get("type") == "enabled" and last >= 0:
        kinds = [block["type"] for block in turns[last].blocks]
        is_missing = "tool_use" in kinds and last < len(turns) - 1 and kinds[0] != "thinking"
        refuse(is_missing, f"messages.{last}: must start with a thinking block")
    before = Beginning(body)
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            where = f"messages.{turn.at}.content.{at}"
            refuse(block["type"] == "redacted_thinking", f"{where}: no thinking was redacted")
            if block["type"] == "thinking":
                said = _said(block, where)
                if said["model"] != model.name:
                    turn.dropped.add(at)
                    continue
                is_moved = model.binds and said["prefix"] != before.digest_for(turn.role)
                refuse(is_moved, f"{where}: {BOUND}")
                if turn.at == last and thinks:
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


def _said(block: Block, where: str) -> dict[str, Any]:
    """What the server signed with a block; raises where it is not its own or was changed."""
    said = unseal(block["signature"]) or {}
    refuse(said.get("kind") != "thinking", f"{where}: Invalid `signature` in `thinking` block")
    refuse(said["own"] != digest(block["thinking"]), f"{where}: {UNMODIFIED}")
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
    if kind == "thinking":
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
