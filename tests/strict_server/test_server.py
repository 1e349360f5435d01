"""The strict server's script, and how it is run on its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.strict_server import StrictServer


def ask(url: str, words: str, model: str = "claude-opus-5") -> str:
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": words}]}
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    request = Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=30) as answer:
        content = json.loads(answer.read())["content"]
    return "".join(block.get("text", "") for block in content)


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer() as server:
        yield server


def test_replies_play_in_order_by_what_matches_and_by_model(server: StrictServer) -> None:
    small = {"text": "small", "model": "claude-haiku-5-5"}
    server.play([{"text": "one"}, {"text": "title", "match": "^Name"}, small, {"text": "two"}])
    asked = [("Hi", "claude-opus-5"), ("x\nName it", "claude-opus-5")]
    asked += [("Hi", "claude-haiku-5-5"), ("Hi", "claude-opus-5")]
    said = [ask(server.url, words, model) for words, model in asked]
    assert said == ["one", "title", "small", "two"]


def test_a_script_may_be_a_function(server: StrictServer) -> None:
    server.play(lambda request: {"text": request["messages"][-1]["content"]})
    assert ask(server.url, "Back") == "Back"


@pytest.mark.parametrize("script", [[], [{"texts": "x"}], [{"parts": [{"word": "x"}]}]])
def test_a_script_that_is_through_or_wrong_is_listed(server: StrictServer, script: Any) -> None:
    server.play(script)
    with pytest.raises(HTTPError) as refused:
        ask(server.url, "Hi")
    refused.value.close()
    assert len(server.refusals) == 1


@pytest.mark.slow
def test_it_runs_on_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "Hello"}]), encoding="utf-8")
    command = [sys.executable, "-m", "tests.strict_server", "--script", str(script)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert ask(f"http://127.0.0.1:{port}", "Hi") == "Hello"
        finally:
            process.terminate()
