"""What the tools of memory cost in every request."""

import pytest

from kode.memory import open_memory
from kode.providers.wire import encode_json
from tests.memory.life import memory_context, settings

MOST_CHARS = 1_000


@pytest.mark.parametrize("name", ["tiered", "vault", "journal", "notes"])
async def test_the_schemas_of_a_system_are_small(tmp_path, name):
    system = open_memory(settings(system=name))
    await system.open(memory_context(tmp_path), {})
    rows = [
        {"name": one.name, "description": one.description, "parameters": one.parameters}
        for one in (tool.spec for tool in system.tools())
    ]
    await system.close(1)

    assert len(encode_json(rows)) <= MOST_CHARS
