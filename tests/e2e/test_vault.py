"""The vault through the installed command: what its document promises, end to end."""

import json
import tomllib
from pathlib import Path

from kode.paths import project_memory
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
REFLECTS = "You look back on a task"


def vault(place: Place) -> Path:
    """The part of it that belongs to the one project there is."""
    return project_memory(place.home / "memory" / "vault", place.project)


def about_the_user(place: Place) -> Path:
    """The file that all projects share."""
    return place.home / "memory" / "vault" / "facts" / "user.md"


def said(request: dict) -> str:
    """All the model is told, but the system prompt."""
    messages = [m for m in request["messages"] if m["role"] != "system"]
    return "\n".join(json.dumps(m, ensure_ascii=False) for m in messages)


def system_of(request: dict) -> str:
    return str(next(m["content"] for m in request["messages"] if m["role"] == "system"))


def last_of(request: dict) -> dict:
    return request["messages"][-1]


def run(place: Place, script, *arguments: str):
    """A task with a model that is a function; its own requests come without the reflector's."""
    own, reflector = [], []

    def reply(request: dict) -> dict:
        reflects = REFLECTS in system_of(request)
        (reflector if reflects else own).append(request)
        return script(request, reflects)

    with ScriptedServer(reply) as server:
        place.url = server.openai_url
        done = place.run(*arguments, "--memory", "vault", "--provider", "openai")
    assert done.code == 0, done.err
    return done.out, own, reflector


def answers(text: str):
    return lambda request, reflects: {"text": "nothing" if reflects else text}


def keeps(name: str, **arguments: str):
    """A model that answers at length, and a reflector that makes one call."""

    def reply(request: dict, reflects: bool) -> dict:
        if not reflects:
            return {"text": "Nice to meet you. " * 20}
        if last_of(request)["role"] == "tool":
            return {"text": "done"}
        return {"calls": [{"name": name, "arguments": arguments}]}

    return reply


def reads(path: str, answer: str):
    """A model that reads the file that the index names, then answers."""

    def reply(request: dict, reflects: bool) -> dict:
        if reflects:
            return {"text": "nothing"}
        if last_of(request)["role"] == "tool":
            found = answer in said(request)
            return {"text": f"It is {answer}." if found else "I do not know."}
        known = f"- {path} (" in said(request)
        if not known:
            return {"text": "I do not know."}
        return {"calls": [{"name": "memory_read", "arguments": {"path": path}}]}

    return reply


def test_it_remembers_the_user_across_restarts(place: Place) -> None:
    content = "# User Facts\n\n- Name: Zhang San\n"
    run(place, keeps("memory_write", path="facts/user.md", content=content), "run", "I'm Zhang San")

    out, own, _ = run(
        place, reads("facts/user.md", "Zhang San"), "run", "what's my name, from memory?"
    )

    assert out.strip() == "It is Zhang San."
    assert "Zhang San" not in system_of(own[0])


def test_it_remembers_past_work(place: Place) -> None:
    entry = "## Logger stdout leak fix\n- Summary: pino stdout leak → custom transport\n"
    month = "episodes/2001-01.md"
    run(place, keeps("memory_append", path=month, entry=entry), "run", "fix the logger")
    (file,) = (vault(place) / "episodes").iterdir()

    out, _, _ = run(
        place,
        reads(f"episodes/{file.name}", "custom transport"),
        *("run", "what bug did we fix last time?"),
    )

    assert out.strip() == "It is custom transport."
    assert file.name != "2001-01.md"


def test_its_files_make_sense_in_an_editor_and_edits_count(place: Place) -> None:
    content = "# User Facts\n\n- Name: Zhang San\n- Role: dev\n"
    run(place, keeps("memory_write", path="facts/user.md", content=content), "run", "I'm Zhang San")
    file = about_the_user(place)
    text = file.read_text()

    file.write_text(text.replace("Zhang San", "Li Si"))
    out, _, _ = run(place, reads("facts/user.md", "Li Si"), "run", "what's my name?")

    assert text == ("# User Facts\n\n> Summary: name, role\n\n- Name: Zhang San\n- Role: dev\n")
    assert out.strip() == "It is Li Si."


def test_it_needs_no_database(place: Place) -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sources = "\n".join(p.read_text() for p in (ROOT / "kode/memory/vault").glob("*.py"))
    imported = {line.split()[1].partition(".")[0] for line in sources.split("\n")
                if line.startswith(("import ", "from "))}  # fmt: skip

    names = {
        name.partition(">")[0].replace("-", "_") for name in pyproject["project"]["dependencies"]
    }

    assert imported & names == set()


def test_the_index_is_sent_once_before_the_first_message(place: Place) -> None:
    names = ("facts/project.md", "episodes/2026-02.md")
    for path in (about_the_user(place), *(vault(place) / name for name in names)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("> Summary: a, b\n")

    _, own, _ = run(place, answers("first"), "run", "hello")
    _, again, _ = run(place, answers("second"), "continue", "and again")

    users = [m["content"] for m in own[0]["messages"] if m["role"] == "user"]
    assert len(users) == 2
    assert "Available memory:" in json.dumps(users[0])
    assert "hello" in json.dumps(users[1])
    assert said(again[0]).count("Available memory:") == 1
    assert system_of(own[0]) == system_of(again[0])


def test_an_unfinished_reflection_is_done_by_the_next_process(place: Place) -> None:
    def failing(request: dict, reflects: bool) -> dict:
        return {"error": {"status": 400}} if reflects else {"text": "x" * 300}

    run(place, failing, "run", "I'm Zhang San")
    waiting = list((vault(place) / "pending").glob("*.json"))
    content = "- Name: Zhang San"
    write = keeps("memory_write", path="facts/user.md", content=content)

    def short(request: dict, reflects: bool) -> dict:
        return write(request, reflects) if reflects else {"text": "hi", "delay_s": 0.5}

    run(place, short, "run", "hi")

    assert len(waiting) == 1
    assert content in about_the_user(place).read_text()
    assert list((vault(place) / "pending").glob("*.json")) == []


def test_commands_show_log_and_undo(place: Place) -> None:
    write = keeps("memory_write", path="facts/user.md", content="- Name: Zhang San")
    run(place, write, "run", "I'm Zhang San")

    shown = place.run("memory", "--memory", "vault", "show")
    log = place.run("memory", "--memory", "vault", "log")
    undone = place.run("memory", "--memory", "vault", "undo")
    status = place.run("memory", "--memory", "vault", "status")

    assert "- Name: Zhang San" in shown.out
    assert "by a model that summed up" in shown.out
    assert "write vault/facts/user.md" in log.out
    assert undone.out.startswith("undid write")
    assert "bytes of facts: 0" in status.out
