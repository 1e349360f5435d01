from pathlib import Path

import pytest

from kode.prompts.agents_files import MAX_BYTES, read_agents_files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository" / "sub" / "deep").mkdir(parents=True)
    return tmp_path / "repository"


def test_the_nearest_comes_first_up_to_the_root_of_the_repository(repository: Path) -> None:
    (repository.parent / "AGENTS.md").write_text("outside")
    (repository / "AGENTS.md").write_text("of the root")
    (repository / "sub" / "deep" / "AGENTS.md").write_text("of the deep")

    found = read_agents_files(repository / "sub" / "deep", repository)

    assert found.section.index("of the deep") < found.section.index("of the root")
    assert "outside" not in found.section
    assert found.warning == ""


def test_outside_a_repository_only_the_folder_itself_counts(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("above")
    (repository / "sub" / "AGENTS.md").write_text("here")

    found = read_agents_files(repository / "sub", None)

    assert found.files == (str(repository / "sub" / "AGENTS.md"),)


def test_what_goes_beyond_32_kb_is_cut_and_told(repository: Path) -> None:
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


def test_a_link_within_the_project_is_read(repository: Path) -> None:
    (repository / "CONTRIBUTING.md").write_text("run make test")
    (repository / "AGENTS.md").symlink_to(repository / "CONTRIBUTING.md")

    assert "run make test" in read_agents_files(repository, repository).section


def test_what_is_no_text_file_is_left_out_and_told(repository: Path) -> None:
    (repository / "AGENTS.md").mkdir()
    (repository / "sub" / "AGENTS.md").write_bytes(b"a\0b")

    found = read_agents_files(repository / "sub", repository)

    assert found.section == ""
    assert "not a file" in found.warning
    assert "not text" in found.warning
