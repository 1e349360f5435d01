"""What a newcomer meets before there is a model, and what wrong words on the command line say."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer


def keyless(place: Place, *arguments: str) -> Terminal:
    environ = {"HOME": str(place.folder), "KODE_HOME": str(place.home)}
    return Terminal(KODE, list(arguments), cwd=place.project, env=environ)


@pytest.mark.parametrize(
    ("key", "task", "status"),
    [("q\r", [], 0), ("ctrl-c", [], 0), ("ctrl-d", [], 0), ("q\r", ["fix the tests"], 3)],
)
def test_leaving_the_set_up_tells_how_to_come_back(
    place: Place, key: str, task: list[str], status: int
) -> None:
    with keyless(place, *task) as terminal:
        terminal.until("q to quit")
        terminal.type(key)
        text = terminal.until("Nothing was set up", "kode demo")
        assert terminal.ended() == status
    assert "Traceback" not in text
    assert not (place.home / "config.json").exists()


def test_the_third_number_still_counts_after_two_wrong_ones(place: Place) -> None:
    with keyless(place) as terminal:
        for wrong in ("99", "x"):
            terminal.until("q to quit:")
            terminal.type(wrong, "enter")
            terminal.until("Enter a number")
        terminal.type("1", "enter")
        terminal.until("API key")


@pytest.mark.parametrize("stdin", ["", None], ids=["empty pipe", "no input"])
def test_the_demo_plays_to_its_end_where_nobody_can_type(place: Place, stdin: str | None) -> None:
    place.extra = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    done = place.run(stdin=stdin)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("Next: set up a model with `kode init`")
    assert "demo" in done.err
    assert place.session_files == []


def test_an_empty_pipe_into_a_ready_kode_starts_no_demo(place: Place) -> None:
    done = place.run(stdin="")

    assert done.code == 3
    assert "kode run" in done.err
    assert done.out == ""


def test_json_output_says_that_the_task_is_missing(place: Place) -> None:
    done = place.run("--output-format", "json")
    assert (done.code, done.json["status"]) == (3, "error")
    assert "no task" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["version"], "--version"),
        (["memory", "serch"], "Did you mean search?"),
        (["memory", "add", "user"], "TEXT"),
        (["memory", "import", "/nowhere"], "Name a file or a folder"),
        (["run", "x", "--provider", "scripted", "--script", "/nowhere"], "No such file"),
        (["run", "x", "--base-url", "host/v1"], "https://host/v1"),
        (["run", "x", "--base-url", "http://:80/v1"], "https://host/v1"),
        (["run", "x", "--base-url", "http://host:99999/v1"], "https://host/v1"),
    ],
)
def test_wrong_words_are_one_sentence_with_the_next_step(
    place: Place, arguments: list[str], said: str
) -> None:
    done = place.run(*arguments)
    assert done.code in (1, 3)
    assert said in done.err
    assert "Errno" not in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert place.session_files == []


def test_a_subagent_names_itself_once(place: Place) -> None:
    assert place.run("subagent").err.count("kode subagent:") == 1


def test_a_refused_connection_is_told_in_words(place: Place) -> None:
    (place.home).mkdir()
    (place.home / "config.json").write_text('{"retry": {"max_attempts": 1}}')
    done = place.run("run", "hello")
    assert done.code == 1
    assert "connection refused" in done.err
    assert "Errno" not in done.err


@pytest.mark.parametrize("words", [["run"], ["init"], ["doctor"], ["continue"]])
def test_a_missing_standard_input_is_reported_as_a_missing_task(
    place: Place, words: list[str]
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@" <&-', KODE, *words],
        cwd=place.project,
        env={**place.environ, "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 3)
    assert "error in kode" not in done.stderr
    assert "kode" in done.stdout + done.stderr


def test_long_errors_break_between_words_on_a_terminal(tmp_path: Path, place: Place) -> None:
    place.extra = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "KODE_MODEL": ""}
    whole = place.run("run", "x").err.split()
    environ = {"HOME": str(tmp_path), "KODE_HOME": str(place.home)}
    with Terminal(KODE, ["run", "x"], cwd=place.project, env=environ, width=40) as terminal:
        terminal.ended()
        assert terminal.text.split() == whole


def test_hooks_of_a_project_are_ignored_with_a_warning(place: Place) -> None:
    (place.project / "kode.json").write_text('{"hooks": {"start": "rm -rf /"}, "max_steps": 7}')
    with ScriptedServer([{"text": "ok"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "x")
    assert (done.code, done.out) == (0, "ok\n")
    assert done.err.count("a project may not set it: hooks") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "x"],
        ["config", "check"],
        ["config", "path"],
        ["config", "show"],
        ["doctor"],
        ["session", "list", "--here"],
    ],
    ids=" ".join,
)
def test_a_working_directory_that_is_gone_is_one_sentence(
    place: Place, arguments: list[str]
) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"',
            KODE,
            *arguments,
        ],
        cwd=place.project,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert "the working directory does not exist" in done.stdout + done.stderr
    assert not (place.home / "logs").exists()
