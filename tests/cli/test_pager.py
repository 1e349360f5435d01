from kode.cli.pager import pager_command


def test_less_begins_where_the_newest_is(monkeypatch, tmp_path):
    for name in ("less", "most"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PAGER", raising=False)

    assert pager_command(7) == ["less", "+7g"]
    monkeypatch.setenv("PAGER", "most -s")
    assert pager_command(7) == ["most", "-s"]


def test_without_a_pager_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PAGER", raising=False)

    assert pager_command() is None
    monkeypatch.setenv("PAGER", "it's broken")
    assert pager_command() is None
