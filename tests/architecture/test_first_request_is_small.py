"""What the first request costs: every session pays for it, and every turn reads it again."""

from pathlib import Path

import pytest

from bench.first_request import FORMATS, first_request, parts
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.engine.context import fixed_tokens
from kode.events import no_emit

MAX_TOKENS = 1_850
MAX_TOKENS_OF_OTHER_MEMORY = 2_000
OTHERS = sorted({*FORMATS} - {"chat"})


@pytest.mark.parametrize(
    "api", ["chat", *(pytest.param(api, marks=pytest.mark.slow) for api in OTHERS)]
)
def test_the_first_request_with_every_tool_stays_small(api: str) -> None:
    assert parts(first_request(api, *FORMATS[api]))["total"] <= MAX_TOKENS


@pytest.mark.parametrize("system", ["tiered", "vault", "journal", "notes"])
async def test_tools_and_prompt_stay_small_with_every_memory(tmp_path: Path, system: str) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]")
    flags = {"script": str(script), "provider": "scripted", "memory.system": system}
    loaded = load_config(tmp_path / "home", tmp_path, environ={}, flags=flags)
    conversation = await open_conversation(Settings(loaded, emit=no_emit), cwd=tmp_path)
    try:
        await conversation.start()
        assert fixed_tokens(conversation.context) < MAX_TOKENS_OF_OTHER_MEMORY
    finally:
        await conversation.close()
