import os

import pytest
from hypothesis import given, strategies as st

from kode.cli.prompt import attach
from kode.cli.prompt.attach import (
    Pastes,
    Picture,
    clipboard_picture,
    find_mentions,
    format_mention,
    read_mentioned,
)
from tests.pictures import png
from tests.tables import for_each

SEVEN = "\n".join(f"line {n}" for n in range(7))


@for_each(
    ("text", "names"),
    [
        ("see @src/app.py please", ["src/app.py"]),
        ("see @src/app.py.", ["src/app.py.", "src/app.py"]),
        ('look at @"two words.png" and @b.png', ["two words.png", "b.png"]),
        (r"look at @two\ words.png", ["two words.png"]),
        ("(in @src/?).", ["src/?).", "src/?)", "src/?", "src/"]),
        ("what is in @.?", [".?", "."]),
        ("mail me@example.org", []),
        ("@a @a", ["a"]),
        ("@", []),
    ],
)
def test_names_in_a_text_stand_after_an_at_sign(text, names):
    assert find_mentions(text) == names


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1))
def test_every_printable_name_that_is_written_is_understood(name):
    assert name in find_mentions(f"see @{format_mention(name)}") or name != name.strip() == ""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "shot.png").write_bytes(png())
    (tmp_path / "two words.png").write_bytes(png(7, 7))
    os.mkfifo(tmp_path / "pipe.png")  # nobody waits for it
    return tmp_path


def test_pictures_named_after_an_at_sign_go_along_once(project):
    text = 'compare @shot.png, @"two words.png", @pipe.png and @notes.txt with @shot.png.'

    names = [picture.name for picture in read_mentioned(text, project)]

    assert names == ["shot.png", "two words.png"]


def test_a_picture_stands_in_the_line_as_its_words():
    pastes = Pastes()
    first, second = Picture("a.png", b"1"), Picture("a.png", b"2")

    line = f"see {pastes.add_picture(first)} and {pastes.add_picture(second)}"

    assert line == "see [image a.png] and [image a.png, #2]"
    assert pastes.pictures_in(line) == [first, second]
    assert pastes.unfold(line) == line


@pytest.fixture
def clipboard(tmp_path, monkeypatch):
    """A clipboard program that runs a shell command."""

    def set_up(command):
        program = tmp_path / "bin" / "xclip"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
        monkeypatch.setenv("DISPLAY", ":0")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)

    return set_up


def test_the_picture_in_the_clipboard_is_taken(project, clipboard):
    clipboard(f'[ "$*" = "-selection clipboard -target image/png -out" ] && cat {project}/shot.png')

    assert clipboard_picture() == (Picture("clipboard.png", png()), "")


@for_each(
    ("command", "reason"),
    [("echo text", "no image"), ("exec sleep 60", "did not answer"), ("", "")],
)
def test_a_clipboard_without_a_picture_has_a_reason(clipboard, monkeypatch, command, reason):
    monkeypatch.setattr(attach, "CLIPBOARD_TIMEOUT_S", 0.2)
    if command:
        clipboard(command)
    else:
        monkeypatch.setenv("PATH", "/nowhere")

    picture, why_not = clipboard_picture()

    assert picture is None
    assert reason in why_not


def test_a_long_paste_is_folded_and_whole_again_when_sent():
    pastes = Pastes()
    other = SEVEN.upper()

    line = f"see {pastes.fold(SEVEN)}, {pastes.fold(SEVEN)} and {pastes.fold(other)}"

    assert line == "see [pasted 7 lines], [pasted 7 lines] and [pasted 7 lines, #2]"
    assert pastes.unfold(line) == f"see {SEVEN}, {SEVEN} and {other}"
    assert pastes.fold("one\ntwo") == "one\ntwo"
    assert pastes.fold("x" * 1000) == "[pasted 1,000 characters]"
