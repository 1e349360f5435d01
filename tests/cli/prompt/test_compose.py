import os
import stat

import pytest

from kode.cli.prompt.compose import editor_command


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH with these programs and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(*names):
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(stat.S_IRWXU)

    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    return make


def named(command):
    """A command with the program's name in place of its path."""
    return [os.path.basename(command[0]), *command[1:]]


def test_visual_comes_before_editor_and_may_have_arguments(programs, monkeypatch):
    programs("code", "nano")
    monkeypatch.setenv("VISUAL", "code --wait")
    monkeypatch.setenv("EDITOR", "nano")

    command, hint = editor_command()

    assert (named(command), hint) == (["code", "--wait"], "")


def test_a_common_editor_is_used_silently_where_none_is_set(programs):
    programs("vi", "vim")

    command, hint = editor_command()

    assert (named(command), hint) == (["vim"], "")


@pytest.mark.parametrize("value", ["emacs-27 -nw", "'"])
def test_a_variable_that_names_nothing_is_said(programs, monkeypatch, value):
    programs("vi")
    monkeypatch.setenv("EDITOR", value)

    command, hint = editor_command()

    assert named(command) == ["vi"]
    assert "$EDITOR" in hint
    assert value in hint


def test_a_missing_editor_leads_to_the_next_step(programs):
    command, hint = editor_command()

    assert command is None
    assert hint.endswith("Set $EDITOR to yours.")
