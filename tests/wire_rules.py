"""What a request must be for every server: the rules of the strict server, and those of templates
that take roles in turn. It imports nothing of kode.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.strict_server import chat, messages
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused
from tests.strict_server.replies import Memory

Body = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ANY_MODEL = Model("any", "any", thinking=("adaptive", "enabled", "disabled"))


def faults_of(path: str, data: bytes) -> list[str]:
    """What is wrong with a request to `.../messages` or `.../chat/completions`; nothing for one
    that every server takes."""
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
        if path.endswith("/messages"):
            return [*_turn_faults(body), *_refusals_of_messages(body)]
        chat.check(body, "any", ANY_MODEL, Memory())
        return list(_chat_faults(body["messages"]))
    except (ValueError, Refused) as error:
        return [str(error)]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _refusals_of_messages(body: Body) -> Iterator[str]:
    """Without thinking, whose signature no server knows here."""
    kept = [
        {**turn, "content": [b for b in turn["content"] if "thinking" not in b["type"]]}
        for turn in body["messages"]
    ]
    try:
        messages.check({**body, "messages": kept}, {}, ANY_MODEL, Memory())
    except Refused as refused:
        yield str(refused)


def _turn_faults(body: Body) -> Iterator[str]:
    role = "assistant"
    for at, turn in enumerate(body["messages"]):
        if turn["role"] == role:
            yield f"message {at}: the roles take turns"
        role, blocks = turn["role"], turn["content"]
        if role == "assistant" and not any(b["type"] in ("text", "tool_use") for b in blocks):
            yield f"message {at}: thinking alone"
        for block in blocks:
            if block["type"] == "thinking" and not block.get("signature"):
                yield f"message {at}: thinking without its signature"
            if block["type"] == "tool_use" and not NAME.fullmatch(block["name"]):
                yield f"message {at}: call {block}"


def _chat_faults(turns: list[Body]) -> Iterator[str]:
    before, seen = "", set[str]()
    for at, message in enumerate(turns):
        where, role, content = f"message {at}", message["role"], message.get("content")
        if role == before == "user":
            yield f"{where}: a user after a user, which many templates refuse"
        if (role == "system") != (at == 0):
            yield f"{where}: the system message is the first"
        before, calls = role, message.get("tool_calls", [])
        if ("tool_calls" in message and not calls) or (not calls and not content):
            yield f"{where}: no content"
        if content is not None and not isinstance(content, str):
            yield f"{where}: content is {content!r}"
        for call in calls:
            name, function = call["id"], call["function"]
            if name in seen or not 0 < len(name) <= 40 or not NAME.fullmatch(function["name"]):
                yield f"{where}: call {call}"
            seen.add(name)
            given = json.loads(function["arguments"], parse_constant=_no_constant)
            if not isinstance(given, dict):
                yield f"{where}: arguments {given!r} are no object"
    if before not in ("user", "tool"):
        yield "the last message is nobody's turn to answer"
