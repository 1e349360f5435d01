import errno
import os
import stat
from pathlib import Path

import pytest

from kode.errors import ToolError
from kode.tool import ToolContext
from kode.tools.edit import edit_file, write_file
from kode.tools.read_file import read_file
from tests.tools.conftest import Call


async def test_a_new_file_is_created_with_its_folders(call: Call, project: Path) -> None:
    umask = os.umask(0o027)
    try:
        output = await call(write_file, path="a/b/c.txt", content="one\ntwo\n")
    finally:
        os.umask(umask)

    assert (project / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE((project / "a/b/c.txt").stat().st_mode) == 0o640
    assert output.text == "Created a/b/c.txt: 2 lines."
    assert output.files_changed == (str(project / "a/b/c.txt"),)
    assert "+one\n+two\n" in output.diff


async def test_a_file_never_read_is_replaced_and_named(call: Call, project: Path) -> None:
    (project / "a").write_text("old\n")
    (project / "a").chmod(0o754)
    (project / "link").symlink_to("a")

    output = await call(write_file, path="link", content="new\n")
    again = await call(write_file, path="a", content="newer\n")

    assert (project / "link").is_symlink()
    assert (project / "a").read_text() == "newer\n"
    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o754
    assert "had not read" in output.text
    assert "-old\n+new\n" in output.diff
    assert output.summary == "+1 -1"
    assert again.text == "Replaced a: 1 line."


async def test_a_file_changed_since_its_reading_must_be_reread(call: Call, project: Path) -> None:
    (project / "a").write_text("old")
    await call(read_file, path="a")
    (project / "a").write_text("theirs")

    with pytest.raises(ToolError, match="has changed since"):
        await call(write_file, path="a", content="new")

    assert (project / "a").read_text() == "theirs"


async def test_a_missing_last_line_end_is_named(call: Call) -> None:
    new = await call(write_file, path="a.txt", content="one")
    same = await call(write_file, path="a.txt", content="two")
    await call(write_file, path="a.txt", content="two\n")
    lost = await call(write_file, path="a.txt", content="three")

    assert "no line end." in new.text
    assert "no line end" not in same.text
    assert "no line end any more" in lost.text


async def test_the_same_content_changes_nothing(call: Call, project: Path) -> None:
    (project / "a").write_text("same")
    inode = (project / "a").stat().st_ino

    output = await call(write_file, path="a", content="same")

    assert "unchanged" in output.text
    assert (output.files_changed, (project / "a").stat().st_ino) == ((), inode)


ONE = {"old_text": "one", "new_text": "éins"}


@pytest.mark.parametrize(
    ("before", "change", "after", "note"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", {"content": "a\nc\n"}, b"\xef\xbb\xbfa\r\nc\r\n", "CRLF"),
        (b"caf\xe9\n", {"content": "thé\n"}, b"th\xe9\n", ""),
        (b"caf\xe9\n", {"content": "茶\n"}, "茶\n".encode(), "UTF-8 now"),
        (b"\xef\xbb\xbfone\n", ONE, b"\xef\xbb\xbf\xc3\xa9ins\n", ""),
        (
            "\ufeffone\r\n".encode("utf-16-le"),
            ONE,
            "\ufeffé".encode("utf-16-le") + "ins\r\n".encode("utf-16-le"),
            "",
        ),
        (b"one caf\xe9\n", ONE, b"\xe9ins caf\xe9\n", ""),
        (b"x\r\none\r\n", ONE, b"x\r\n\xc3\xa9ins\r\n", ""),
        (b"one", ONE, b"\xc3\xa9ins", ""),
    ],
)
async def test_mark_line_ends_and_encoding_are_kept_where_possible(
    call: Call, project: Path, before: bytes, change: dict[str, str], after: bytes, note: str
) -> None:
    (project / "a").write_bytes(before)

    output = await call(write_file if "content" in change else edit_file, path="a", **change)

    assert (project / "a").read_bytes() == after
    assert note in output.text


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        (".", "", "is a folder"),
        ("new/", "", "is a folder"),
        ("file/x", "", "file is a file, so"),
        ("a", "\ud800", r"no character U\+D800"),
        ("n" * 300, "", "name too long"),
    ],
)
async def test_a_write_that_fails_says_why(
    call: Call, project: Path, path: str, content: str, reason: str
) -> None:
    (project / "file").write_text("")

    with pytest.raises(ToolError, match=reason):
        await call(write_file, path=path, content=content)
    assert os.listdir(project) == ["file"]


async def test_protected_folders_are_never_written(
    call: Call, project: Path, context: ToolContext
) -> None:
    home = context.place.protected[0]
    (project / "door").symlink_to(home)
    (project / "dangling").symlink_to(home / "new.md")
    paths = (
        *(str(home / "a"), f"../{home.name}/x/y", "door/deep/a", "dangling"),
        *("sub/../../home/a", str(home)),
    )
    for path in (*paths, "../HOME/a"):
        if path == "../HOME/a":
            home.rmdir()  # else it is another folder
        with pytest.raises(ToolError, match="belongs to kode"):
            await call(write_file, path=path, content="x")
        with pytest.raises(ToolError, match="belongs to kode"):
            await call(edit_file, path=path, old_text="a", new_text="b")


async def test_a_full_or_forbidden_disk_leaves_the_old_file(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a").write_text("old")

    def full(source: str, target: str, **folders: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(ToolError, match="No space left on device"):
        await call(write_file, path="a", content="new")
    assert [path.name for path in project.iterdir()] == ["a"]
    assert (project / "a").read_text() == "old"


async def test_another_hard_link_to_a_file_keeps_the_old_content(call: Call, project: Path) -> None:
    (project / "a").write_text("old")
    (project / "b").hardlink_to(project / "a")
    text = await call(write_file, path="a", content="new")
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("new", "old")
    assert "hard links to it (1)" in str(text)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_file_that_is_a_mount_is_written_in_place(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def busy(source: str, target: str, **folders: int) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    (project / "a").write_text("the old content")
    inode, cut = (project / "a").stat().st_ino, os.ftruncate
    monkeypatch.setattr(os, "rename", busy)
    if fails:
        failures = iter([OSError(errno.EIO, "Input/output error")])

        def fail_once(descriptor: int, size: int) -> None:
            for failure in failures:
                raise failure
            cut(descriptor, size)

        monkeypatch.setattr(os, "ftruncate", fail_once)
        with pytest.raises(ToolError, match="Input/output error"):
            await call(write_file, path="a", content="new")
        assert (project / "a").read_text() == "the old content"
        return
    assert "written in place" in str(await call(write_file, path="a", content="new"))
    assert ((project / "a").read_text(), (project / "a").stat().st_ino) == ("new", inode)
    assert [path.name for path in project.iterdir()] == ["a"]
