"""A link that changes between the decision and the use does not help anybody."""

import functools
import os
from collections.abc import Callable
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
from tests.tools.conftest import Call, run_tool


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "f").write_text("theirs")
    return folder


@pytest.fixture
def bend(project: Path, outside: Path) -> Callable[[], None]:
    """Puts a link that leads out in the place of the folder `d`, which holds a file."""
    (project / "d").mkdir()
    (project / "d" / "f").write_text("ours")

    def bend() -> None:
        (project / "d").rename(project / "was")
        (project / "d").symlink_to(outside)

    return bend


@pytest.mark.parametrize("tool", [read_file, write_file, edit_file])
async def test_a_call_works_on_the_judged_file_or_none(
    context: ToolContext, project: Path, outside: Path, bend, tool
) -> None:
    judged = replace(context, path=str(project / "d" / "f"))
    bend()
    more = {"write_file": {"content": "x"}, "edit_file": {"old_text": "theirs", "new_text": "x"}}

    with pytest.raises(ToolError, match="another file"):
        await run_tool(judged, tool, path="d/f", **more.get(tool.name, {}))

    assert (outside / "f").read_text() == "theirs"


def test_a_folder_bent_before_a_read_or_write_is_noticed(
    context: ToolContext, outside: Path, bend
) -> None:
    real = files.resolve(context, "d/f")
    bend()

    with pytest.raises(ToolError, match="not be written"):
        files.write_file(context, real, b"x")
    with pytest.raises(ToolError, match="another file"), files.open_regular(context, real):
        pass
    with pytest.raises(StorageError):
        durable.replace_file(real, b"x", follow=False)
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "theirs"


async def test_a_folder_bent_before_a_deletion_is_noticed(
    call: Call, outside: Path, bend, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = files.read_whole

    def read_then_bend(context: ToolContext, path: Path) -> files.FileText:
        file = read(context, path)
        bend()
        return file

    monkeypatch.setattr(files, "read_whole", read_then_bend)
    with pytest.raises(ToolError):
        await call(delete_file, path="d/f")
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
    look = functools.partial(run_tool, context, tool, path="/tmp", **arguments)
    assert "/tmp/f" in (await look()).text

    runs = BackgroundCommand("bg1", None, "s")  # type: ignore[arg-type]
    background.commands.append(runs)
    with pytest.raises(ToolError, match="background"):
        await look()
    runs.outcome = "exit status 0"
    assert "/tmp/f" in (await look()).text
