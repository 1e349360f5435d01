"""`kode cost` after real runs: what the server counted, and why it read a beginning again."""

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

READS = {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-5"}


@pytest.mark.parametrize("wire", MODELS)
def test_costs_sum_to_what_the_server_counted(place: Place, wire: str) -> None:
    other = place.folder / "other"
    for folder in (place.project, other):
        folder.mkdir(exist_ok=True)
        (folder / "a.txt").write_text("hello\n" * 100)
    replies = [READS, {"text": "Read."}] * 2
    flags = ("--provider", wire, "--model", MODELS[wire], "--no-memory")
    with ScriptedServer(replies, prefix_cache=True) as server:
        place.url = server.openai_url
        place.extra = {
            "ANTHROPIC_API_KEY": "sk-ant-test-0123456789abcdef0123",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
        }
        for folder in (place.project, other):
            assert place.run("run", *flags, "Read a.txt.", cwd=folder).code == 0
        counted = [request.usage for request in server.requests]

    first = place.run("cost", "--why", "--json").json
    assert first["breaks"] == []
    second = place.run("cost", "--why", "--json", cwd=other).json
    assert second["breaks"] == []

    day = place.run("cost", "--since", "1d", "--json").json
    assert {one["session"] for one in day["sessions"]} == {first["session"], second["session"]}
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"):
        assert day["total"][name] == sum(usage[name] for usage in counted)
    assert day["total"]["requests"] == len(counted) == 4
