"""What other agents remember, as `kode memory import` takes it once the person says so."""

import re

import pytest

from kode.cli.main import main
from kode.memory.review import NOTHING_WAITS

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
    """`kode memory ...`, without a terminal."""

    def run(*argv, code=0):
        assert main(["memory", *argv]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return run


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_import_counts_from_its_approval_until_its_undo(home, memory, system):
    def run(*argv):
        return memory("--memory", system, *argv)

    put(home / ".claude" / "CLAUDE.md", "# Me\n\n- answers in German\n- prefers tabs\n")
    output = run("import", "--from", "claude")
    assert "~/.claude/CLAUDE.md: 2 new" in output
    assert "German" not in run("show")
    assert "from ~/.claude/CLAUDE.md:3" in run("review")
    assert "2 known" in run("import", "--from", "claude")

    run("approve", "--from", "~/.claude/CLAUDE.md")
    assert "German" in run("show")
    assert "German" in run("search", "German")
    assert "~/.claude/CLAUDE.md:3" in run("why", "German")
    assert "2 known" in run("import", "--from", "claude")

    batch = re.search(r"--import (i\w+)", output)[1]
    run("undo", "--import", batch, "--with-derived")
    assert not {"German", "tabs"} & set(re.findall(r"\w+", run("show")))
    assert run("review").strip() == NOTHING_WAITS


def test_one_question_decides_about_all_files(home, memory, monkeypatch):
    answers, questions = iter("ny"), []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text="": questions.append(text) or next(answers))
    assert "Nothing was found" in memory("import", code=1)
    put(home / ".claude" / "CLAUDE.md", "- prefers tabs\n")
    put(home / "work" / "AGENTS.md", "- run make test\n")
    put(home / ".codex" / "memories" / "MEMORY.md", "# Task Group: x\n\n- use uv\n- use ruff\n")

    memory("import")
    assert len(questions) == 1
    assert "4 pending" in memory("status") or "waiting for approval: 4" in memory("status")
    assert "tabs" not in memory("show")
    memory("undo")

    memory("import", "--from", "agents")
    assert "run make test" in memory("show")


def test_an_agent_cannot_join_an_import_by_its_name(home, memory):
    put(home / ".claude" / "CLAUDE.md", "- prefers tabs\n")
    memory("import", "--from", "claude")
    put(home / "work" / "AGENTS.md", "- obeys claude\n")
    memory("import", "--from", "agents")

    assert "approved 1" in memory("approve", "--from", "~/.claude/CLAUDE.md")

    shown = memory("show")
    assert "prefers tabs" in shown
    assert "obeys" not in shown


def test_a_forbidden_entry_is_named_by_place_without_its_text(home, memory):
    long = f"```\n{'x' * 3000}\n```\n"
    put(home / "notes.md", f"- likes tabs\n- the key\n  is {SECRET}\n- {HIDDEN}\n\n{long}")

    assert "likes tabs" in memory("import", str(home / "notes.md"), "--dry-run")
    assert not (home / ".kode" / "memory").exists()
    output = memory("import", str(home / "notes.md"))

    assert "~/notes.md:3: credential" in output or "~/notes.md:2: credential" in output
    assert "~/notes.md:4: hidden characters" in output
    assert "~/notes.md:6: 3,008 characters" in output
    assert "1 new" in output
    history = (home / ".kode" / "memory" / "history.jsonl").read_text()
    assert SECRET not in output + history
    assert HIDDEN not in history


# ── the formats ──────────────────────────────────────────────────────────────────────────────


def test_claudes_memory_folder_is_an_index_and_fact_files(home, memory):
    slug = re.sub(r"[^A-Za-z0-9]", "-", str((home / "work").resolve()))
    folder = home / ".claude" / "projects" / slug / "memory"
    put(folder / "MEMORY.md", "# Index\n- [Role](user_role.md) - who\n- the API is in Go\n")
    role = (
        "---\nname: role\nmetadata:\n  type: user\n---\n\nA data scientist.\n\n**Why:** said so\n"
    )
    put(folder / "user_role.md", role)
    put(folder / "debugging.md", "# Debugging\n\n- use delve\n- set GOFLAGS\n")

    output = memory("import", "--from", "claude")
    listed = memory("review")

    assert [int(count) for count in re.findall(r"(\d+) new", output)] == [1, 2, 1]
    assert re.search(r"the API is in Go .*/MEMORY\.md:3\)", listed)
    assert "Index" not in listed
    assert re.search(r"A data scientist\.\n\n\*\*Why:\*\* said so .*/user_role\.md:7\)", listed)
    assert re.search(r"set GOFLAGS .*/debugging\.md:4\)", listed)


def test_codex_s_handbook_goes_to_the_projects_that_it_names(home, memory):
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

    output = memory("import", "--from", "codex")

    listed = memory("review")
    assert "User Profile: Works at night." in listed
    assert "User preferences: wants short answers" in listed
    assert "8080" not in listed
    assert f"it is about {other}" in output
    assert "2 known" not in memory("--cwd", str(other), "import", "--from", "codex")
    assert "the port is 8080" in memory("--cwd", str(other), "review")
