import os
import stat
from pathlib import Path

import pytest

from kode.errors import ToolError
from kode.tool import ToolContext
from kode.tools.read_file import read_file
from kode.tools.write_file import write_file
from tests.tools.conftest import Call


async def test_a_new_file_is_created_with_its_folders(call: Call, project: Path) -> None:
    output = await call(write_file, path="a/b/c.txt", content="one\ntwo\n")

    assert (project / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert output.text == "Created a/b/c.txt: 2 lines."
    assert output.files_changed == (str(project / "a/b/c.txt"),)
    assert "+one\n+two\n" in output.diff


async def test_a_new_file_has_the_mode_of_the_umask(call: Call, project: Path) -> None:
    umask = os.umask(0o027)
    try:
        await call(write_file, path="a", content="x")
    finally:
        os.umask(umask)

    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o640


async def test_a_file_never_read_is_replaced_and_named(call: Call, project: Path) -> None:
    (project / "a").write_text("old\n")

    output = await call(write_file, path="a", content="new\n")

    assert (project / "a").read_text() == "new\n"
    assert "1 line that this session had not read" in output.text


async def test_a_file_changed_since_its_reading_must_be_reread(call: Call, project: Path) -> None:
    (project / "a").write_text("old")
    await call(read_file, path="a")
    (project / "a").write_text("theirs")

    with pytest.raises(ToolError, match="has changed since"):
        await call(write_file, path="a", content="new")

    assert (project / "a").read_text() == "theirs"


async def test_a_read_file_is_replaced_and_keeps_its_mode(call: Call, project: Path) -> None:
    (project / "a").write_text("old\n")
    (project / "a").chmod(0o754)
    await call(read_file, path="a")

    output = await call(write_file, path="a", content="new\n")

    assert (project / "a").read_text() == "new\n"
    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o754
    assert "-old\n+new\n" in output.diff
    assert output.summary == "+1 -1"


async def test_a_written_file_may_be_written_again(call: Call, project: Path) -> None:
    await call(write_file, path="a", content="one")
    await call(write_file, path="a", content="two")

    assert (project / "a").read_text() == "two"


async def test_a_missing_last_line_end_is_named(call: Call) -> None:
    new = await call(write_file, path="a.txt", content="one")
    same = await call(write_file, path="a.txt", content="two")
    await call(write_file, path="a.txt", content="two\n")
    lost = await call(write_file, path="a.txt", content="three")

    assert "no line end." in new.text
    assert "no line end" not in same.text
    assert "no line end any more" in lost.text


async def test_a_symlink_stays_and_its_target_is_replaced(call: Call, project: Path) -> None:
    (project / "target").write_text("old")
    (project / "link").symlink_to("target")
    await call(read_file, path="link")

    await call(write_file, path="link", content="new")

    assert (project / "link").is_symlink()
    assert (project / "target").read_text() == "new"


async def test_the_same_content_is_said_to_be_unchanged(call: Call, project: Path) -> None:
    (project / "a").write_text("same")
    before = (project / "a").stat().st_ino
    await call(read_file, path="a")

    output = await call(write_file, path="a", content="same")

    assert "unchanged" in output.text
    assert output.files_changed == ()
    assert (project / "a").stat().st_ino == before


async def test_crlf_line_ends_and_byte_order_mark_are_kept(call: Call, project: Path) -> None:
    (project / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await call(read_file, path="a")

    output = await call(write_file, path="a", content="one\nthree\n")

    assert (project / "a").read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"
    assert "CRLF" in output.text
    assert "-two\n+three\n" in output.diff


async def test_latin_1_becomes_utf_8_only_when_it_must(call: Call, project: Path) -> None:
    (project / "a").write_bytes(b"caf\xe9\n")
    await call(read_file, path="a")
    await call(write_file, path="a", content="thé\n")
    assert (project / "a").read_bytes() == b"th\xe9\n"

    output = await call(write_file, path="a", content="茶\n")

    assert (project / "a").read_bytes() == "茶\n".encode()
    assert "UTF-8 now" in output.text


async def test_folders_and_files_in_the_way_are_named(call: Call, project: Path) -> None:
    (project / "file").write_text("")

    with pytest.raises(ToolError, match="is a folder"):
        await call(write_file, path=".", content="")
    with pytest.raises(ToolError, match="is a folder"):
        await call(write_file, path="new/", content="")
    with pytest.raises(ToolError, match="file is a file, so"):
        await call(write_file, path="file/x", content="")


async def test_text_that_no_encoding_can_hold_is_refused(call: Call, project: Path) -> None:
    with pytest.raises(ToolError, match=r"no character U\+D800"):
        await call(write_file, path="a", content="\ud800")
    assert not (project / "a").exists()


async def test_protected_folders_are_never_written(
    call: Call, project: Path, context: ToolContext
) -> None:
    home = context.place.protected[0]
    (project / "door").symlink_to(home)
    (project / "dangling").symlink_to(home / "new.md")

    for path in (
        str(home / "a"),
        f"../{home.name}/x/y",
        "door/deep/a",
        "dangling",
        "sub/../../home/a",
        str(home),
    ):
        with pytest.raises(ToolError, match="belongs to kode"):
            await call(write_file, path=path, content="x")
    assert list(home.iterdir()) == []


async def test_a_missing_protected_folder_is_protected_in_any_case(
    call: Call, context: ToolContext
) -> None:
    context.place.protected[0].rmdir()

    with pytest.raises(ToolError, match="belongs to kode"):
        await call(write_file, path="../HOME/a", content="x")


async def test_the_preview_is_the_diff_and_writes_nothing(
    call: Call, project: Path, context: ToolContext
) -> None:
    (project / "a").write_text("old\n")
    await call(read_file, path="a")
    assert write_file.preview is not None

    preview = write_file.preview(context, write_file.check({"path": "a", "content": "new\n"}))

    assert preview.startswith("--- a/a\n+++ b/a\n")
    assert "-old\n+new\n" in preview
    assert (project / "a").read_text() == "old\n"


async def test_a_full_or_forbidden_disk_leaves_the_old_file(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a").write_text("old")
    await call(read_file, path="a")

    def full(source: str, target: str, **folders: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)

    with pytest.raises(ToolError, match="No space left on device"):
        await call(write_file, path="a", content="new")
    assert [path.name for path in project.iterdir()] == ["a"]
    assert (project / "a").read_text() == "old"
