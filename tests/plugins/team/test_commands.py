"""`kode memory team`: making a team and joining it."""

import pytest

from kode.cli.main import main

pytestmark = pytest.mark.slow


@pytest.fixture
def kode(team, monkeypatch, capsys, tmp_path):
    """A command line of a person, in a home of their own; what it printed on both streams."""
    monkeypatch.chdir(tmp_path)

    def run(person, *argv, name="platform"):
        monkeypatch.setenv("KODE_HOME", str(tmp_path / f"home-{person}"))
        monkeypatch.setenv("KODE_MEMORY", "notes")
        monkeypatch.setenv("KODE_NOTES_URL", team.url(person))
        monkeypatch.setenv("KODE_NOTES_TEAM", name)
        code = main(["memory", *argv])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_four_commands_make_a_team_and_share_a_note(kode):
    first = kode("owner", "team", "init", name="new")
    again = kode("owner", "team", "init", name="new")
    admitted = kode("owner", "team", "admit", "eve", name="new")
    kode("owner", "add", "note", "the zebra stands in the cellar", name="new")

    code, out, _ = kode("eve", "search", "zebra", name="new")

    assert first[0] == again[0] == admitted[0] == 0
    assert "is ready" in first[1]
    assert "eve sees and writes all of new" in admitted[1]
    assert (code, "the zebra stands in the cellar" in out) == (0, True)


def test_the_owner_sees_all_members_and_others_only_themselves(kode):
    assert "ada: all\n  bob: all" in kode("owner", "team")[1]
    assert "ada" not in kode("bob", "team")[1]
    assert kode("owner", "team", "admit")[0] == 3
    assert "take no person" in kode("owner", "team", "init", "eve")[2]


@pytest.mark.parametrize("password", ["Tr0ub4dor-and-3", "ada"])
def test_no_password_is_shown_where_settings_are(kode, monkeypatch, capsys, password):
    kode("ada", "status")
    monkeypatch.setenv("KODE_NOTES_URL", f"postgresql://ada:{password}@127.0.0.1:9/kode")
    capsys.readouterr()
    for argv in (["config", "show"], ["doctor"], ["memory", "status"], ["memory", "team"]):
        main(argv)

    printed = "".join(capsys.readouterr())
    assert f":{password}" not in printed
    assert "platform on 127.0.0.1:9/kode" in printed
    assert "cannot be reached" in printed
