"""Nothing is read or written where a link leads, whatever becomes of the folders meanwhile."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kode import beneath
from kode.beneath import LinkInTheWay

STEPS = ("a", "b", "c")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder a/b/c, and one elsewhere that has the same names."""
    for name in ("tree", "elsewhere"):
        tmp_path.joinpath(name, *STEPS).mkdir(parents=True)
    return tmp_path / "tree"


@contextlib.contextmanager
def in_c(tree: Path, *, make: bool = False) -> Iterator[int]:
    how = beneath.folder_mode if make else None
    with beneath.open_folder(tree.joinpath(*STEPS), make=how) as folder:
        yield folder


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("depth", range(len(STEPS)))
@pytest.mark.parametrize("make", [False, True])
def test_a_link_at_any_component_is_refused(tree: Path, depth: int, make: bool) -> None:
    swapped = tree.joinpath(*STEPS[: depth + 1])
    swapped.rename(tree.parent / "moved")
    swapped.symlink_to(tree.parent.joinpath("elsewhere", *STEPS[: depth + 1]))

    with pytest.raises(LinkInTheWay), in_c(tree, make=make):
        pass


def test_missing_folders_are_made_with_their_modes(tmp_path: Path) -> None:
    modes = (0o775, 0o700, 0o757)
    umask = os.umask(0o077)
    try:
        with beneath.open_folder(tmp_path) as top:
            with beneath.open_below(top, STEPS, make=modes.__getitem__):
                pass
    finally:
        os.umask(umask)

    made = [tmp_path.joinpath(*STEPS[: count + 1]) for count in range(3)]
    assert [folder.stat().st_mode & 0o777 for folder in made] == list(modes)


@pytest.mark.parametrize("step", ["..", ".", "", "a/b"])
def test_a_step_is_one_name(tree: Path, step: str) -> None:
    with beneath.open_folder(tree) as top, pytest.raises(OSError):
        with beneath.open_below(top, [step]):
            pass


@pytest.fixture(params=["one disk", "two disks"])
def disks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two disks no file is renamed from one to the other."""
    rename = os.rename

    def move(source: str, to: str, **folders: int) -> None:
        if folders.get("src_dir_fd") != folders.get("dst_dir_fd"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, to, **folders)

    if request.param == "two disks":
        monkeypatch.setattr(os, "rename", move)


@pytest.mark.usefixtures("disks")
def test_a_link_under_the_name_itself_is_replaced_not_followed(tree: Path) -> None:
    victim = tree.parent / "victim"
    victim.write_text("mine")
    (tree / "new").write_text("new")
    (tree / "new").chmod(0o640)
    for name in ("moved", "linked"):
        tree.joinpath(*STEPS, name).symlink_to(victim)
    with in_c(tree) as folder, beneath.open_folder(tree) as source:
        beneath.move_entry(source, "new", folder, "moved")
        beneath.make_link("elsewhere", folder, "linked")

    c = tree.joinpath(*STEPS)
    assert victim.read_text() == "mine"
    assert (c / "moved").read_text() == "new"
    assert (c / "moved").stat().st_mode & 0o777 == 0o640
    assert os.readlink(c / "linked") == "elsewhere"


def test_removing_a_tree_follows_no_link(tree: Path) -> None:
    kept = tree.parent / "elsewhere" / "kept"
    kept.write_text("mine")
    tree.joinpath(*STEPS, "link").symlink_to(kept.parent)
    with beneath.open_folder(tree) as folder:
        beneath.remove_entry(folder, "a")
        beneath.remove_entry(folder, "missing")

    assert list(tree.iterdir()) == []
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("depth", range(len(STEPS)))
@pytest.mark.parametrize("call", range(8))
@pytest.mark.usefixtures("disks")
def test_a_swap_before_any_call_moves_nothing_elsewhere(
    tree: Path, monkeypatch: pytest.MonkeyPatch, depth: int, call: int
) -> None:
    (tree / "new").write_text("new")
    swapped = tree.joinpath(*STEPS[: depth + 1])
    calls: list[object] = []
    opened = os.open

    def swaps_first(*given: Any, **more: Any) -> int:
        if len(calls) == call:
            swapped.rename(tree.parent / "moved")
            swapped.symlink_to(tree.parent.joinpath("elsewhere", *STEPS[: depth + 1]))
        calls.append(given)
        return opened(*given, **more)

    with beneath.open_folder(tree) as top, monkeypatch.context() as patch:
        patch.setattr(os, "open", swaps_first)
        with contextlib.suppress(LinkInTheWay):
            with beneath.open_below(top, STEPS, make=beneath.folder_mode) as folder:
                beneath.move_entry(top, "new", folder, "moved")

    assert len(calls) > call or call > len(STEPS)
    assert files(tree.parent / "elsewhere") == []
