"""A link that changes between the decision and the use does not help anybody."""

import itertools
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kode import durable
from kode.errors import StorageError, ToolError
from kode.tool import ToolContext
from kode.tools import files
from kode.tools.apply_patch import delete_file
from kode.tools.background import BackgroundCommand, BackgroundCommands
from kode.tools.edit import edit_file, write_file
from kode.tools.read_file import read_file
from kode.tools.search import list_files, search_files


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "f").write_text("theirs")
    return folder


def bend(folder: Path, target: Path) -> None:
    """Puts a link in the place of a folder."""
    folder.rename(folder.with_name(folder.name + ".was"))
    folder.symlink_to(target)


@pytest.mark.parametrize("tool", [read_file, write_file, edit_file])
async def test_a_call_works_on_the_judged_file_or_none(
    context: ToolContext, project: Path, outside: Path, tool
) -> None:
    (project / "d").mkdir()
    (project / "d" / "f").write_text("ours")
    judged = replace(context, path=str(project / "d" / "f"))
    bend(project / "d", outside)
    more = {"write_file": {"content": "x"}, "edit_file": {"old_text": "theirs", "new_text": "x"}}

    with pytest.raises(ToolError, match="another file"):
        await tool.run(judged, tool.check({"path": "d/f", **more.get(tool.name, {})}))

    assert (outside / "f").read_text() == "theirs"


def test_a_folder_bent_before_a_read_or_write_is_noticed(
    context: ToolContext, project: Path, outside: Path
) -> None:
    (project / "d").mkdir()
    (project / "d" / "f").write_text("ours")
    real = files.resolve(context, "d/f")
    bend(project / "d", outside)

    with pytest.raises(ToolError, match="could not be written"):
        files.write(context, real, b"x", mode=0o600)
    with (
        pytest.raises(ToolError, match="another file"),
        files.open_regular(context, real),
    ):
        pass
    with pytest.raises(StorageError):
        durable.replace(real, b"x", follow=False)
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "theirs"


def test_a_link_that_flips_all_the_time_never_leads_out(
    context: ToolContext, project: Path, outside: Path
) -> None:
    inside, link, spare = project / "inside", project / "d", project / "spare"
    inside.mkdir()
    link.symlink_to(inside)
    over = threading.Event()

    def flip() -> None:
        for target in itertools.cycle((outside, inside)):
            spare.symlink_to(target)
            os.rename(spare, link)
            if over.is_set():
                break

    flipping = threading.Thread(target=flip)
    flipping.start()
    written = 0
    try:
        for _ in range(300):
            real = files.resolve(context, "d/f")
            if not files.find_outside_source(context, real):
                files.write(context, real, b"x", mode=0o600)
                written += 1
    finally:
        over.set()
        flipping.join()

    assert written
    assert (outside / "f").read_text() == "theirs"
    assert os.listdir(outside) == ["f"]


async def test_a_folder_bent_before_a_deletion_is_noticed(
    context: ToolContext, project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "d").mkdir()
    (project / "d" / "f").write_text("ours")
    read = files.read_whole

    def read_then_bend(context: ToolContext, path: Path) -> files.FileText:
        file = read(context, path)
        bend(project / "d", outside)
        return file

    monkeypatch.setattr(files, "read_whole", read_then_bend)
    with pytest.raises(ToolError):
        await delete_file.run(context, delete_file.check({"path": "d/f"}))
    assert (outside / "f").exists()


@pytest.mark.parametrize(
    ("tool", "arguments"), [(search_files, {"pattern": "theirs"}), (list_files, {})]
)
async def test_no_walk_enters_tmp_while_commands_may_link(
    context: ToolContext, tmp_path: Path, tool, arguments
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "f").write_text("theirs")
    background = BackgroundCommands()
    place = replace(context.place, private_tmp=lambda: tmp_path / "tmp")
    context = replace(context, place=place, background=background)
    given = tool.check({"path": "/tmp", **arguments})
    assert "/tmp/f" in (await tool.run(context, given)).text

    runs = BackgroundCommand("bg1", None, "s")  # type: ignore[arg-type]
    background.commands.append(runs)
    with pytest.raises(ToolError, match="background"):
        await tool.run(context, given)
    runs.outcome = "exit status 0"
    assert "/tmp/f" in (await tool.run(context, given)).text
