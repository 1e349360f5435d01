"""Moving in from another agent: what it remembers waits for the person, with where it was read."""

import asyncio
import json
import re

import pytest

from kode.cli.main import main
from kode.memory.history import History
from kode.memory.review import NOTHING_WAITS
from kode.memory.waiting import proposals, propose

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


def import_id(text):
    return re.search(r"import (i\w+):", text)[1]


def history(home):
    lines = (home / ".kode" / "memory" / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("system", SYSTEMS)
def test_claudes_memory_counts_once_the_person_approves_it(home, memory, system):
    put(home / ".claude" / "CLAUDE.md", "# Me\n\n- answers in German\n- prefers tabs\n")
    told = memory("--memory", system, "import", "--from", "claude")
    assert "~/.claude/CLAUDE.md: 2 new" in told
    assert "German" not in memory("--memory", system, "show")
    assert "No matching" in memory("--memory", system, "search", "German")

    listed = memory("--memory", system, "approve")
    assert "~/.claude/CLAUDE.md:3 of Claude Code: answers in German" in listed
    memory("--memory", system, "approve", "--from", "claude", "--yes")

    assert "German" in memory("--memory", system, "show")
    assert "German" in memory("--memory", system, "search", "German")
    why = memory("--memory", system, "why", "German")
    assert re.search(r"from ~/\.claude/CLAUDE\.md:3 of Claude Code \(digest [0-9a-f]{12}\)", why)
    assert memory("--memory", system, "approve").strip() == NOTHING_WAITS


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


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_import_is_undone_as_one_and_redone(home, memory, system):
    put(home / "notes.md", "- likes tabs\n- likes zebras\n- likes oats\n")
    batch = import_id(memory("--memory", system, "import", str(home / "notes.md")))
    first, *_ = memory("--memory", system, "approve").split()
    memory("--memory", system, "approve", first)
    memory("--memory", system, "approve", f"{batch}-0002")

    done = memory("--memory", system, "undo", "--import", batch)
    shown = memory("--memory", system, "show")
    assert "tabs" not in shown
    assert "zebras" not in shown
    assert memory("--memory", system, "approve").strip() == NOTHING_WAITS

    redo = re.search(r"undo with: kode memory undo (\w+)", done)[1]
    memory("--memory", system, "undo", redo)
    shown = memory("--memory", system, "show")
    assert "tabs" in shown
    assert "zebras" in shown


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_entry_of_an_import_is_undone_by_itself(home, memory, system):
    put(home / "notes.md", "- likes tabs\n- likes zebras\n")
    memory("--memory", system, "import", str(home / "notes.md"))
    memory("--memory", system, "approve", "--all", "--yes")
    made = [row["id"] for row in history(home) if row["system"] == system]

    memory("--memory", system, "undo", made[1])

    shown = memory("--memory", system, "show")
    assert "tabs" in shown
    assert "zebras" not in shown


@pytest.mark.parametrize("system", SYSTEMS)
def test_importing_the_same_entries_again_adds_nothing(home, memory, system):
    file = put(home / "notes.md", "- likes tabs\n- likes zebras\n")
    memory("--memory", system, "import", str(file))
    assert "2 known" in memory("--memory", system, "import", str(file))

    memory("--memory", system, "approve", "--all", "--yes")
    again = memory("--memory", system, "import", str(file))
    assert "2 known" in again
    assert memory("--memory", system, "approve").strip() == NOTHING_WAITS

    put(file, "- likes oats\n- likes tabs\n- likes zebras\n")
    assert "1 new, 2 known" in memory("--memory", system, "import", str(file))


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_entry_known_in_one_project_imports_into_another(home, memory, system):
    (home / "other" / ".git").mkdir(parents=True)
    for project in ("work", "other"):
        put(home / project / "TEAM.md", "- run make test\n")
        there = ("--memory", system, "--cwd", str(home / project))
        assert "1 new" in memory(*there, "import", str(home / project / "TEAM.md"))
        memory(*there, "approve", "--from", "file", "--yes")
        assert "make test" in memory(*there, "show")
        assert "1 known" in memory(*there, "import", str(home / project / "TEAM.md"))


def test_an_undone_import_can_be_imported_again(home, memory):
    file = put(home / "notes.md", "- likes tabs\n")
    batch = import_id(memory("import", str(file)))
    memory("approve", "--all", "--yes")
    memory("undo", "--import", batch)

    assert "1 new" in memory("import", str(file))


def test_a_forbidden_entry_is_named_by_place_without_its_text(home, memory):
    put(home / "notes.md", f"- likes tabs\n- the key\n  is {SECRET}\n- {HIDDEN}\n")

    told = memory("import", str(home / "notes.md"))

    assert "~/notes.md:3: credential" in told
    assert "~/notes.md:4: hidden characters" in told
    assert "1 new" in told
    kept = (home / ".kode" / "memory" / "history.jsonl").read_text()
    assert SECRET not in told + kept
    assert HIDDEN not in kept


def test_an_entry_too_long_for_a_fact_is_named_uncut(home, memory):
    put(home / "notes.md", f"- likes tabs\n\n```\n{'x' * 3000}\n```\n")

    told = memory("import", str(home / "notes.md"))

    assert "~/notes.md:3: 3,008 characters" in told
    assert "1 new" in told


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


def test_approving_many_shows_them_and_asks(home, memory, answers):
    put(home / "notes.md", "- likes tabs\n- likes zebras\n")
    memory("import", str(home / "notes.md"))
    assert "`--yes`" in memory("approve", "--all")

    asked = answers("no")
    memory("approve", "--all")
    assert "likes zebras" not in memory("show")
    assert "likes zebras" in asked[0]
    assert "Keep these 2?" in asked[0]
    answers("yes")
    assert "approved 2 of 2" in memory("approve", "--all")


def test_entries_that_do_not_fit_keep_waiting_with_the_reason(home, memory):
    lines = [f"- fact {number} about {number * 7919} and {'y' * 60}" for number in range(40)]
    put(home / "notes.md", "\n".join(lines))
    memory("import", str(home / "notes.md"))

    told = memory("approve", "--all", "--yes")

    kept = int(re.search(r"approved (\d+) of 40", told)[1])
    assert 20 < kept < 40
    assert "over its limit" in told
    assert f"  and {40 - kept - 3} more" in told
    assert len(memory("approve").strip().splitlines()) == 40 - kept


def test_a_long_file_is_imported_whole(home, memory):
    put(home / "CLAUDE.md", "\n".join(f"- rule {number} is {number * 31}" for number in range(300)))

    assert "300 new" in memory("import", str(home / "CLAUDE.md"))
    assert len(memory("approve").strip().splitlines()) == 300


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


def test_facts_of_an_absent_project_wait_under_its_path(home, memory):
    text = "# Task Group: api\n\napplies_to: cwd=/srv/absent; x=y\n\n- the port is 8080\n"
    put(home / ".codex" / "memories" / "MEMORY.md", text)

    memory("import", "--from", "codex")

    assert "approved" not in memory("approve", "--from", "codex", "--yes")
    (proposal,) = proposals(History(home / ".kode" / "memory" / "history.jsonl"))
    assert proposal.project == "/srv/absent"


def test_each_bullet_of_a_fact_file_is_an_entry(home, memory):
    head = "---\nmetadata:\n  type: project\n---\n\n"
    text = f"{head}- the port is 8080\n- the key is {SECRET}\n- deploys on Friday\n"
    put(claude_folder(home) / "api.md", text)
    put(claude_folder(home) / "ci.md", f"{head}CI runs ruff.\n\n**Why:** {SECRET}\n")

    told = memory("import", "--from", "claude")

    kept = {one.text for one in proposals(History(home / ".kode" / "memory" / "history.jsonl"))}
    assert kept == {"the port is 8080", "deploys on Friday", "CI runs ruff."}
    assert "api.md:7: credential" in told
    assert "ci.md:8: credential" in told


def test_entries_that_cannot_both_hold_wait_side_by_side(home, memory):
    lines = ["staging needs the VPN", "the port is 80", "staging does not need the VPN"]
    put(home / "notes.md", "".join(f"- {line}\n" for line in lines))

    memory("import", str(home / "notes.md"))

    waiting = proposals(History(home / ".kode" / "memory" / "history.jsonl"))
    assert [one.text for one in waiting] == lines


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("latin.md", b"caf\xe9", "is not UTF-8"),
        ("gone.md", None, "is not there"),
    ],
)
def test_an_unreadable_file_is_named_and_imports_nothing(home, memory, name, text, said):
    file = home / name
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert said in memory("import", str(file), code=1)
    assert not (home / ".kode" / "memory" / "history.jsonl").exists()


def test_an_import_that_was_killed_is_finished_by_another(home, memory):
    file = put(home / "notes.md", "- likes tabs\n- likes zebras\n- likes oats\n")
    memory("import", str(file))
    history = home / ".kode" / "memory" / "history.jsonl"
    history.write_bytes(history.read_bytes().partition(b"zebras")[0])

    assert "2 new, 1 known" in memory("import", str(file))
    assert len(memory("approve").strip().splitlines()) == 3
