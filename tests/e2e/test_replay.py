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
LONG_CALL = "call-of-the-long-output"


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
    assert parts(done) == [["message: instructions"], [], []]
    assert "First difference: step 1, message: instructions" in text.out
    assert "-Be brief." in text.out
    assert "+Be verbose." in text.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["20200101-000000-abcdef"], 3, "no session"),
        (["ID", "--cwd", "gone"], 3, "does not exist"),
        (["ID", "--form"], 3, "unknown flag"),
    ],
)
def test_a_session_that_cannot_be_replayed_comes_with_advice(
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

    assert lost.code == 3
    assert "--cwd DIR" in lost.err
    assert done.json["identical"] is True


def test_a_session_without_a_reply_has_nothing_to_replay(place: Place) -> None:
    session_id = play(place, EDIT)
    path = place.session_files[-1]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"role":"assistant"' not in line))

    done = place.run("replay", session_id)

    assert done.code == 3
    assert "nothing to replay" in done.err


FULL = {
    "name": "a compaction",
    "files": {"long.txt": "a line of a long text that goes on and on\n" * 1500},
    "config": {"context": {"window": 12_000}},
    "turns": [
        {
            "task": "read it",
            "flags": [],
            "replies": [
                {
                    "match": "^This conversation is about to",
                    "text": "They read long.txt.",
                },
                *(
                    {
                        "calls": [
                            {
                                "name": "read_file",
                                "arguments": {"path": "long.txt", "offset": at, "limit": 400},
                            }
                        ]
                    }
                    for at in (1, 300, 500, 700, 900)
                ),
                {"text": "done"},
            ],
        }
    ],
}


def test_a_compaction_is_repeated_where_another_window_is_set(place: Place, tmp_path: Path) -> None:
    session_id = play(place, FULL)
    assert '"type":"compaction"' in place.session_files[-1].read_text()
    path = exported(place, session_id)
    other = beside(tmp_path, "other")
    write(other.project, FULL["files"])

    done = other.run("replay", str(path), "--json")

    assert parts(done) == [[]] * 6
    assert done.json["identical"] is True


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def exported(place: Place, session_id: str) -> Path:
    path = place.folder / "bug.cassette"
    done = place.run("session", "export", session_id, "--format", "cassette", str(path), "--yes")
    assert done.code == 0, done.err
    return path


def test_a_cassette_plays_with_only_the_files_it_names(place: Place, tmp_path: Path) -> None:
    session_id = play(place, EDIT)
    path = exported(place, session_id)
    other = beside(tmp_path, "other")
    (other.project / "AGENTS.md").write_text("Be brief.\n")

    done = other.run("replay", str(path), "--json")

    assert done.json["session_id"] == session_id
    assert parts(done) == [[], [], []]
    assert done.code == 0
    assert not (other.project / "a.py").exists()
    assert not (other.home / "sessions").exists()


def test_a_cassette_masks_keys_and_names_personal_data_first(place: Place) -> None:
    files = {"a.py": f"x = 1\nOPENAI_API_KEY = '{KEY}'\n", "AGENTS.md": "Be brief.\n"}
    session_id = play(place, {**EDIT, "files": files})
    path = place.folder / "bug.cassette"
    words = ("session", "export", session_id, "--format", "cassette", str(path))

    unasked = place.run(*words)
    assert unasked.code == 3
    assert not path.exists()
    done = place.run(*words, "--yes")

    assert done.code == 0
    held = path.read_bytes()
    assert b"x = 2" in held
    assert KEY.encode() not in held
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_no_cassette_is_refused(place: Place, data: bytes) -> None:
    path = place.folder / "bug.cassette"
    path.write_bytes(data)

    done = place.run("replay", str(path))

    assert done.code == 3
    assert str(path) in done.err


def beside(tmp_path: Path, name: str, **extra: str) -> Place:
    """Another machine, as it were."""
    (tmp_path / name).mkdir()
    return Place(tmp_path / name, extra=extra)


def recorded(place: Place) -> Path:
    """A cassette of a run."""
    write(place.project, EDIT["files"])
    path = place.folder / "run.cassette"
    script = place.folder / "script.json"
    script.write_text(json.dumps(EDIT["turns"][0]["replies"]))
    done = place.run(
        *("run", "set x", "--script", str(script), "--record", str(path)),
        *EDIT["turns"][0]["flags"],
    )
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


@pytest.mark.parametrize(
    ("task", "files", "flags", "named"),
    [
        ("set y", {}, [], "message user"),
        ("set x", {"a.py": "x = 10\n"}, [], "result read_file"),
        ("set x", {"AGENTS.md": "Be verbose.\n"}, [], "message instructions"),
        ("set x", {}, ["--append-system", "Be verbose."], "system appended"),
    ],
)
def test_a_run_unlike_the_recording_fails_and_names_the_part(
    place: Place, tmp_path: Path, task: str, files: dict[str, str], flags: list[str], named: str
) -> None:
    path = recorded(place)
    ci = beside(tmp_path, "ci")
    write(ci.project, {**EDIT["files"], **files})

    done = ci.run("run", task, "--replay", str(path), "--permission-mode", "auto-edit", *flags)

    assert done.code == 1
    assert f"{named} differs" in done.err
    assert (ci.project / "a.py").read_text() == files.get("a.py", "x = 1\n")


@pytest.mark.parametrize("name", [".", "missing/run.cassette"])
def test_an_unwritable_cassette_is_reported_before_the_run(place: Place, name: str) -> None:
    done = place.run("run", "x", "--record", name)

    assert done.code == 3
    assert not (place.home / "sessions").exists()


def test_recording_and_replaying_exclude_each_other(place: Place) -> None:
    done = place.run("run", "x", "--record", "a", "--replay", "b")

    assert done.code == 3
    assert not (place.home / "sessions").exists()
