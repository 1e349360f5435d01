"""`kode replay` of sessions that the installed command made."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Finished, Place
from tests.workplaces import empty_repository

pytestmark = pytest.mark.sampled(of=2)

LINES = (Path(__file__).parent / "data" / "replayed_sessions.jsonl").read_text().splitlines()
SESSIONS: list[dict[str, Any]] = [json.loads(line) for line in LINES]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def play(place: Place, session: dict[str, Any]) -> str:
    """Has the installed command make a session; its id."""
    write(place.project, session["files"])
    if session.get("git"):
        empty_repository(place.project)
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
    session_id = play(place, session)
    assert session.get("holds", "turn") in place.session_files[-1].read_text()
    before = everything_in(place.project, place.home, place.folder / "elsewhere")

    done = replay(place, session_id)

    differences = [one for step in done.json["steps"] for one in step["differences"]]
    assert differences == []
    assert (done.code, done.json["identical"]) == (0, True)
    after = everything_in(place.project, place.home, place.folder / "elsewhere")
    assert after.keys() == before.keys()
    assert after == before


CHANGE = {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}
REPLIES = [
    {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]},
    {"calls": [{"name": "edit_file", "arguments": CHANGE}]},
    {"text": "x is 2"},
]
EDIT = {
    "files": {"a.py": "x = 1\n", "AGENTS.md": "Be brief.\n"},
    "turns": [
        {"task": "set x", "flags": ["--permission-mode", "auto-edit"], "replies": REPLIES},
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
    assert parts(done) == [["message: instructions"], [], []]
    assert "First difference: step 1, message: instructions" in text.out
    assert "-Be brief." in text.out
    assert "+Be verbose." in text.out


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def test_an_exported_cassette_masks_keys_and_names_personal_data(place: Place) -> None:
    files = {"a.py": f"x = 1\nOPENAI_API_KEY = '{KEY}'\n", "AGENTS.md": "Be brief.\n"}
    session_id = play(place, {**EDIT, "files": files})
    path = place.folder / "bug.cassette"

    done = place.run("session", "export", session_id, "--format", "cassette")

    assert done.code == 0
    assert "x = 2" in done.out
    assert KEY not in done.out
    assert "holds what you and the model said" in done.err
    path.write_text(done.out)
    assert place.run("replay", str(path)).code == 0


def beside(tmp_path: Path, name: str, **extra: str) -> Place:
    """Another machine, as it were."""
    (tmp_path / name).mkdir()
    return Place(tmp_path / name, extra=extra)


def recorded(place: Place) -> Path:
    """A cassette of a run."""
    write(place.project, EDIT["files"])
    path = place.folder / "run.cassette"
    script = place.folder / "script.json"
    script.write_text(json.dumps(REPLIES))
    flags = ("--script", str(script), "--record", str(path), "--permission-mode", "auto-edit")
    done = place.run("run", "set x", *flags)
    assert done.code == 0, done.err
    assert "recorded: " in done.err
    return path


@pytest.mark.parametrize("face", ["auto", "patch"])
def test_a_recorded_run_is_played_without_a_key_for_real(
    place: Place, tmp_path: Path, face: str
) -> None:
    place.home.mkdir()
    (place.home / "config.json").write_text(json.dumps({"tool_format": face}))
    path = recorded(place)
    ci = beside(tmp_path, "ci", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    write(ci.project, EDIT["files"])

    done = ci.run("run", "set x", "--replay", str(path), "--permission-mode", "auto-edit")

    assert (done.code, done.out) == (0, "x is 2\n")
    assert (ci.project / "a.py").read_text() == "x = 2\n"


def test_a_run_unlike_the_recording_fails_and_names_the_part(place: Place, tmp_path: Path) -> None:
    path = recorded(place)
    ci = beside(tmp_path, "ci")
    write(ci.project, {**EDIT["files"], "a.py": "x = 10\n"})

    done = ci.run("run", "set x", "--replay", str(path), "--permission-mode", "auto-edit")

    assert done.code == 1
    assert "result read_file differs" in done.err
    assert (ci.project / "a.py").read_text() == "x = 10\n"
