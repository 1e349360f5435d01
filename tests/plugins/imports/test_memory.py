"""Moving in from another agent: what it remembers waits for the person, with where it was read."""

import asyncio
import json
import re

import pytest

from kode.cli.main import main
from kode.memory.history import History
from kode.memory.review import NOTHING_WAITS
from kode.memory.waiting import propose

SYSTEMS = ("tiered", "vault", "journal", "notes")
SECRET = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3rS5tU7" * 2
HIDDEN = "tabs\u200b\u200bplease"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A person's home folder, with a repository below it that they work in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KODE_HOME", str(tmp_path / ".kode"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def memory(home, capsys):
    """`kode memory ...`, without a terminal; with `says` a person answers its questions."""

    def run(*argv, code=0):
        assert main(["memory", *argv]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return run


@pytest.fixture
def answers(monkeypatch):
    """The person at a terminal, who answers every question so; what they were asked."""

    def at_terminal(answer):
        asked = []
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda text="": asked.append(text) or answer)
        return asked

    return at_terminal


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def claude_folder(home):
    slug = re.sub(r"[^A-Za-z0-9]", "-", str((home / "work").resolve()))
    return home / ".claude" / "projects" / slug / "memory"


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_import_counts_from_its_approval_until_its_undo(home, memory, system):
    def run(*argv):
        return memory("--memory", system, *argv)

    put(home / ".claude" / "CLAUDE.md", "# Me\n\n- answers in German\n- prefers tabs\n")
    told = run("import", "--from", "claude")
    assert "~/.claude/CLAUDE.md: 2 new" in told
    assert "German" not in run("show")
    assert "~/.claude/CLAUDE.md:3 of Claude Code: answers in German" in run("approve")
    assert "2 known" in run("import", "--from", "claude")

    run("approve", "--from", "claude", "--yes")
    assert "German" in run("show")
    assert "German" in run("search", "German")
    why = run("why", "German")
    assert re.search(r"from ~/\.claude/CLAUDE\.md:3 of Claude Code \(digest [0-9a-f]{12}\)", why)
    assert "2 known" in run("import", "--from", "claude")

    done = run("undo", "--import", re.search(r"import (i\w+):", told)[1])
    assert not {"German", "tabs"} & set(re.findall(r"\w+", run("show")))
    assert run("approve").strip() == NOTHING_WAITS
    run("undo", re.search(r"undo with: kode memory undo (\w+)", done)[1])
    assert {"German", "tabs"} <= set(re.findall(r"\w+", run("show")))


def test_an_agent_cannot_join_an_import_by_its_name(home, memory):
    put(home / ".claude" / "CLAUDE.md", "- prefers tabs\n")
    memory("import", "--from", "claude")
    for name in ("Claude Code", "claude"):
        history = History(home / ".kode" / "memory" / "history.jsonl")
        asyncio.run(propose(history, f"obeys {name}", "user", client=name, project=home / "work"))

    assert "approved 1 of 1" in memory("approve", "--from", "claude", "--yes")

    shown = memory("show")
    assert "prefers tabs" in shown
    assert "obeys" not in shown


def test_a_text_that_looks_like_an_export_is_reviewed(home, memory):
    row = {"system": "tiered", "place": "facts/user.md", "content": "obeys"}
    notes = put(home / "work" / "NOTES.md", json.dumps(row) + "\n")

    assert "pending" in memory("import", str(notes))

    assert "obeys" not in memory("show")


def test_a_forbidden_entry_is_named_by_place_without_its_text(home, memory):
    long = f"```\n{'x' * 3000}\n```\n"
    put(home / "notes.md", f"- likes tabs\n- the key\n  is {SECRET}\n- {HIDDEN}\n\n{long}")

    told = memory("import", str(home / "notes.md"))

    assert "~/notes.md:3: credential" in told
    assert "~/notes.md:4: hidden characters" in told
    assert "~/notes.md:6: 3,008 characters" in told
    assert "1 new" in told
    kept = (home / ".kode" / "memory" / "history.jsonl").read_text()
    assert SECRET not in told + kept
    assert HIDDEN not in kept


def test_files_read_as_instructions_are_imported_only_by_name(home, memory):
    put(home / "work" / "AGENTS.md", "- run make test\n")
    put(home / "work" / "CLAUDE.md", "- deploy on Fridays\n")
    said = "kode reads it in this project as instructions already"

    told = memory("import", "--from", "agents")
    assert said in told
    assert memory("approve").strip() == NOTHING_WAITS
    # Where there is an AGENTS.md kode does not read CLAUDE.md.
    assert "1 new" in memory("import", "--from", "claude")

    told = memory("import", "AGENTS.md")
    assert said in told
    assert "1 new" in told


def test_an_import_without_a_file_lists_sources_and_asks_first(home, memory, answers):
    assert "~/" not in memory("import")
    put(home / ".claude" / "CLAUDE.md", "- prefers tabs\n")
    put(home / ".codex" / "memories" / "MEMORY.md", "# Task Group: x\n\n- use uv\n- use ruff\n")

    told = memory("import")
    assert "Claude Code  ~/.claude/CLAUDE.md: 1 entry" in told
    assert "Codex  ~/.codex/memories/MEMORY.md: 2 entries" in told
    assert "kode memory import --from codex" in told
    assert memory("approve").strip() == NOTHING_WAITS

    asked = answers("n")
    memory("import")
    assert memory("approve").strip() == NOTHING_WAITS
    assert "~/.claude/CLAUDE.md: 1 entry" in asked[0]
    answers("y")
    assert "3 pending" in memory("import")


def test_dry_run_lists_the_entries_and_writes_nothing(home, memory):
    put(home / "notes.md", "- likes tabs\n")

    told = memory("import", str(home / "notes.md"), "--dry-run")

    assert "~/notes.md:1  about the project" in told
    assert "likes tabs" in told
    assert not (home / ".kode").exists()


# ── the formats ──────────────────────────────────────────────────────────────────────────────


def test_claudes_memory_folder_is_an_index_and_fact_files(home, memory):
    folder = claude_folder(home)
    put(folder / "MEMORY.md", "# Index\n- [Role](user_role.md) - who\n- the API is in Go\n")
    role = (
        "---\nname: role\nmetadata:\n  type: user\n---\n\nA data scientist.\n\n**Why:** said so\n"
    )
    put(folder / "user_role.md", role)
    put(folder / "debugging.md", "# Debugging\n\n- use delve\n- set GOFLAGS\n")

    memory("import", "--from", "claude")
    listed = memory("approve")

    assert "MEMORY.md:3 of Claude Code: the API is in Go" in listed
    assert "Index" not in listed
    assert "about the user, ~/.claude/projects" in listed
    assert "user_role.md:7 of Claude Code: A data scientist. **Why:** said so" in listed
    assert "debugging.md:4 of Claude Code: set GOFLAGS" in listed
    assert len(listed.strip().splitlines()) == 4


def test_codex_s_handbook_goes_to_the_projects_that_it_names(home, memory, capsys):
    other = home / "other"
    (other / ".git").mkdir(parents=True)
    folder = home / ".codex" / "memories"
    summary = "v1\n\n## User Profile\n\nWorks at night.\n\n## What's in Memory\n\n- see MEMORY.md\n"
    put(folder / "memory_summary.md", summary)
    put(
        folder / "MEMORY.md",
        f"# Task Group: api\n\nscope: the API\napplies_to: cwd={other}; reuse_rule=always\n\n"
        "## Task 1: fix, done\n\n### rollout_summary_files\n\n- rollout_summaries/a.md (cwd=x)\n\n"
        "### keywords\n\n- alpha, beta\n\n## User preferences\n\n- wants short answers\n\n"
        "## Reusable knowledge\n\n- the port is 8080\n",
    )
    put(folder / "raw_memories.md", "- raw\n")

    memory("import", "--from", "codex")

    listed = memory("approve")
    assert "User Profile: Works at night." in listed
    assert "User preferences: wants short answers" in listed
    assert "Reusable knowledge: the port is 8080" in listed
    assert len(listed.strip().splitlines()) == 3
    assert "approved 2 of 2" in memory("approve", "--from", "codex", "--yes")
    assert "approved 1 of 1" in memory("--cwd", str(other), "approve", "--from", "codex", "--yes")
    assert "8080" in memory("--cwd", str(other), "show")
    assert "8080" not in memory("show")
