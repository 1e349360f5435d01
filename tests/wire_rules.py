"""What a request must be for every server: the rules of the strict server for a model that takes
everything. It imports nothing of kode.
"""

import json

from tests.strict_server import chat, messages
from tests.strict_server.models import Model
from tests.strict_server.refusals import Refused
from tests.strict_server.replies import Memory

ANY_MODEL = Model("any", "any", thinking=("adaptive", "enabled", "disabled"))


def faults_of(path: str, data: bytes) -> list[str]:
    """What is wrong with a request to `.../messages` or `.../chat/completions`; nothing for one
    that every server takes."""
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        if path.endswith("/messages"):
            for turn in body["messages"]:  # no server knows the signature of this thinking
                turn["content"] = [it for it in turn["content"] if "thinking" not in it["type"]]
            messages.check(body, {}, ANY_MODEL, Memory())
        else:
            chat.check(body, "any", ANY_MODEL, Memory())
    except (ValueError, Refused) as error:
        return [str(error)]
    return []


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
