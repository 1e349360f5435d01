"""Models that write their calls into the text, behind servers that do not read them there."""

import json
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.sampled(of=2)


def written(name: str, **arguments: Any) -> dict[str, Any]:
    call = json.dumps({"name": name, "arguments": arguments}, indent=2)
    return {"text": f"```json\n{call}\n```"}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_task_is_done_by_calls_written_as_text(place: Place, provider: str) -> None:
    (place.project / "a.py").write_text("x = 1\n")
    replies = [
        written("read_file", path="a.py"),
        written("edit_file", path="a.py", old_text="x = 1", new_text="x = 2", edits=[]),
        {"text": "x is 2 now."},
    ]
    with ScriptedServer(replies) as server:
        place.extra = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
        }
        place.url = server.openai_url
        done = place.run(
            *("run", "set x to 2", "--provider", provider),
            *("--permission-mode", "auto-edit", "--output-format", "json"),
        )

    assert done.code == 0, done.err
    assert (done.json["status"], done.json["files_changed"]) == ("success", ["a.py"])
    assert (place.project / "a.py").read_text() == "x = 2\n"


def test_a_call_written_as_text_passes_the_gate_too(place: Place) -> None:
    replies = [written("write_file", path="a.py", content="x"), {"text": "I could not."}]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "write a.py", "--output-format", "json")

    assert [denial["tool"] for denial in done.json["denials"]] == ["write_file"]
    assert not (place.project / "a.py").exists()


@pytest.mark.parametrize(
    "task",
    [
        written("open_file", path="a.py"),
        written("read_file", file="a.py"),
        written("write_file", path="a.py"),
        written("run_tests", arguments="all"),
        {"text": '<tool_call>\n{"name": "shell", "arguments": {"com'},
    ],
    ids=["no such tool", "another argument", "too few", "no such tool either", "cut"],
)
def test_a_call_printed_as_the_answer_is_no_success(place: Place, task: dict[str, Any]) -> None:
    with ScriptedServer([task], repeat_last=True) as server:
        place.url = server.openai_url
        done = place.run("run", "do it", "--output-format", "json")
        asked = server.requests[-1].json["messages"][-1]["content"]

    assert done.code == 1
    assert (done.json["status"], done.json["result"]) == ("error", "")
    assert "--jinja" in done.json["error"]
    assert "read_file(path)" in asked
    assert list(place.project.iterdir()) == []


def test_an_answer_that_explains_a_call_runs_nothing(place: Place) -> None:
    shown = written("shell", command="touch made")["text"]
    answer = f"A call of the shell tool looks like this:\n\n{shown}\n\nIt would make a file."
    with ScriptedServer([{"text": answer}]) as server:
        place.url = server.openai_url
        done = place.run("run", "how do you call tools?", "--output-format", "json")

    assert (done.json["status"], done.json["result"]) == ("success", answer)
    assert list(place.project.iterdir()) == []


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_answer_ending_in_an_example_runs_nothing(place: Place, provider: str) -> None:
    shown = written("shell", command="touch made")["text"]
    answer = f"A call has a name and arguments.\n\n{shown}"
    whole = f"{answer}\n\nThat would make a file."
    with ScriptedServer([{"text": answer}, {"text": whole}]) as server:
        place.extra = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        place.url = server.openai_url
        done = place.run(
            *("run", "how do you call tools?", "--provider", provider),
            *("--permission-mode", "full", "--output-format", "json"),
        )

    assert (done.json["status"], done.json["result"]) == ("success", whole)
    assert list(place.project.iterdir()) == []


def test_a_call_after_words_runs_once_it_comes_alone(place: Place) -> None:
    call = written("shell", command="touch made")["text"]
    replies = [{"text": f"I'll make it:\n\n{call}"}, {"text": call}, {"text": "Made."}]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "make it", "--permission-mode", "full", "--output-format", "json")

    assert (done.json["status"], done.json["result"]) == ("success", "Made.")
    assert (place.project / "made").exists()


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_tags_of_calls_around_something_else_are_no_answer(
    place: Place, provider: str, output: str
) -> None:
    text = "<tool_call>\nread the file a.py\n</tool_call>"
    with ScriptedServer([{"text": text}], repeat_last=True) as server:
        place.extra = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        place.url = server.openai_url
        done = place.run("run", "read it", "--provider", provider, "--output-format", output)

    assert done.code == 1
    if output == "text":
        assert (done.out.strip(), "--jinja" in done.err) == ("", True)
    else:
        last = json.loads(done.out.splitlines()[-1])
        assert (last["status"], last["result"]) == ("error", "")
