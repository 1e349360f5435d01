from pathlib import Path

import pytest

from kode.prompts.agents_files import MAX_BYTES, MAX_IMPORT_DEPTH, read_agents_files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository" / "sub" / "deep").mkdir(parents=True)
    return tmp_path / "repository"


def test_the_nearest_file_comes_first_within_the_repository(repository: Path) -> None:
    (repository.parent / "AGENTS.md").write_text("outside")
    (repository / "AGENTS.md").write_text("of the root")
    (repository / "sub" / "deep" / "AGENTS.md").write_text("of the deep")

    found = read_agents_files(repository / "sub" / "deep", repository)

    assert found.section.index("of the deep") < found.section.index("of the root")
    assert "outside" not in found.section
    assert found.warning == ""


def test_only_the_folder_itself_counts_outside_a_repository(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("above")
    (repository / "sub" / "AGENTS.md").write_text("here")

    found = read_agents_files(repository / "sub", None)

    assert [source.path for source in found.sources] == [str(repository / "sub" / "AGENTS.md")]


def test_text_beyond_32_kb_is_cut_with_a_warning(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("x" * (MAX_BYTES + 1))
    (repository / "sub" / "AGENTS.md").write_text("near")

    found = read_agents_files(repository / "sub", repository)

    assert found.section.count("x") < MAX_BYTES
    assert "near" in found.section
    assert "was cut" in found.warning


def test_a_link_out_of_the_project_is_not_read(repository: Path) -> None:
    secret = repository.parent / "id_rsa"
    secret.write_text("PRIVATE")
    (repository / "AGENTS.md").symlink_to(secret)

    found = read_agents_files(repository, repository)

    assert found.section == ""
    assert "outside the project" in found.warning


def test_a_link_to_itself_is_skipped_with_warning(repository: Path) -> None:
    (repository / "AGENTS.md").symlink_to(repository / "AGENTS.md")

    assert "not a file" in read_agents_files(repository, repository).warning


def test_a_link_within_the_project_is_read(repository: Path) -> None:
    (repository / "CONTRIBUTING.md").write_text("run make test")
    (repository / "AGENTS.md").symlink_to(repository / "CONTRIBUTING.md")

    assert "run make test" in read_agents_files(repository, repository).section


def test_a_file_not_of_text_is_skipped_with_warning(repository: Path) -> None:
    (repository / "AGENTS.md").mkdir()
    (repository / "sub" / "AGENTS.md").write_bytes(b"a\0b")

    found = read_agents_files(repository / "sub", repository)

    assert found.section == ""
    assert "not a file" in found.warning
    assert "not text" in found.warning


def test_another_agents_file_counts_where_there_is_no_agents_md(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("of agents")
    (repository / "CLAUDE.md").write_text("of the root's other file")
    (repository / "sub" / "GEMINI.md").write_text("of gemini")
    (repository / "sub" / "CLAUDE.md").write_text("of claude")

    section = read_agents_files(repository / "sub", repository).section

    assert section.index("of claude") < section.index("of agents")
    assert "of gemini" not in section
    assert "other file" not in section


@pytest.mark.parametrize("name", ["GEMINI.md", ".github/copilot-instructions.md"])
def test_each_known_file_is_read_by_itself(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text("one\ntwo\n")

    found = read_agents_files(repository, repository)

    assert "one\ntwo" in found.section
    assert found.describe_files(repository) == [f"{name} (2 lines)"]


def test_only_rules_that_always_apply_are_read(repository: Path) -> None:
    rules = repository / ".cursor" / "rules"
    rules.mkdir(parents=True)
    (rules / "a.mdc").write_text("---\ndescription: x\nalwaysApply: true\n---\nalways")
    (rules / "b.mdc").write_text("---\nglobs: *.ts\nalwaysApply: false\n---\nsometimes")
    (rules / "c.mdc").write_text("no front matter")

    found = read_agents_files(repository, repository)

    assert found.describe_files(repository) == [".cursor/rules/a.mdc (1 line)"]
    assert "alwaysApply" not in found.section


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    return tmp_path / "home"


def test_imports_are_read_once_each_and_named_with_their_importer(
    repository: Path, home: Path
) -> None:
    (repository / "sub" / "more.md").write_text("deeper @../CLAUDE.md @deep/last.md")
    (repository / "sub" / "deep" / "last.md").write_text("the last")
    (home / ".claude" / "mine.md").write_text("my own")
    (repository / "CLAUDE.md").write_text(
        "See @sub/more.md, @~/.claude/mine.md. Not a@b.c, not @nobody, not `@sub/deep/code.md`."
    )
    (repository / "sub" / "deep" / "code.md").write_text("in code")

    found = read_agents_files(repository, repository)

    assert found.describe_files(repository) == [
        "CLAUDE.md (1 line)",
        "sub/more.md (1 line, imported by CLAUDE.md)",
        "sub/deep/last.md (1 line, imported by sub/more.md)",
        "../home/.claude/mine.md (1 line, imported by CLAUDE.md)",
    ]
    assert found.warning == ""


@pytest.mark.parametrize(
    "name", ["~/.ssh/id_rsa", "~/notes.md", "../elsewhere.md", "linked.md", ".env"]
)
def test_an_import_brings_no_private_file_and_no_key(
    repository: Path, home: Path, name: str
) -> None:
    secret = repository.parent / "elsewhere.md"
    secret.write_text("PRIVATE")
    (home / ".ssh").mkdir()
    for path in (home / ".ssh" / "id_rsa", home / "notes.md", repository / ".env"):
        path.write_text("PRIVATE")
    (repository / "linked.md").symlink_to(secret)
    (repository / "CLAUDE.md").write_text(f"@{name}")

    found = read_agents_files(
        repository, repository, is_secret=lambda path: path.endswith((".env", "_rsa"))
    )

    assert "PRIVATE" not in found.section
    assert "was not imported" in found.warning


def test_a_link_to_keys_in_the_project_is_not_read(repository: Path) -> None:
    (repository / ".env").write_text("PRIVATE")
    (repository / "CLAUDE.md").symlink_to(repository / ".env")

    found = read_agents_files(repository, repository, is_secret=lambda path: path.endswith(".env"))

    assert found.section == ""
    assert "may hold keys" in found.warning


def test_imports_end_at_a_depth_and_share_the_room(repository: Path) -> None:
    for number in range(9):
        (repository / f"{number}.md").write_text(f"@{number + 1}.md")
    (repository / "CLAUDE.md").write_text("@0.md")
    assert len(read_agents_files(repository, repository).sources) == 1 + MAX_IMPORT_DEPTH

    (repository / "CLAUDE.md").write_text("@big.md")
    (repository / "big.md").write_text("x" * MAX_BYTES)
    assert "was cut" in read_agents_files(repository, repository).warning
