"""What Anthropic's Messages API refuses, in its words, and what it makes of a prompt."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.strict_server import shapes
from tests.strict_server.cache import Piece
from tests.strict_server.faults import Refused
from tests.strict_server.memory import Key, Memory
from tests.strict_server.models import Model
from tests.strict_server.seals import compact, digest, unseal

Body = dict[str, Any]
Block = dict[str, Any]

BINDING_BETA = "thinking-binding-controls-2026-08-01"
THINKING = ("thinking", "redacted_thinking")
SAMPLING = ("temperature", "top_p", "top_k")
"""Known to older models only, and no longer to the SDK's types."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
UNMODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
THINKING_FIRST = (
    "Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, "
    "a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
    "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous "
    "turns. To avoid this requirement, disable `thinking`."
)
NO_RESULT = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)
NO_USE = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must "
    "have a corresponding `tool_use` block in the previous message."
)
BOUND = (
    "Invalid `thinking` block. The block is bound to a different conversation: the system prompt, "
    "the tools or the messages before it are not those it was created with. Remove the block, or "
    'set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
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
    prefix: str
    """Digest of everything, to which the next thinking is bound."""
    pieces: list[Piece]
    transformations: list[dict[str, str]] | None = None


def check(body: Body, headers: Mapping[str, str], model: Model, memory: Memory) -> Checked:
    """Raises `Refused` for the first thing that the vendor would refuse."""
    betas = [b.strip() for b in headers.get("anthropic-beta", "").split(",") if b.strip()]
    _shape("beta messages" if betas else "messages", body, memory)
    if "block_binding" in body.get("thinking", {}) and BINDING_BETA not in betas:
        raise Refused(f"thinking.{body['thinking']['type']}.block_binding: {EXTRA}")
    _parameters(body, model)
    _tools(body, model)
    turns = turns_of(body)
    _marks(body, turns)
    _texts(body, turns)
    _roles(turns, model, memory)
    _pairs(turns)
    thinks = _thinks(body, model)
    transformations = _thinking(body, turns, model, thinks)
    pieces = pieces_of(body, turns)
    total = sum(len(piece.text.encode()) for piece in pieces) // 4
    if total > model.window:
        raise Refused(f"prompt is too long: {total} tokens > {model.window} maximum")
    display = body.get("thinking", {}).get("display")
    shows = display == "summarized" or (display is None and not model.omits)
    reported = transformations if BINDING_BETA in betas else None
    return Checked(turns, thinks, shows, _prefix(body, turns), pieces, reported)


def check_count(body: Body, model: Model, memory: Memory) -> int:
    """The tokens of a prompt for `count_tokens`."""
    _shape("count", body, memory)
    turns = turns_of(body)
    _pairs(turns)
    return sum(len(piece.text.encode()) for piece in pieces_of(body, turns)) // 4


# ── shape ────────────────────────────────────────────────────────────────────────────────────

EXTRA = "Extra inputs are not permitted"


def _shape(kind: str, body: Body, memory: Memory) -> None:
    """Against the SDK's types; a block of the server's own that comes back whole is right."""
    plain = {key: value for key, value in body.items() if key not in ("stream", *SAMPLING)}
    if isinstance(plain.get("messages"), list):
        plain["messages"] = [
            _known(message, at, memory) for at, message in enumerate(plain["messages"])
        ]
    if wrong := shapes.fault(kind, plain):
        where = ".".join(str(part) for part in wrong["path"])
        raise Refused(f"{where}: {wrong['msg']}")


def _known(message: Any, at: int, memory: Memory) -> Any:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return message
    known = []
    for number, block in enumerate(blocks):
        if not isinstance(block, dict):
            return message
        given = {k: v for k, v in block.items() if k != "cache_control" and v is not None}
        plain = memory.known(key_of(given), given, f"messages.{at}.content.{number}")
        known.append(plain | {k: v for k, v in block.items() if k == "cache_control" or v is None})
    return message | {"content": known}


def key_of(block: Block) -> Key:
    """What tells one block from others."""
    kind = block.get("type")
    name = {"thinking": "signature", "redacted_thinking": "data", "text": "text"}.get(str(kind))
    return (kind, compact(block.get(name or ("id" if "id" in block else "tool_use_id"))))


def turns_of(body: Body) -> list[Turn]:
    found = []
    for at, message in enumerate(body["messages"]):
        content = message.get("content", [])
        text = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.append(Turn(message["role"], at, text))
    return found


# ── parameters ───────────────────────────────────────────────────────────────────────────────


def _thinks(body: Body, model: Model) -> bool:
    kind = body.get("thinking", {}).get("type")
    return bool(kind in ("adaptive", "enabled") or (kind is None and model.thinks))


def _parameters(body: Body, model: Model) -> None:
    limit, most = body["max_tokens"], model.max_output
    if limit < 0:
        raise Refused("max_tokens: Input should be greater than or equal to 0")
    if limit > most:
        tail = f"which is the maximum allowed number of output tokens for {model.name}"
        raise Refused(f"max_tokens: {limit} > {most}, {tail}")
    thinking = body.get("thinking", {})
    kind = thinking.get("type")
    if kind and kind not in model.thinking:
        instead = "adaptive" if "adaptive" in model.thinking else "enabled"
        tail = f'Use "thinking.type.{instead}" and "output_config.effort" to control thinking.'
        raise Refused(f'"thinking.type.{kind}" is not supported for this model. {tail}')
    if kind == "enabled":
        if thinking["budget_tokens"] < 1024:
            name = "thinking.enabled.budget_tokens"
            raise Refused(f"{name}: Input should be greater than or equal to 1024")
        if thinking["budget_tokens"] >= limit:
            raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")
    _effort(body.get("output_config", {}).get("effort"), model)
    for path, schema in _schemas(body):
        _closed(schema, path)
    _sampling(body, model)
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if forced and (_thinks(body, model) or not model.forced_tool):
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")


def _effort(effort: str | None, model: Model) -> None:
    if effort is None:
        return
    if not model.efforts:
        raise Refused("This model does not support the effort parameter.")
    if effort not in model.efforts:
        levels = ", ".join(sorted(model.efforts))
        words = f"This model does not support effort level '{effort}'. Supported levels: {levels}."
        raise Refused(words)


def _sampling(body: Body, model: Model) -> None:
    given = [name for name in SAMPLING if body.get(name) is not None]
    odd = [name for name in given if name != "temperature" or body[name] != 1]
    if odd and not model.sampling:
        raise Refused(f"`{odd[0]}` is deprecated for this model.")
    if odd and odd != ["top_p"] and _thinks(body, model):
        words = f"`{odd[0]}` may only be set to 1 when thinking is enabled or in adaptive mode."
        raise Refused(words)
    if "temperature" in given and "top_p" in given:
        raise Refused("`temperature` and `top_p` cannot both be specified for this model.")


def _schemas(body: Body) -> Iterator[tuple[str, Any]]:
    wanted = body.get("output_config", {}).get("format") or {}
    if "schema" in wanted:
        yield "output_config.format.schema", wanted["schema"]
    for at, tool in enumerate(body.get("tools", ())):
        if tool.get("strict"):
            yield f"tools.{at}.custom.input_schema", tool["input_schema"]


def _closed(schema: Any, path: str) -> None:
    """Structured output and strict tools want closed objects."""
    if isinstance(schema, list):
        for inner in schema:
            _closed(inner, path)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        tail = "'additionalProperties' must be explicitly set to false"
        raise Refused(f"{path}: For 'object' type, {tail}")
    for inner in schema.values():
        _closed(inner, path)


def _tools(body: Body, model: Model) -> None:
    seen = set()
    for at, tool in enumerate(body.get("tools", ())):
        name = tool.get("name", "")
        if not NAME.fullmatch(name):
            words = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            raise Refused(f"tools.{at}.custom.name: {words}")
        if name in seen:
            raise Refused("tools: Tool names must be unique.")
        seen.add(name)
        if "input_schema" in tool and tool["input_schema"].get("type") != "object":
            raise Refused(f"tools.{at}.custom.input_schema.type: Input should be 'object'")
        _schema(tool.get("input_schema", {}), f"tools.{at}.custom.input_schema")


def _schema(schema: Body, path: str) -> None:
    """Of a tool; from reports of 2026 in the issues of many agents."""
    if schema.keys() & {"anyOf", "oneOf", "allOf"}:
        words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        raise Refused(f"{path}: {words}")
    if shapes.schema_fault(compact(schema)):
        words = "JSON schema is invalid. It must match JSON Schema draft 2020-12 "
        raise Refused(f"{path}: {words}(https://json-schema.org/draft/2020-12).")
    for name in schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            words = "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
            raise Refused(f"{path}.properties: {words}")


# ── blocks ───────────────────────────────────────────────────────────────────────────────────


def _marks(body: Body, turns: list[Turn]) -> None:
    marks = [(path, block["cache_control"]) for path, block in _marked(body, turns)]
    if body.get("cache_control"):
        marks.append(("", body["cache_control"]))
    if len(marks) > 4:
        raise Refused(
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
        )
    short = False
    for path, mark in marks:
        if mark.get("ttl", "5m") == "1h" and short:
            words = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
            order = "Note that blocks are processed in the following order: `tools`, `system`, "
            raise Refused(f"{path}.cache_control.ttl: {words}block. {order}`messages`.")
        short = short or mark.get("ttl", "5m") == "5m"
    for path, block in _marked(body, turns):
        if block.get("type") == "text" and not block["text"].strip():
            raise Refused(f"{path}.text: cache_control cannot be set for empty text blocks")


def _marked(body: Body, turns: list[Turn]) -> Iterator[tuple[str, Block]]:
    system = body.get("system", ())
    places = [(f"tools.{at}", tool) for at, tool in enumerate(body.get("tools", ()))]
    if not isinstance(system, str):
        places += [(f"system.{at}", block) for at, block in enumerate(system)]
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            where = f"messages.{turn.at}.content.{at}"
            inner = block.get("content")
            inner = inner if isinstance(inner, list) else []
            places += [(f"{where}.content.{n}", b) for n, b in enumerate(inner)]
            places.append((where, block))
    return ((path, block) for path, block in places if block.get("cache_control"))


def _texts(body: Body, turns: list[Turn]) -> None:
    system = body.get("system", "x")
    for block in [] if isinstance(system, str) else system:
        if not block["text"]:
            raise Refused("system: text content blocks must be non-empty")
    for turn in turns:
        if not turn.blocks and not (turn is turns[-1] and turn.role == "assistant"):
            tail = "all messages must have non-empty content except for the optional final "
            raise Refused(f"messages.{turn.at}: {tail}assistant message")
        for block in turn.blocks:
            if block["type"] == "text" and not block["text"]:
                raise Refused("messages: text content blocks must be non-empty")
            if block["type"] == "text" and not block["text"].strip():
                raise Refused("messages: text content blocks must contain non-whitespace text")


ROLES = {"tool_use": "assistant", "server_tool_use": "assistant", "tool_result": "user"}
ROLES |= dict.fromkeys(THINKING, "assistant")


def _roles(turns: list[Turn], model: Model, memory: Memory) -> None:
    if not turns:
        raise Refused("messages: at least one message is required")
    if turns[0].role == "system":
        words = "use the top-level 'system' parameter for the initial system prompt"
        raise Refused(f"messages.0: {words}")
    if turns[0].role != "user":
        raise Refused('messages: first message must use the "user" role')
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            kind = block["type"]
            if ROLES.get(kind, turn.role) != turn.role:
                words = f"`{kind}` blocks can only be used in `{ROLES[kind]}` messages"
                raise Refused(f"messages.{turn.at}.content.{at}: {words}")
    _system_turns(turns, model)
    last = turns[-1]
    paused = any(key_of(block) in memory.paused for block in last.blocks)
    if last.role == "assistant" and not model.prefill and not paused:
        tail = "The conversation must end with a user message."
        raise Refused(f"This model does not support assistant message prefill. {tail}")


def _system_turns(turns: list[Turn], model: Model) -> None:
    """A later system message: only after the user's (or a server tool's result), and only before
    the assistant's or at the end."""
    for before, turn, after in zip(turns, turns[1:], [*turns[2:], None], strict=False):
        if turn.role != "system":
            continue
        where = f"messages.{turn.at}"
        if not model.mid_system:
            tail = 'The Messages API accepts a top-level `system` parameter, not "system" as an '
            raise Refused(f'messages: Unexpected role "system". {tail}input message role.')
        server_tool = before.role == "assistant" and before.blocks[-1]["type"].endswith("_result")
        if before.role != "user" and not server_tool:
            raise Refused(f"{where}: a system message must immediately follow a user message")
        if after is not None and after.role != "assistant":
            tail = "be the last message or be followed by an assistant message"
            raise Refused(f"{where}: a system message must {tail}")


def _pairs(turns: list[Turn]) -> None:
    waiting: list[str] = []
    asked_at = -1
    seen: set[str] = set()
    for _, blocks in _merged(turns):
        results = [block["tool_use_id"] for _, _, block in blocks if block["type"] == "tool_result"]
        first = [block for _, _, block in blocks[: len(waiting)]]
        answered = {block.get("tool_use_id") for block in first if block["type"] == "tool_result"}
        if missing := [name for name in waiting if name not in answered]:
            raise Refused(f"messages.{asked_at}: {NO_RESULT.format(ids=', '.join(missing))}")
        for at, number, block in blocks:
            where = f"messages.{at}.content.{number}"
            if block["type"] == "tool_result" and block["tool_use_id"] not in waiting:
                raise Refused(f"{where}: {NO_USE.format(id=block['tool_use_id'])}")
        if double := [name for name in results if results.count(name) > 1]:
            words = "each tool_use must have a single result. Found multiple `tool_result` blocks"
            raise Refused(f"messages.{blocks[0][0]}: {words} with id: {double[0]}")
        waiting = []
        for at, number, block in blocks:
            if block["type"] not in ("tool_use", "server_tool_use"):
                continue
            where = f"messages.{at}.content.{number}"
            if not NAME.fullmatch(block["id"]):
                words = "String should match pattern '^[a-zA-Z0-9_-]+$'"
                raise Refused(f"{where}.{block['type']}.id: {words}")
            if block["id"] in seen:
                raise Refused(f"{where}: `tool_use` ids must be unique")
            seen.add(block["id"])
            if block["type"] == "tool_use":
                waiting, asked_at = [*waiting, block["id"]], at
    if waiting:
        raise Refused(f"messages.{asked_at}: {NO_RESULT.format(ids=', '.join(waiting))}")


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


def _thinking(body: Body, turns: list[Turn], model: Model, thinks: bool) -> list[dict[str, str]]:
    """Refuses what was tampered with; returns what was dropped, which the turns remember too."""
    last = max((at for at, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    first = last  # neighbours of one role are one message
    while first > 0 and turns[first - 1].role == "assistant":
        first -= 1
    latest = turns[first : last + 1]
    if body.get("thinking", {}).get("type") == "enabled" and latest:
        asked = any(block["type"] == "tool_use" for turn in latest for block in turn.blocks)
        found = latest[0].blocks[0]["type"] if latest[0].blocks else "text"
        if asked and turns[-1].role != "assistant" and found not in THINKING:
            where = f"messages.{latest[0].at}.content.0.type"
            raise Refused(f"{where}: {THINKING_FIRST.format(found=found)}")
    behaviour = body.get("thinking", {}).get("block_binding") or {}
    may_drop = behaviour.get("prefix_mismatch_behavior") == "drop_block"
    dropped = []
    running = _running(body)
    role = ""
    failing = False  # the rest of a turn's thinking goes with a block that failed
    for turn in turns:
        failing = failing and turn.role == "assistant" == role
        for at, block in enumerate(turn.blocks):
            where = f"messages.{turn.at}.content.{at}"
            if block["type"] in THINKING:
                said = _said(block, where, turn in latest and thinks)
                reason = ""
                if said["model"] != model.name:
                    reason = "model_binding_mismatch"
                elif model.binds and (
                    failing or said["prefix"] != _after(running, role, turn.role)
                ):
                    reason = "prefix_binding_mismatch"
                    failing = True
                    if not may_drop:
                        raise Refused(f"{where}: {BOUND}")
                elif turn in latest and thinks:
                    _whole(turn, at, said)
                if reason:
                    turn.dropped.add(at)
                    dropped.append({"type": "thinking_dropped", "path": where, "reason": reason})
                    continue
            if turn.role != role:
                running.update(turn.role.encode())
                role = turn.role
            running.update(compact(bare(block)).encode())
    return dropped


def _said(block: Block, where: str, latest: bool) -> dict[str, Any]:
    """What the server signed with a block; raises where it is not its own or was changed."""
    kind = block["type"]
    field_name = "signature" if kind == "thinking" else "data"
    said = unseal(block[field_name])
    if said is None or said.get("kind") != kind:
        raise Refused(f"{where}: Invalid `{field_name}` in `{kind}` block")
    if kind == "thinking" and said["own"] != digest(block["thinking"]):
        words = UNMODIFIED if latest else f"Invalid `{field_name}` in `{kind}` block"
        raise Refused(f"{where}: {words}")
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


def _running(body: Body) -> Any:
    system = body.get("system", [])
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    running = hashlib.sha256()
    for part in (body.get("tools", []), blocks):
        running.update(compact([bare(one) for one in part]).encode())
    return running


def _after(running: Any, role: str, next_role: str) -> str:
    """The digest of what is before a block of a role."""
    copy = running.copy()
    if role != next_role:
        copy.update(next_role.encode())
    return str(copy.hexdigest()[:16])


def _prefix(body: Body, turns: list[Turn]) -> str:
    """What the first block of the reply is bound to."""
    return bound_to(body, turns, [])


def bound_to(body: Body, turns: list[Turn], reply: list[Block]) -> str:
    """What the block after those of a reply is bound to."""
    running = _running(body)
    role = ""
    for turn in [*turns, Turn("assistant", -1, reply)]:
        for at, block in enumerate(turn.blocks):
            if at in turn.dropped:
                continue
            if turn.role != role:
                running.update(turn.role.encode())
                role = turn.role
            running.update(compact(bare(block)).encode())
    return _after(running, role, "assistant")


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
    system = body.get("system", [])
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    pieces = [_piece(compact(bare(block)), block) for block in (*body.get("tools", ()), *blocks)]
    thinking = {
        key: value
        for key, value in body.get("thinking", {}).items()
        if key not in ("display", "block_binding")
    }
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
    if body.get("cache_control") and pieces:
        pieces[-1] = Piece(pieces[-1].text, body["cache_control"].get("ttl", "5m"))
    return pieces


def _piece(text: str, block: Block) -> Piece:
    inner = block.get("content")
    marks = [block, *(inner if isinstance(inner, list) else ())]
    given = [b["cache_control"] for b in marks if isinstance(b, dict) and b.get("cache_control")]
    return Piece(text, given[0].get("ttl", "5m") if given else "")
