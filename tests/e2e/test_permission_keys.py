"""The keys of a permission question, in a terminal."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.command import Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer


def edit(path: str) -> dict[str, object]:
    arguments = {"path": path, "content": "x\n"}
    return {"calls": [{"name": "write_file", "arguments": arguments}]}


@contextmanager
def asked(place: Place, *replies: dict[str, object]) -> Iterator[tuple[Terminal, ScriptedServer]]:
    """A terminal that shows the first question."""
    with ScriptedServer([*replies, {"text": "The end."}]) as server:
        place.url = server.openai_url
        with place.terminal("Write the files", height=60) as terminal:
            terminal.until("n  no", timeout_s=60)
            yield terminal, server


def saved(place: Place) -> list[str]:
    """The rules of lasting answers."""
    folder = place.home / "permissions"
    rows = [row for file in folder.glob("*.json") for row in json.loads(file.read_bytes())["rules"]]
    return [row["rule"] for row in rows if not row["removed"]]


def test_text_after_an_answer_steers_the_turn(place: Place) -> None:
    with asked(place, edit("src/a.py")) as (terminal, server):
        terminal.type("n use tabs\r")
        terminal.until("The end.", timeout_s=60)
        assert "use tabs" in json.dumps(server.requests[1].json["messages"][-1])

    assert not (place.project / "src").exists()
    assert saved(place) == []


def test_a_lasting_yes_is_listed_removed_and_restored(place: Place) -> None:
    with asked(place, edit("src/a.py")) as (terminal, _):
        terminal.type("a")
        terminal.until("1  ", "4  ", "session: src/a.py", "project: src/**")
        terminal.type("4")
        shown = terminal.until("The end.", "undo: /permissions remove", timeout_s=60)
        id = shown.split("undo: /permissions remove ")[1].split()[0]
        assert saved(place) == ["edit(./src/**)"]
        terminal.type("/permissions", "enter")
        terminal.until(f"{id}  allow edit(./src/**)")
        terminal.type(f"/permissions remove {id}", "enter")
        terminal.until(f"Removed {id}")
        assert saved(place) == []
        terminal.type("/quit", "enter")
        assert terminal.ended() == 0

    assert place.run("permissions", "restore", id).code == 0
    assert saved(place) == ["edit(./src/**)"]
    listed = place.run("permissions", "list", "--json").json
    assert [one["removed"] for one in listed if one["id"] == id] == [False]
    wrong = place.run("permissions", "remove", "none")
    assert (wrong.code, id in wrong.err) == (3, True)


def test_shift_tab_in_a_question_about_an_edit_allows_edits(place: Place) -> None:
    with asked(place, edit("a.py"), edit("b.py")) as (terminal, _):
        terminal.type("\x1b[Z")
        terminal.until("The end.", timeout_s=60)
        assert "auto-edit" in terminal.text

    assert (place.project / "b.py").exists()
    assert saved(place) == []


def test_run_asks_at_a_terminal_only_if_it_was_said(place: Place) -> None:
    for flags, written in ((["--ask"], True), ([], False)):
        with ScriptedServer([edit("a.py"), {"text": "The end."}]) as server:
            place.url = server.openai_url
            with place.terminal("run", *flags, "Write it") as terminal:
                if flags:
                    terminal.until("n  no", timeout_s=60)
                    terminal.type("y")  # one key answers
                text = terminal.until("The end.", timeout_s=60)
                assert ("Wrote a.py" in text) is written
                terminal.ended()
        assert (place.project / "a.py").exists() is written
        (place.project / "a.py").unlink(missing_ok=True)
