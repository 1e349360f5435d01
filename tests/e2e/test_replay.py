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
