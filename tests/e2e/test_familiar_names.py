"""What people bring from other agents, typed as they know it."""

import json
import subprocess

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.needs import needs
from tests.scripted_server import ScriptedServer


def test_other_agents_call_names_run_and_go_back_unchanged(place: Place) -> None:
    (place.project / "a.txt").write_text("one\n")
    replies = [
        {"calls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]},
        {
            "calls": [
                {
                    "name": "Edit",
                    "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"},
                },
                {"name": "Bash", "arguments": {"command": ["cat", "a.txt"], "timeout": 5000}},
            ]
        },
        {"text": "done"},
    ]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "x", "--permission-mode", "auto-edit", "--output-format", "json")
        sent = server.requests[-1].json["messages"]
    assert (place.project / "a.txt").read_text() == "two\n"
    assert (done.json["files_changed"], done.json["denials"]) == (["a.txt"], [])
    calls = [call["function"] for message in sent for call in message.get("tool_calls", ())]
    assert [call["name"] for call in calls] == ["Read", "Edit", "Bash"]
    assert json.loads(calls[1]["arguments"]) == replies[1]["calls"][0]["arguments"]
    assert not any("was not run" in json.dumps(message) for message in sent)


def test_a_rule_holds_for_a_tool_by_any_name(place: Place) -> None:
    edit = {"name": "Write", "arguments": {"file_path": "a.txt", "content": "x"}}
    with ScriptedServer([{"calls": [edit]}, {"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run(
            *("run", "x", "--permission-mode", "auto-edit", "--deny", "edit(*.txt)"),
            *("--output-format", "json"),
        )
    assert [denial["tool"] for denial in done.json["denials"]] == ["write_file"]
    assert not (place.project / "a.txt").exists()


@pytest.mark.parametrize("words", [["-r"], ["--resume"], ["resume"]])
def test_resuming_without_an_id_opens_a_menu_of_sessions(place: Place, words: list[str]) -> None:
    with ScriptedServer([{"text": "first"}, {"text": "second"}]) as server:
        place.url = server.openai_url
        place.run("run", "the older task")
        place.run("run", "the newer task")
        with Terminal(KODE, words, cwd=place.project, env=place.environ) as terminal:
            text = terminal.until("› today", "the older task", "type to search")
            assert text.index("the newer task") < text.index("the older task")
            terminal.type("older")
            terminal.until_gone("the newer task")
            terminal.type("enter")
            terminal.until("Resumed", "> the older task", "first")
            terminal.type("exit", "enter")
            assert terminal.ended() == 0


def test_picking_no_session_leaves_a_new_one_open(place: Place) -> None:
    with ScriptedServer([{"text": "first"}]) as server:
        place.url = server.openai_url
        place.run("run", "a task")
        with Terminal(KODE, ["-r"], cwd=place.project, env=place.environ) as terminal:
            terminal.until("Esc cancels")
            terminal.type("esc")
            terminal.until_gone("Esc cancels")
            terminal.type("exit", "enter")
            assert terminal.ended() == 0


def test_a_missing_terminal_to_pick_on_asks_for_an_id(place: Place) -> None:
    done = place.run("-r")
    assert done.code == 3
    assert "`kode session list`" in done.err


@pytest.fixture
def prompt(place: Place):
    """Opens the real prompt over a server with these replies; gives the terminal and the server."""
    import contextlib

    with contextlib.ExitStack() as stack:

        def open_prompt(*replies: dict, width: int = 100, height: int = 50):
            server = stack.enter_context(ScriptedServer(list(replies)))
            place.url = server.openai_url
            terminal = stack.enter_context(
                Terminal(KODE, [], cwd=place.project, env=place.environ, width=width, height=height)
            )
            terminal.until("ask ·")
            return terminal, server

        yield open_prompt


def git(place: Place, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *identity, *arguments], cwd=place.project, check=True)


def task_of(server: ScriptedServer) -> str:
    return json.dumps(server.requests[0].json)


def test_a_fact_after_a_number_sign_is_kept(place: Place, prompt) -> None:
    terminal, server = prompt()
    terminal.type("# likes short commit messages", "enter")
    text = terminal.until("undo with: /memory undo")
    assert "likes short commit messages" in text
    assert "likes short" in (place.home / "memory" / "facts" / "user.md").read_text()
    terminal.type("quit", "enter")
    assert terminal.ended() == 0
    assert list(server.requests) == []


def test_status_says_what_the_session_stands_on(place: Place, prompt) -> None:
    (place.project / "CLAUDE.md").write_text("one\ntwo\n@more.md")
    (place.project / "more.md").write_text("more\n")
    terminal, _ = prompt()
    terminal.type("/status", "enter")
    text = terminal.until("config", "imported by CLAUDE.md")
    for shown in ("kode 0.", "0 turns", "CLAUDE.md (3 lines)", "tiered:"):
        assert shown in text
    assert "changed since" not in text
    (place.project / "CLAUDE.md").write_text("another")
    terminal.type("/status", "enter")
    terminal.until("changed since this session read them")


def test_question_mark_and_aliases_do_at_once_what_they_mean(place: Place, prompt) -> None:
    terminal, server = prompt(height=40)
    terminal.type("?", "enter")
    text = terminal.until("/help keys")
    assert "Commands" in "\n".join(terminal.screen.display)
    terminal.type("/clear", "enter")
    text = terminal.until("New session.")
    assert "Did you mean" not in text
    terminal.type("/mcp", "enter")
    terminal.until("No MCP servers here.")
    terminal.type("/exit", "enter")
    assert terminal.ended() == 0
    assert list(server.requests) == []


def test_init_writes_the_instructions_of_the_project(place: Place, prompt) -> None:
    write = {"name": "write_file", "arguments": {"path": "AGENTS.md", "content": "# Rules\n"}}
    terminal, server = prompt({"calls": [write]}, {"text": "Written."})
    terminal.type("/permissions auto-edit", "enter")
    terminal.until("Mode: auto-edit.")
    terminal.type("/init mind the docs", "enter")
    terminal.until("Written.")
    assert (place.project / "AGENTS.md").read_text() == "# Rules\n"
    assert "improve it instead" in task_of(server)
    assert "mind the docs" in task_of(server)


@needs("git")
def test_review_looks_at_the_working_tree_or_a_branch(place: Place, prompt) -> None:
    git(place, "init", "-q", "-b", "main")
    (place.project / "a.txt").write_text("a\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    terminal, server = prompt({"text": "Nothing wrong."})
    terminal.type("/review", "enter")
    terminal.until("Nothing to review")
    terminal.type("/review no-such", "enter")
    terminal.until("There is no branch or commit 'no-such' here.")
    terminal.type("/review main", "enter")
    terminal.until("Nothing wrong.")
    assert "the branch `main`" in task_of(server)
