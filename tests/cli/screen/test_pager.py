from kode.cli.screen.screen import pager_command


def test_less_begins_where_the_newest_is(monkeypatch, tmp_path):
    for name in ("less", "most"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PAGER", raising=False)

    assert pager_command(7) == [str(tmp_path / "less"), "+7g"]
    monkeypatch.setenv("PAGER", "most -s")
    assert pager_command(7) == [str(tmp_path / "most"), "-s"]


def test_no_pager_is_used_where_none_is_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PAGER", raising=False)

    assert pager_command() is None
    monkeypatch.setenv("PAGER", "it's broken")
    assert pager_command() is None
