"""docs/plugins.md is true: its package, built and installed by pip as a stranger's, does what the
page says; without it the sessions it wrote to open as before."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.command import Place
from tests.e2e.test_wheel import ask, bare, run, wheel
from tests.scripted_server import ScriptedServer

__all__ = ["bare", "wheel"]

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
FILE = r"^(?:.* )?`(kode_tally/\w+\.py)`(?:(?!^```).)*?^```python\n(.*?)^```$"
FILES = dict(re.findall(FILE, PAGE, re.M | re.S))

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kode(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `kode` of a fresh environment, with the package of the page installed beside it."""
    place = Place(tmp_path_factory.mktemp("tally"))
    assert ask(bare, place, "plugin", "new", "tally").returncode == 0
    source = place.project / "kode-tally"
    own_test = "import test_kode_tally as test; test.test_the_tool_counts_words()"
    run(bare.parent / "python", "-c", own_test, cwd=source)
    for name, text in FILES.items():
        (source / name).write_text(text, encoding="utf-8")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", source, cwd=source)
    (built,) = source.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", bare.parent / "python")
    run(*pip, "install", "--no-deps", "--no-index", built)
    return bare


def states(kode: Path, place: Place) -> dict[str, str]:
    listed = json.loads(ask(kode, place, "plugin", "list", "--json").stdout)
    return {one["name"]: one["state"] for one in listed}


def test_an_installed_plugin_is_off_and_not_imported(kode: Path, place: Place) -> None:
    assert states(kode, place)["tally"] == "off"
    ran = ask(kode, place, "tally", "x")
    assert ran.returncode == 3
    assert "kode plugin enable tally" in ran.stderr


def test_every_part_of_the_page_works(kode: Path, place: Place) -> None:
    assert ask(kode, place, "plugin", "enable", "tally").returncode == 0
    replies = [
        {"calls": [{"name": "list_files", "arguments": {}}]},
        {"text": "None so far."},
        {"text": "Fine."},
        {"text": "Here."},
    ]
    run_json = ("run", "--output-format", "json", "--provider", "tally-server")
    with ScriptedServer(replies) as server:
        place.extra = {"TALLY_URL": server.openai_url, "KODE_MODEL": ""}
        ran = ask(kode, place, *run_json, "--memory", "last-word", "Count the calls.")
        session = json.loads(ran.stdout)["session_id"]
        first = server.requests[0].json
        counted = ask(kode, place, "tally", session).stdout
        exported = ask(kode, place, "session", "export", session, "--format", "calls").stdout
        ask(kode, place, *run_json, "--memory", "last-word", "Go.")
        next_session = server.requests[-1].json
        assert ask(kode, place, "plugin", "disable", "tally").returncode == 0
        place.extra, place.url = {}, server.openai_url
        continued = ask(kode, place, "continue", "--id", session, "Still there?")

    assert first["model"] == "tally-1"
    assert "at most 100 calls" in first["messages"][0]["content"]
    assert counted == "1 calls in 1 turns\n"
    assert exported == "1\n"
    assert "Count the calls." in next_session["messages"][0]["content"]
    # Without the plug-in the session opens as before.
    assert (continued.returncode, continued.stdout) == (0, "Here.\n")
    assert ask(kode, place, "session", "check", session).returncode == 0
