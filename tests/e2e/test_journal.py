"""The journal through the installed command."""

import json
from pathlib import Path

from kode.paths import project_memory
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer


def journal(place: Place) -> Path:
    """The part of it that belongs to the one project there is."""
    return project_memory(place.home / "memory" / "journal", place.project)


def last_text(request: dict) -> str:
    content = request["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


def system_of(request: dict) -> str:
    return str(next(m["content"] for m in request["messages"] if m["role"] == "system"))


def run(place: Place, consolidation: dict, *arguments: str, answer: str = "ok"):
    """A task; the requests of the turn and those of consolidations."""
    own: list[dict] = []
    consolidated: list[dict] = []

    def reply(request: dict) -> dict:
        if "The transcript of a session" in last_text(request):
            consolidated.append(request)
            return consolidation
        own.append(request)
        return {"text": answer}

    with ScriptedServer(reply) as server:
        place.url = server.openai_url
        done = place.run(*arguments, "--memory", "journal", "--provider", "openai")
    assert done.code == 0, done.err
    return own, consolidated


def summary(note: str, *facts: str) -> dict:
    return {"text": json.dumps({"narrative": note, "facts": list(facts)})}


def test_one_sessions_lessons_are_in_the_nexts_prompt(place: Place) -> None:
    entry = "The user told their name."
    _, asked = run(place, summary(entry, "- Name: Zhang San"), "run", "I'm Zhang San")
    own, asked_again = run(place, summary("x", "- Name: Zhang San"), "run", "what's my name?")

    assert len(asked) == len(asked_again) == 1
    assert "User: I'm Zhang San\n" in last_text(asked[0])
    assert "- Name: Zhang San" in system_of(own[0])
    assert "- Name: Zhang San" in last_text(asked_again[0])
    assert (journal(place) / "MEMORY.md").read_text() == "- Name: Zhang San\n"
    history = (journal(place) / "HISTORY.md").read_text()
    assert entry in history
    (month,) = journal(place).glob("HISTORY-*.md")
    assert month.read_text() == history


def test_a_continued_session_consolidates_only_what_is_new(place: Place) -> None:
    run(place, summary("first", "- a"), "run", "the first question")
    _, asked = run(place, summary("second", "- a"), "continue", "the second question")

    text = last_text(asked[0])
    assert "the second question" in text
    assert "the first question" not in text


def test_a_cut_answer_spares_memory_and_is_made_up(place: Place) -> None:
    run(place, summary("first", "- a fact of note"), "run", "one")
    cut = {**summary("second", "is b"), "stop": "length"}
    run(place, cut, "run", "two")
    before = (journal(place) / "MEMORY.md").read_text()
    assert len(list((journal(place) / "queue").glob("*.json"))) == 1

    status = place.run("memory", "--memory", "journal", "status")

    history = (journal(place) / "HISTORY.md").read_text()
    assert before == "- a fact of note\n"
    assert "[raw-fallback]" in history
    assert str(place.session_files[-1]) in history
    assert "not finished with: 1" in status.out


def test_an_overflow_shortens_the_conversation_and_sends_a_recap_once(place: Place) -> None:
    place.home.mkdir(exist_ok=True)
    config = {"memory": {"journal": {"memory_window": 4}}}
    (place.home / "config.json").write_text(json.dumps(config))
    run(place, {"error": {"status": 400}}, "run", "question one", answer="answer one")
    for number in ("two", "three"):
        arguments = ("continue", f"question {number}")
        own, _ = run(place, {"error": {"status": 400}}, *arguments, answer=f"answer {number}")

    lines = [json.loads(line) for line in place.session_files[-1].read_text().splitlines()]
    (compaction,) = [line for line in lines if line["type"] == "compaction"]
    told = json.dumps(own[-1]["messages"][1:])
    assert compaction["kept_from"]
    assert "question three" in told
    assert "answer two" in told
    assert '"question one"' not in told
    assert told.count("Recap: the latest messages") == 1
    assert "Recap" not in system_of(own[-1])


def test_commands_show_log_and_undo(place: Place) -> None:
    run(place, summary("Did it.", "- Name: Zhang San"), "run", "I'm Zhang San")

    shown = place.run("memory", "--memory", "journal", "show")
    found = place.run("memory", "--memory", "journal", "search", "Zhang")
    undone = place.run("memory", "--memory", "journal", "undo")

    assert "- Name: Zhang San" in shown.out
    assert "Did it." in shown.out
    assert "[MEMORY.md] - Name: Zhang San" in found.out
    assert undone.out.startswith("undid add")
    assert not (journal(place) / "MEMORY.md").exists()


def test_the_model_may_grep_the_log_but_not_write_it(place: Place) -> None:
    run(place, summary("Moved the parser to q.py.", "- x"), "run", "move the parser")
    log = f"{journal(place)}/HISTORY*.md"
    commands = (f"grep -ih parser {log}", f"sed -i s/q/z/ {journal(place)}/HISTORY.md")
    results: list[str] = []

    def reply(request: dict) -> dict:
        if "The transcript of a session" in last_text(request):
            return summary("x", "- x")
        results.extend(str(m["content"]) for m in request["messages"] if m["role"] == "tool")
        if results:
            return {"text": "done"}
        calls = [{"name": "shell", "arguments": {"command": command}} for command in commands]
        return {"calls": calls}

    with ScriptedServer(reply) as server:
        place.url = server.openai_url
        done = place.run("run", "where is it?", "--memory", "journal", "--provider", "openai")

    assert done.code == 1, done.err  # writing was refused
    assert "Moved the parser to q.py." in results[0]
    assert "q.py" not in results[1]
    assert "q.py" in (journal(place) / "HISTORY.md").read_text()


def test_memory_can_be_kept_elsewhere_where_no_tool_writes(place: Place) -> None:
    place.home.mkdir()
    (place.home / "config.json").write_text('{"memory": {"dataDir": "~/elsewhere"}}')
    (place.project / "kode.json").write_text('{"memory": {"data_dir": "/tmp/mine"}}')
    moved = place.folder / "elsewhere"

    def reply(request: dict) -> dict:
        if request["messages"][-1]["role"] == "tool":
            return {"text": str(request["messages"][-1]["content"])}
        path = str(moved / "facts" / "user.md")
        write = {"name": "write_file", "arguments": {"path": path, "content": "x"}}
        return {"calls": [write]}

    added = place.run("memory", "add", "user", "likes tabs")
    with ScriptedServer(reply) as server:
        place.url = server.openai_url
        flags = ("--provider", "openai", "--permission-mode", "full")
        done = place.run("run", "write it", *flags)

    assert "memory.data_dir" in added.err  # what the repository wanted is said and ignored
    assert (moved / "facts" / "user.md").read_text() == "likes tabs"
    assert "belongs to" in done.out
    assert not (place.home / "memory").exists()
