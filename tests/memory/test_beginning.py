"""A continued session sends the beginning that it sent before, whatever it said and kept."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kode.config import load_config
from kode.contracts import ModelInfo
from kode.conversation import open_conversation
from kode.events import silent
from kode.messages import Message, Text, ToolCall, text_of
from kode.registry import SYSTEMS

SAYS = (
    "Remember that I prefer tabs.",
    "We always deploy on Fridays; run the tests.",
    "Write what you did to notes.txt.",
)
KEEPS: dict[str, dict[str, Any]] = {
    "memory": {"action": "add", "target": "env", "content": "The tests need Redis."},
    "memory_append": {"path": "facts/project.md", "entry": "- The tests need Redis."},
    "remember": {"content": "The tests need Redis.", "kind": "log"},
}


@dataclass
class Keeper:
    """A provider that keeps something when asked to, and writes every note it is asked for."""

    model: str = "keeper"
    name: str = "scripted"
    info: ModelInfo = field(
        default_factory=lambda: ModelInfo(context_window=100_000, max_output_tokens=4_000)
    )
    turns: list[Any] = field(default_factory=list)

    async def reply(self, request: Any, emit: Any) -> Message:
        if not any(tool.name == "read_file" for tool in request.tools):
            note = {"narrative": "Deploys were set up.", "facts": ["Deploys are on Fridays."]}
            return self._said(Text(text=json.dumps(note)))
        self.turns.append(replace(request, messages=tuple(request.messages)))
        tool = next((one.name for one in request.tools if one.name in KEEPS), None)
        if tool and "deploy" in text_of(request.messages[-1]):
            id = f"call{len(self.turns)}"
            return self._said(ToolCall(id=id, name=tool, arguments=json.dumps(KEEPS[tool])))
        return self._said(Text(text=f"Done {len(self.turns)}."))

    def _said(self, part: Any) -> Message:
        stop = "tool_calls" if isinstance(part, ToolCall) else "end"
        return Message(role="assistant", parts=(part,), stop=stop, model=self.model)

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("system", SYSTEMS)
async def test_three_continues_repeat_every_request_before_them(system, tmp_path, monkeypatch):
    home, keeper, id = tmp_path / "home", Keeper(), None
    monkeypatch.setenv("KODE_HOME", str(home))
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"memory": {"system": system}}))
    for number in range(4):
        flags = {"provider": "scripted", "script": "none"}
        loaded = load_config(home, tmp_path, environ={}, flags=flags)
        talk = await open_conversation(
            loaded, cwd=tmp_path, emit=silent, ask=None, provider=keeper, session_id=id
        )
        for text in SAYS:
            await talk.turn(f"{text} ({number})")
        id = talk.session.id
        await talk.close()

    assert len(keeper.turns) >= 4 * len(SAYS)
    for before, after in zip(keeper.turns, keeper.turns[1:], strict=False):
        assert (after.system, after.tools) == (before.system, before.tools)
        assert after.messages[: len(before.messages)] == before.messages
