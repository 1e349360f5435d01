"""A scripted reply in its parts, which every format is made of."""

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import arguments_text

Reply = dict[str, Any]

KNOWN = frozenset(
    "text thinking redacted calls parts extra stop match model delay_s error wire".split()
)
COUNTER = itertools.count(1)
"""Over all servers of a process, so that no two ids are the same."""


@dataclass(frozen=True)
class Part:
    """`kind` is thinking, redacted, text, call or search."""

    kind: str
    text: str = ""
    name: str = ""
    """Of the tool called."""
    id: str | None = None
    omitted: bool = False
    results: tuple[Reply, ...] = ()
    extra: Reply = field(default_factory=dict)


def parts_of(reply: Reply) -> list[Part]:
    """In order: thinking, redacted thinking, text, calls; or as `parts` says."""
    unknown = set(reply) - KNOWN
    if unknown:
        raise ValueError(f"a reply has {sorted(unknown)}, which this server does not know")
    extra = reply.get("extra", {})
    given = list(reply.get("parts", ()))
    given += [{name: reply[name]} for name in ("thinking", "redacted", "text") if reply.get(name)]
    given += [{"call": call} for call in reply.get("calls", ())]
    return [_part(part, extra) for part in given]


def _part(given: Reply, extra: Reply) -> Part:
    added = extra | given.get("extra", {})
    if "thinking" in given:
        omitted = bool(given.get("omitted", False))
        return Part("thinking", given["thinking"], omitted=omitted, extra=added)
    if "redacted" in given:
        return Part("redacted", given["redacted"], extra=added)
    if "text" in given:
        return Part("text", given["text"], extra=added)
    if "call" in given:
        call = given["call"]
        name, text = call["name"], arguments_text(call)
        added = added | call.get("extra", {})
        return Part("call", text, name, id=call.get("id"), extra=added)
    if "search" in given:
        search = given["search"]
        results = tuple(search.get("results", ()))
        return Part("search", search["query"], results=results, extra=added)
    raise ValueError(f"a part is one of thinking, redacted, text, call, search: {given}")


def stop_of(reply: Reply, parts: list[Part]) -> str:
    """end, tool_calls, length, refusal, pause_turn, failed."""
    asked = any(part.kind == "call" for part in parts)
    return str(reply.get("stop") or ("tool_calls" if asked else "end"))


def tokens_of(parts: list[Part], kinds: tuple[str, ...] = ()) -> int:
    """Said in all, or by parts of these kinds: four bytes each."""
    said = [p for p in parts if not kinds or p.kind in kinds]
    return sum(len(f"{p.text}{p.name}".encode()) // 4 + 1 for p in said)


def new_id(prefix: str, length: int = 24) -> str:
    return prefix + hashlib.sha256(b"%d" % next(COUNTER)).hexdigest()[:length]


def arguments_of(part: Part) -> Any:
    """The arguments as an object; none where the script's text is no JSON object."""
    try:
        given = json.loads(part.text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
