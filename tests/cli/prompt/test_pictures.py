import stat

import pytest

from kode.cli.prompt import attach
from kode.cli.prompt.attach import (
    Pastes,
    Picture,
    clipboard_picture,
    mentioned_pictures,
    pasted_pictures,
    read_picture,
)
from tests.pictures import png


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shot.png").write_bytes(png())
    (tmp_path / "two words.png").write_bytes(png(7, 7))
    (tmp_path / "fake.png").write_text("not a picture")
    (tmp_path / "notes.txt").write_text("text")
    return tmp_path


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("{}/shot.png", "shot.png"),
        ("shot.png\n", "shot.png"),
        ("'{}/two words.png'", "two words.png"),
        ("{}/two\\ words.png ", "two words.png"),
        ("{}/two words.png", "two words.png"),
        ("file://{}/two%20words.png", "two words.png"),
    ],
)
def test_a_path_that_is_pasted_or_dropped_is_a_picture(folder, written, name):
    assert [p.name for p in pasted_pictures(written.format(folder), folder)] == [name]


def test_several_that_are_dropped_together_are_all_taken(folder):
    dropped = f"{folder}/shot.png '{folder}/two words.png' "

    assert [p.name for p in pasted_pictures(dropped, folder)] == ["shot.png", "two words.png"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "see shot.png",
        "shot.png\nand more",
        "fake.png",
        "notes.txt",
        "gone.png",
        "shot.png notes.txt",
        "'shot.png",
    ],
)
def test_any_other_paste_is_text(folder, text):
    assert pasted_pictures(text, folder) == []


def test_pictures_named_after_an_at_sign_go_along_once(folder):
    text = 'compare @shot.png, @"two words.png" and @notes.txt with @shot.png.'

    assert [p.name for p in mentioned_pictures(text, folder)] == ["shot.png", "two words.png"]


def test_a_picture_in_the_line_is_found_by_its_words():
    pastes = Pastes()
    one, other = Picture("a.png", b"1"), Picture("a.png", b"2")

    line = f"see {pastes.add_picture(one)} and {pastes.add_picture(other)}"

    assert line == "see [image a.png] and [image a.png, #2]"
    assert pastes.pictures_in(line) == [one, other]
    assert pastes.pictures_in("see [image a.png, #2]") == [other]
    assert pastes.unfold(line) == line


def test_a_large_file_is_not_read_whole(folder, monkeypatch):
    monkeypatch.setattr("kode.images.MAX_READ_BYTES", 50)

    picture = read_picture(folder / "shot.png")

    assert picture is not None
    assert len(picture.data) == 51


@pytest.fixture
def clipboard(tmp_path, monkeypatch):
    """A clipboard program that runs a shell command."""

    def set_up(command):
        program = tmp_path / "bin" / "xclip"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
        monkeypatch.setenv("DISPLAY", ":0")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)

    return set_up


def test_the_picture_in_the_clipboard_is_taken(folder, clipboard):
    clipboard(f'[ "$*" = "-selection clipboard -target image/png -out" ] && cat {folder}/shot.png')

    assert clipboard_picture() == (Picture("clipboard.png", png()), "")


@pytest.mark.parametrize("command", ["exit 1", "echo text"])
def test_a_clipboard_without_a_picture_is_told(clipboard, command):
    clipboard(command)

    picture, why_not = clipboard_picture()

    assert picture is None
    assert why_not


def test_a_clipboard_that_hangs_is_given_up(clipboard, monkeypatch):
    monkeypatch.setattr(attach, "CLIPBOARD_TIMEOUT_S", 0.2)
    clipboard("exec sleep 60")

    picture, why_not = clipboard_picture()

    assert picture is None
    assert "did not answer" in why_not


def test_a_missing_clipboard_program_leads_to_other_ways(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    picture, why_not = clipboard_picture()

    assert picture is None
    assert "name it after @" in why_not
