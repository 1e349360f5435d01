"""What a model sees of pictures, PDFs and notebooks, by the installed command, against servers as
strict as the vendors'."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.needs import PLAIN_PYTHON
from tests.pictures import pdf, png
from tests.strict_server import StrictServer

ROUTES = {
    "chat": ("openrouter", "anthropic/claude-sonnet-5.5", "auto"),
    "responses": ("openai", "gpt-5.4", "responses"),
    "messages": ("anthropic", "claude-opus-4-8", "auto"),
    "gemini": ("gemini", "gemini-3.8-flash", "auto"),
    "mistral": ("mistral", "mistral-medium-latest", "auto"),
}
ALL = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
SHOT, PLOT, PAINTED = png(7, 5), png(6, 6), png(5, 7)
PAINTER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "painter", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "paint", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "image", "mimeType": "image/png", "data": "PICTURE"}]},
    }
    if "id" in asked:
        result = results.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read(path: str, **more: Any) -> dict[str, Any]:
    return {"name": "read_file", "arguments": {"path": path, **more}}


def spoken(request: dict[str, Any]) -> str:
    """The conversation of a request, as the server got it."""
    return json.dumps(request.get("messages") or request.get("input"), ensure_ascii=False)


def asked(
    place: Place, route: tuple[str, str, str], *replies: Any, flags: tuple[str, ...] = ()
) -> list[str]:
    """The conversations of the requests of a run."""
    vendor, model, api = route
    place.extra["KODE_MODEL"] = ""
    place.home.mkdir(exist_ok=True)
    config = place.home / "config.json"
    settings = json.loads(config.read_text()) if config.exists() else {}
    with StrictServer([*replies, {"text": "Seen."}], vendor=vendor) as server:
        provider = {"base_url": server.url, "api_key": "a-key-of-tests", "api": api}
        config.write_text(json.dumps({**settings, "providers": {vendor: provider}}))
        done = place.run("run", "Look", "--provider", vendor, "--model", model, *flags)
        assert server.refusals == []
        assert done.code == 0, done.err
        return [spoken(one.json) for one in server.requests if one.json.get("tools")]


@pytest.fixture
def pictured(place: Place) -> Path:
    """A project with a picture, a PDF and a notebook."""
    plot = {"output_type": "display_data", "data": {"image/png": encoded(PLOT)}}
    cell = {"cell_type": "code", "source": ["plot", "()"], "outputs": [plot]}
    (place.project / "shot.png").write_bytes(SHOT)
    (place.project / "paper.pdf").write_bytes(pdf("the first page", "the second page"))
    (place.project / "work.ipynb").write_text(json.dumps({"cells": [cell]}))
    return place.project


@ALL
def test_pictures_in_results_reach_the_model_in_every_format(
    place: Place, pictured: Path, route: tuple[str, str, str]
) -> None:
    calls = {"calls": [read("shot.png"), read("work.ipynb"), read("paper.pdf")]}
    pages = {"calls": [read("paper.pdf", show="pictures")]}

    _, first, second = asked(place, route, calls, pages)

    for picture in (SHOT, PLOT):
        assert first.count(encoded(picture)) == 1
        assert second.count(encoded(picture)) == 1
    assert "7×5" in first
    assert "plot()" in first
    assert "the second page" in first
    kinds = ("image/png;base64", '"media_type": "image/png"')
    assert sum(map(first.count, kinds)) == 2
    assert sum(map(second.count, kinds)) == 4


@ALL
def test_pictures_of_mcp_servers_reach_the_model_in_every_format(
    place: Place, route: tuple[str, str, str]
) -> None:
    server = place.project / "painter.py"
    server.write_text(PAINTER.replace("PICTURE", encoded(PAINTED)))
    place.run("mcp", "add", "painter", "--", PLAIN_PYTHON, server.name)
    place.run("mcp", "approve", "painter", "--yes")
    paint = {"calls": [{"name": "mcp__painter__paint", "arguments": {}}]}

    *_, last = asked(place, route, paint, flags=("--allow", "mcp(painter)"))

    assert last.count(encoded(PAINTED)) == 1


def test_a_blind_model_is_told_about_a_picture(place: Place, pictured: Path) -> None:
    route = ("deepseek", "deepseek-v4-pro", "auto")

    _, last = asked(place, route, {"calls": [read("shot.png"), read("work.ipynb")]})

    assert encoded(SHOT) not in last
    assert encoded(PLOT) not in last
    assert "shot.png, " in last
    assert last.count("is not shown: this model cannot see images") == 2


def test_files_named_after_at_go_in_or_are_named(place: Place, pictured: Path) -> None:
    (pictured / "broken.png").write_bytes(b"no picture")
    with StrictServer([{"text": "Seen."}], vendor="openai") as server:
        place.url, place.extra["KODE_MODEL"] = server.url, "gpt-5.4"
        done = place.run("run", "Look at @shot.png, @paper.pdf and @broken.png", "--no-memory")
        request = json.dumps([one.json for one in server.requests])

    assert encoded(SHOT) in request
    assert encoded((pictured / "paper.pdf").read_bytes()) in request
    assert "broken.png is not an image" in done.err


def test_pictures_and_pdfs_come_in_by_ctx_or_are_named(place: Place, pictured: Path) -> None:
    (pictured / "broken.png").write_bytes(b"\0no picture")
    given = ("--ctx", "shot.png", "--ctx", "paper.pdf")
    with StrictServer([{"text": "Seen."}], vendor="openai") as server:
        place.url, place.extra["KODE_MODEL"] = server.url, "gpt-5.4"
        done = place.run("run", "Look", *given, "--no-memory")
        request = json.dumps([one.json for one in server.requests])
        refused = place.run("run", "Look", "--ctx", "broken.png", "--no-memory")

    assert done.code == 0, done.err
    assert encoded(SHOT) in request
    assert encoded((pictured / "paper.pdf").read_bytes()) in request
    assert refused.code != 0
    assert "broken.png" in refused.err


def test_a_pdf_comes_in_by_stream_json(place: Place, pictured: Path) -> None:
    paper = (pictured / "paper.pdf").read_bytes()
    source = {"type": "base64", "media_type": "application/pdf", "data": encoded(paper)}
    said = [{"type": "text", "text": "Look"}, {"type": "document", "source": source}]
    message = json.dumps({"type": "user", "message": {"role": "user", "content": said}}) + "\n"
    stream = ("--input-format", "stream-json", "--output-format", "stream-json", "--no-memory")
    with StrictServer([{"text": "Seen."}], vendor="openai") as server:
        place.url, place.extra["KODE_MODEL"] = server.url, "gpt-5.4"
        done = place.run("run", *stream, stdin=message)
        request = json.dumps([one.json for one in server.requests])

    assert done.lines[-1]["result"] == "Seen."
    assert encoded(paper) in request
