"""A plan in a real terminal: made, edited, approved, worked through, and made by a script."""

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

PLAN = "# Plan\n\nA better name.\n\n- [ ] Write notes.txt\n- [ ] Look at it\n"


def writing(*statuses):
    items = [
        {"text": text, "status": status}
        for text, status in zip(("Write notes.txt", "Look at it"), statuses, strict=True)
    ]
    note = {"name": "write_file", "arguments": {"path": "notes.txt", "content": "a note\n"}}
    return {"calls": [note, {"name": "todo", "arguments": {"items": items}}]}


def test_a_plan_is_edited_approved_and_ticked_off(tmp_path):
    script = [{"text": f"I looked.\n\n{PLAN}"}, writing("done", "doing"), {"text": "Written."}]
    with ScriptedServer(script) as server:
        place = Place(tmp_path, server.url)
        environ = {**place.environ, "EDITOR": "sed -i s/better/shorter/"}
        with Terminal(KODE, ["--no-memory"], cwd=place.project, env=environ) as terminal:
            terminal.until("ask (Shift-Tab) · gpt-")
            terminal.type("/plan", "enter")
            terminal.until("plan (Shift-Tab) · gpt-")
            terminal.type("keep a note", "enter")
            terminal.until("Go ahead with this plan?", "keep planning")
            terminal.type("e")
            terminal.until("A shorter name.", "Go ahead with this plan?")
            terminal.type("a")
            terminal.until("Plan approved · mode auto-edit", "1 of 2 steps of the plan done")
            terminal.until("auto-edit (Shift-Tab) · gpt-")

    assert (place.project / "notes.txt").read_text() == "a note\n"
    (plan,) = (place.home / "sessions").glob("*/plan.md")
    expected = PLAN.replace("better", "shorter").replace("[ ] Write", "[x] Write")
    assert plan.read_text() == expected
    sent = str(server.requests[1].json["messages"][-1])
    assert "is now auto-edit" in sent
    assert "A shorter name." in sent


def test_a_script_gets_a_plan_and_continues_with_it(tmp_path):
    with ScriptedServer([{"text": PLAN}, writing("done", "done"), {"text": "Done."}]) as server:
        place = Place(tmp_path, server.url)
        planned = place.run("run", "--permission-mode", "plan", "--no-memory", "keep a note")
        (plan,) = (place.home / "sessions").glob("*/plan.md")
        assert f"plan: 2 steps, in {plan}" in planned.err
        done = place.run("continue", "--permission-mode", "auto-edit", "--no-memory", "go ahead")

    assert done.code == 0, done.err
    assert plan.read_text() == PLAN.replace("[ ]", "[x]")
    assert "is now auto-edit" in str(server.requests[1].json["messages"])
