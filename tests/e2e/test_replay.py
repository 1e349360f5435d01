"""`kode replay` of sessions that the installed command made."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Finished, Place, needs_a_whole_sandbox

LINES = (Path(__file__).parent / "data" / "replayed_sessions.jsonl").read_text().splitlines()
SESSIONS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
LONG_CALL = "call-of-the-long-output"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def play(place: Place, session: dict[str, Any]) -> str:
    """Has the installed command make a session; its id."""
    write(place.project, session["files"])
    if session.get("git"):
        subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    place.home.mkdir(exist_ok=True)
    (place.home / "config.json").write_text(json.dumps(session.get("config", {})))
    (place.folder / "elsewhere").mkdir()
    (place.folder / "elsewhere" / "notes.txt").write_text("from elsewhere\n")
    memory = session.get("flags", ["--no-memory"])
    for number, turn in enumerate(session["turns"]):
        session_id = place.session_files[-1].stem if number else ""
        script = place.folder / f"script-{number}.json"
        script.write_text(filled_in(json.dumps(turn["replies"]), place))
        begin = ["continue", "--id", session_id] if number else ["run"]
        done = place.run(*begin, turn["task"], "--script", str(script), *turn["flags"], *memory)
        assert session.get("fails") or done.code == 0, done.err
        write(place.project, session.get("edited", {}).get(str(number + 1), {}))
    return place.session_files[-1].stem


def filled_in(replies: str, place: Place) -> str:
    return replies.replace("{project}", str(place.project)).replace(
        "{elsewhere}", str(place.folder / "elsewhere")
    )


def everything_in(*folders: Path) -> dict[Path, bytes | str]:
    """Every file, for a comparison."""
    return {
        path: str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def replay(place: Place, *arguments: str) -> Finished:
    return place.run("replay", *arguments, "--json", cwd=place.folder)


@pytest.mark.parametrize("session", SESSIONS, ids=[one["name"] for one in SESSIONS])
def test_a_session_played_again_is_identical_and_touches_nothing(
    place: Place, session: dict[str, Any]
) -> None:
    needs_a_whole_sandbox(place)
    session_id = play(place, session)
    assert session.get("holds", "turn") in place.session_files[-1].read_text()
    before = everything_in(place.project, place.home, place.folder / "elsewhere")

    done = replay(place, session_id)

    differences = [one for step in done.json["steps"] for one in step["differences"]]
    assert differences == []
    assert (done.code, done.json["identical"]) == (0, True)
    assert [n for n in done.json["notes"] if n.startswith("From the record")] == (
        [session["notes"]] if "notes" in session else []
    )
    after = everything_in(place.project, place.home, place.folder / "elsewhere")
    assert after.keys() == before.keys()
    assert after == before


EDIT = {
    "name": "an edit",
    "files": {"a.py": "x = 1\n", "AGENTS.md": "Be brief.\n"},
    "turns": [
        {
            "task": "set x",
            "flags": ["--permission-mode", "auto-edit"],
            "replies": [
                {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]},
                {
                    "calls": [
                        {
                            "name": "edit_file",
                            "arguments": {
                                "path": "a.py",
                                "old_text": "x = 1",
                                "new_text": "x = 2",
                            },
                        }
                    ]
                },
                {"text": "x is 2"},
            ],
        }
    ],
}


def parts(done: Finished) -> list[list[str]]:
    """What differs in each step."""
    return [
        [f"{one['part']}: {one['name']}" for one in step["differences"]]
        for step in done.json["steps"]
    ]


def test_a_changed_prompt_is_the_one_difference_and_is_shown(place: Place) -> None:
    session_id = play(place, EDIT)
    (place.project / "AGENTS.md").write_text("Be verbose.\n")

    done = replay(place, session_id)
    text = place.run("replay", session_id, cwd=place.folder)

    assert (done.code, text.code) == (1, 1)
    assert parts(done) == [["system: instructions"], [], []]
    assert "First difference: step 1, system: instructions" in text.out
    assert "-Be brief." in text.out
    assert "+Be verbose." in text.out
    assert "Changed since the session began, and as they are now: AGENTS.md." in text.out


def test_flags_change_the_prompt_of_a_replay_and_nothing_else(place: Place) -> None:
    session_id = play(place, EDIT)

    done = replay(place, session_id, "--append-system", "Answer in French.")

    assert parts(done) == [["system: appended"], [], []]


def test_a_file_that_changed_since_shows_as_the_result_that_reads_it(place: Place) -> None:
    session_id = play(place, {**EDIT, "files": {"a.py": "x = 1\n", "b.py": "b = 1\n"}})
    path = place.session_files[-1]
    path.write_text(path.read_text().replace('\\"a.py\\"}"', '\\"b.py\\"}"', 1))
    (place.project / "b.py").write_text("b = 2\n")

    done = replay(place, session_id)

    assert parts(done)[0] == ["result: read_file"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["20200101-000000-abcdef"], 1, "no session"),
        (["ID", "--cwd", "gone"], 3, "is not there"),
        (["ID", "--form"], 3, "unknown flag"),
    ],
)
def test_what_cannot_be_replayed_is_said_with_what_to_do(
    place: Place, arguments: list[str], code: int, said: str
) -> None:
    session_id = play(place, EDIT)
    words = [session_id if word == "ID" else word for word in arguments]

    done = place.run("replay", *words)

    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_project_that_is_gone_can_be_named_elsewhere(place: Place) -> None:
    session_id = play(place, EDIT)
    moved = place.folder / "moved"
    place.project.rename(moved)

    lost = place.run("replay", session_id, cwd=place.folder)
    done = replay(place, session_id, "--cwd", str(moved))

    assert lost.code == 1
    assert "--cwd DIR" in lost.err
    assert done.json["identical"] is True


def test_a_session_of_an_older_kode_is_played_without_its_prompt(place: Place) -> None:
    session_id = play(place, EDIT)
    path = place.session_files[-1]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"type":"request"' not in line))

    done = replay(place, session_id, "--append-system", "Answer in French.")

    assert done.json["identical"] is True
    assert any("kept no record of requests" in note for note in done.json["notes"])


def test_a_session_without_a_reply_has_nothing_to_replay(place: Place) -> None:
    session_id = play(place, EDIT)
    path = place.session_files[-1]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"role":"assistant"' not in line))

    done = place.run("replay", session_id)

    assert done.code == 1
    assert "nothing to replay" in done.err
