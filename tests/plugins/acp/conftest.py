from types import SimpleNamespace
from typing import Any

from kode.engine.action import PreviewedCall, preview_call
from kode.messages import ToolCall
from kode.tools.builtin import BUILTIN

AGENT: Any = SimpleNamespace(tools=BUILTIN, secrets=("sk-secret",))


def preview(call: ToolCall) -> PreviewedCall:
    return preview_call(AGENT, call)
