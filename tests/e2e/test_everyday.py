"""Everyday lines of development through the installed kode, with nobody at the terminal."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.command import Finished, Place, needs_a_whole_sandbox
from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def repository(place: Place) -> Path:
    """A project under git: `kept.txt` is tracked and changed since, `tracked.txt` tracked,
    `own.txt` untracked."""
    skip_without("git")
    needs_a_whole_sandbox(place)
    for name in ("kept.txt", "tracked.txt"):
        (place.project / name).write_text("old\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*GIT, *words], cwd=place.project, check=True)
    (place.project / "kept.txt").write_text("changed\n")
    (place.project / "own.txt").write_text("mine\n")
    return place.project


def played(place: Place, commands: Sequence[str], *flags: str) -> tuple[Finished, list[str]]:
    """Runs one command a reply; returns the end and what the model was told of each."""
    calls = [{"calls": [{"name": "shell", "arguments": {"command": one}}]} for one in commands]
    with ScriptedServer([*calls, {"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--output-format", "json", *flags)
        messages = server.requests[-1].json["messages"]
    return done, [str(one["content"]) for one in messages if one["role"] == "tool"]


SERVE = (
    "python3 -m http.server 8123 --bind 127.0.0.1 2>/dev/null >&2 & "
    "for i in $(seq 50); do curl -sf http://127.0.0.1:8123/tracked.txt && break; sleep 0.1; done; "
    "kill $!; wait $!; echo ended $?"
)


def test_a_server_is_asked_and_ended_in_the_sandbox(place: Place, repository: Path) -> None:
    done, told = played(
        place,
        ["echo hello > /tmp/out.txt; cat /tmp/out.txt", SERVE, "env"],
        "--permission-mode", "auto-edit",
    )  # fmt: skip

    assert done.json["denials"] == []
    assert "hello" in told[0]
    assert "old" in told[1]
    assert "ended 143" in told[1]
    assert "PATH=" in told[2]
    assert "sk-test" not in told[2]
    assert not Path("/tmp/out.txt").exists()


CHANGES = ["rm own.txt", "git rm -q tracked.txt", "git restore kept.txt", "touch x && rm x"]


def test_files_are_deleted_and_restored_under_the_rule_for_edits(
    place: Place, repository: Path
) -> None:
    _, told = played(place, CHANGES)
    assert (repository / "own.txt").read_text() == "mine\n"
    assert (repository / "kept.txt").read_text() == "changed\n"
    assert "own.txt" in told[0]

    planned, _ = played(place, CHANGES, "--permission-mode", "plan")
    assert len(planned.json["denials"]) == len(CHANGES)
    assert (repository / "own.txt").exists()

    done, _ = played(place, CHANGES, "--permission-mode", "auto-edit")
    assert done.json["denials"] == []
    assert not (repository / "own.txt").exists()
    assert not (repository / "tracked.txt").exists()
    assert (repository / "kept.txt").read_text() == "old\n"


def test_places_that_run_later_stay_out_of_a_commands_changes(
    place: Place, repository: Path
) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")

    done, _ = played(
        place,
        ["rm -f .git/hooks/pre-commit", "rm -rf .git", "echo x > .envrc",
         "git config user.name other", "mkdir -p .github/workflows; echo x > .github/workflows/a"],
        "--permission-mode", "auto-edit",
    )  # fmt: skip

    assert hook.read_text() == "#!/bin/sh\n"
    assert not (repository / ".envrc").exists()
    assert not (repository / ".github/workflows/a").exists()
    assert (repository / ".git/HEAD").exists()
    assert "other" not in (repository / ".git/config").read_text()
    assert len(done.json["denials"]) == 5


def test_a_refusal_of_a_command_that_leaves_shows_a_way(place: Place, repository: Path) -> None:
    line = "for i in 1 2; do echo $i; done; touch made; git push origin main; wait"
    done, told = played(place, [line], "--permission-mode", "auto-edit")

    assert [one["subject"] for one in done.json["denials"]] == [line]
    assert "git push" in told[0]
    assert "touch" not in told[0]
    assert len(told[0].splitlines()) == 1
    assert not (repository / "made").exists()


def offered(place: Place, *flags: str, command: str = "run") -> set[str]:
    with ScriptedServer([{"text": "done"}]) as server:
        place.url = server.openai_url
        place.run(command, "work", *flags)
        return {tool["function"]["name"] for tool in server.requests[0].json["tools"]}


def test_tools_needing_a_yes_are_offered_where_one_can_come(place: Place) -> None:
    needs_a_yes = {"fetch_url", "delegate_tasks"}

    assert not needs_a_yes & offered(place)
    assert needs_a_yes & offered(place, "--allow", "fetch(docs.python.org)") == {"fetch_url"}
    assert needs_a_yes & offered(place, "--allow", "delegate") == {"delegate_tasks"}
    assert needs_a_yes <= offered(place, "--permission-mode", "full")


def test_a_session_keeps_the_tools_that_it_began_with(place: Place) -> None:
    began = offered(place, "--permission-mode", "full")
    assert offered(place, command="continue") == began
