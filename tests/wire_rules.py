"""What a request must be for every server: the rules of the strict server, and those of templates
that take roles in turn. It imports nothing of kode.
"""

import json
import re
from typing import Any

from tests.strict_server import chat, messages
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused, refuse
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
            _check_turns(body["messages"])
            # Without thinking, whose signature no server knows here.
            kept = [
                {**turn, "content": [b for b in turn["content"] if "thinking" not in b["type"]]}
                for turn in body["messages"]
            ]
            messages.check({**body, "messages": kept}, {}, ANY_MODEL, Memory())
        else:
            chat.check(body, "any", ANY_MODEL, Memory())
            _check_chat(body["messages"])
    except (ValueError, Refused) as error:
        return [str(error)]
    return []


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_turns(turns: list[Body]) -> None:
    role = "assistant"
    for turn in turns:
        refuse(turn["role"] == role, f"the roles take turns: {turn}")
        role = turn["role"]
        kinds = {block["type"] for block in turn["content"]}
        refuse(role == "assistant" and not kinds & {"text", "tool_use"}, f"it only thinks: {turn}")
        for block in turn["content"]:
            is_unsigned = block["type"] == "thinking" and not block.get("signature")
            refuse(is_unsigned, f"thinking without its signature: {turn}")
            is_odd = block["type"] == "tool_use" and not NAME.fullmatch(block["name"])
            refuse(is_odd, f"the name of a call: {turn}")


def _check_chat(turns: list[Body]) -> None:
    before, ids = "", list[str]()
    for at, message in enumerate(turns):
        role, content = message["role"], message.get("content")
        refuse(role == before == "user", f"a user after a user: {message}")
        refuse((role == "system") != (at == 0), "the system message is the first")
        refuse(not isinstance(content, str | None), f"no text: {message}")
        refuse(not content and not message.get("tool_calls"), f"no content: {message}")
        before = role
        refuse(message.get("tool_calls") == [], "an empty list of calls")
        for call in message.get("tool_calls", ()):
            ids.append(call["id"])
            given = json.loads(call["function"]["arguments"], parse_constant=_no_constant)
            is_odd = not 0 < len(call["id"]) <= 40 or not NAME.fullmatch(call["function"]["name"])
            refuse(is_odd or not isinstance(given, dict), f"a call: {call}")
    refuse(len({*ids}) < len(ids), f"two calls with one id: {ids}")
    refuse(before not in ("user", "tool"), "the last message is nobody's turn to answer")
