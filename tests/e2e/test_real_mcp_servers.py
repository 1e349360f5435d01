"""MCP servers that others wrote, installed by package, through the installed command."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import Finished, Place
from tests.needs import PLAIN_PYTHON, skip_without
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.sampled(of=3)

PACKAGES = ("server-everything", "server-filesystem", "server-memory")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the servers' packages. Skips where they cannot be had."""
    skip_without("npm")
    folder = tmp_path_factory.mktemp("servers")
    names = [f"@modelcontextprotocol/{name}" for name in PACKAGES]
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), *names]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "py")]
    for command in (npm, [*pip, "mcp-server-git"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"{command[0]} could not install the servers: is there a network?")
    return folder


@pytest.fixture
def there(installed: Path, place: Place) -> Place:
    """A project with the packages in it, where the sandbox shows them, and all four configured."""
    for name in ("node_modules", "py"):
        shutil.copytree(installed / name, place.project / name, symlinks=True)
    subprocess.run(["git", "init", "--quiet", str(place.project)], check=True)
    (place.project / "notes.txt").write_text("a line of the project\n")
    node = {
        name: ["node", f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"]
        for name in ("everything", "filesystem", "memory")
    }
    node["filesystem"].append(str(place.project))
    git = [PLAIN_PYTHON, "-m", "mcp_server_git", "--repository", str(place.project)]
    for name, command in (*node.items(), ("git", git)):
        variables = {
            "git": ["--env", f"PYTHONPATH={place.project / 'py'}"],
            "memory": ["--env", f"MEMORY_FILE_PATH={place.project / 'graph.jsonl'}", "--write"],
        }.get(name, [])
        added = place.run("mcp", "add", name, *variables, "--", *command)
        assert added.code == 0, added.err
        # From now on its tools are offered at once, however long it takes to start.
        tested = place.run("mcp", "test", name)
        assert tested.code == 0, tested.err
    return place


def asked(place: Place, server: ScriptedServer, task: str, *calls: tuple[str, dict]) -> list[str]:
    """The results of calls that a model makes in one turn, one after the other."""
    replies = [{"calls": [{"name": name, "arguments": given}]} for name, given in calls]
    server.play([*replies, {"text": "done"}])
    place.url = server.openai_url
    names = {name.split("__")[1] for name, _ in calls}
    allowed = [word for name in sorted(names) for word in ("--allow", f"mcp({name})")]
    done: Finished = place.run("run", "--no-memory", *allowed, task)
    assert done.code == 0, done.err
    lines = map(json.loads, place.session_files[-1].read_text().splitlines())
    return [
        part["text"]
        for line in lines
        if line["type"] == "message" and line["role"] == "tool"
        for part in line["parts"]
        if part["type"] == "tool_result"
    ]


def test_each_feature_of_server_everything(there: Place) -> None:
    with ScriptedServer() as server:
        results = asked(
            there,
            server,
            "try @everything:demo://resource/static/document/features.md",
            ("mcp__everything__echo", {"message": "hello there"}),
            ("mcp__everything__get-sum", {"a": 2, "b": 40}),
            ("mcp__everything__get-structured-content", {"location": "Chicago"}),
            ("mcp__everything__get-annotated-message", {"messageType": "error"}),
            ("mcp__everything__get-resource-links", {"count": 2}),
            ("mcp__everything__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("mcp__everything__get-tiny-image", {}),
            ("mcp__everything__trigger-long-running-operation", {"duration": 1, "steps": 2}),
            ("mcp__everything__get-env", {}),
            ("mcp__everything__get-sum", {"a": "two"}),
        )
        sent = str([request.json for request in server.requests])

    echo, total, weather, annotated, links, reference, image, long, variables, wrong = results
    assert "hello there" in echo
    assert "42" in total
    assert "temperature" in weather
    assert "rror" in annotated
    assert links.count("demo://resource/") >= 2
    assert "demo://resource/" in reference
    assert "image_url" in sent, image
    assert "completed" in long
    assert "sk-test" not in variables
    assert "PATH" in variables
    assert "invalid" in wrong.lower() or "expected" in wrong.lower()
    assert "outside" in sent.partition("features.md")[2]  # the resource is there, fenced


def test_a_prompt_of_server_everything_is_a_command(there: Place) -> None:
    with ScriptedServer([{"text": "done"}]) as server:
        there.url = server.openai_url
        done = there.run("run", "--no-memory", "/mcp__everything__args-prompt Paris")
        sent = str(server.requests[-1].json["messages"])

    assert done.code == 0, done.err
    assert "weather in Paris" in sent


def test_servers_for_files_graph_and_git_do_as_allowed(there: Place) -> None:
    notes = str(there.project / "notes.txt")
    with ScriptedServer() as server:
        read, written, created, graph, status = asked(
            there,
            server,
            "look around",
            ("mcp__filesystem__read_text_file", {"path": notes}),
            ("mcp__filesystem__write_file", {"path": notes, "content": "changed"}),
            (
                "mcp__memory__create_entities",
                {"entities": [{"name": "Ann", "entityType": "person", "observations": ["tea"]}]},
            ),
            ("mcp__memory__read_graph", {}),
            ("mcp__git__git_status", {"repo_path": str(there.project)}),
        )

    assert "a line of the project" in read
    assert "read-only" in written.lower() or "erofs" in written.lower()
    assert Path(notes).read_text() == "a line of the project\n"
    assert "Ann" in created
    assert "tea" in graph
    assert "notes.txt" in status
