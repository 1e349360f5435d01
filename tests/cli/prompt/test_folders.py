import pytest

from kode.cli.prompt import attach
from kode.cli.prompt.attach import mentioned_folders, read_folder
from tests.workplaces import empty_repository


@pytest.fixture
def project(tmp_path):
    for name in ("src/app.py", "src/deep/a.py", "src/deep/b.py", "my docs/x.md", "src/out.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("*.log\n")
    empty_repository(tmp_path)
    return tmp_path


def named(text, cwd):
    return [folder.name for folder in mentioned_folders(text, cwd)]


def test_a_folder_becomes_a_list_of_its_unignored_files(project):
    folder = read_folder("src/", project / "src")

    assert folder.summary == "3 files in src/"
    assert folder.text.source == "attachment"
    assert folder.text.text == ('<folder path="src/">\napp.py\ndeep/a.py\ndeep/b.py\n</folder>')


def test_a_large_folder_lists_its_nearest_files(project, monkeypatch):
    monkeypatch.setattr(attach, "MAX_LISTED", 1)
    (project / "src/a/deep").mkdir(parents=True)
    (project / "src/a/deep/first.py").write_text("x")

    text = read_folder("src", project / "src").text.text

    assert text.startswith('<folder path="src">\napp.py\n[3 more: ')


def test_folders_are_found_as_they_are_named_each_once(project):
    said = 'in @src, @src/ and @"my docs/" but not @src/app.py, @none or me@src/deep'

    assert named(said, project) == ["src", "my docs/"]
    assert named("what is in @.?", project) == ["."]


@pytest.mark.parametrize("said", ["@/etc", "@..", "@src/../../", "@link", "@" + "x" * 5000])
def test_a_path_outside_the_working_directory_stays_a_name(project, said, tmp_path_factory):
    (project / "link").symlink_to(tmp_path_factory.mktemp("elsewhere"))

    assert named(said, project) == []
