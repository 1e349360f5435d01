"""All tool schemas and the system prompt together: every turn pays for them again."""

import json
from pathlib import Path

import pytest

from kode.config import load_config
from kode.conversation import open_conversation
from kode.engine.context import fixed_tokens
from kode.events import silent

MAX_TOKENS = 4_000


@pytest.mark.parametrize("system", ["tiered", "vault", "journal", "notes"])
async def test_tools_and_system_prompt_stay_under_4000_tokens(tmp_path: Path, system: str) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]")
    flags = {"script": str(script), "provider": "scripted", "memory.system": system}
    loaded = load_config(tmp_path / "home", tmp_path, environ={}, flags=flags)
    conversation = await open_conversation(loaded, cwd=tmp_path, emit=silent, ask=None)
    try:
        await conversation.open()
        wire = [
            {"name": s.name, "description": s.description, "parameters": s.parameters}
            for s in conversation.context.specs
        ]
        assert (len(json.dumps(wire)) + len(conversation.context.system)) / 4 < MAX_TOKENS
        assert fixed_tokens(conversation.context) < MAX_TOKENS
    finally:
        await conversation.close()
