from types import SimpleNamespace
from typing import Any

from kode.engine.call import preview_call
from kode.events import ToolStarted
from kode.messages import ToolCall
from kode.tool import Action
from kode.tools.builtin import BUILTIN

AGENT: Any = SimpleNamespace(tools=BUILTIN, withheld=(), secrets=("sk-secret",))


def preview(call: ToolCall) -> tuple[ToolStarted, Action | None]:
    return preview_call(AGENT, call)
