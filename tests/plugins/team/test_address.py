"""Where a team's notes are."""

import pytest

from kode.config.model import Notes as Settings
from kode.errors import ConfigError
from kode.plugins.team.server import TeamLog, open_log


def test_each_server_person_and_team_has_its_own_key():
    people, rest = ("ada@", "bob@"), ("db/kode", "other/kode", "db:6432/kode", "db/x", "/x?host=/y")
    urls = [f"postgresql://{person}{place}" for person in people for place in rest]
    keys = {TeamLog(url, team, "h").key for url in urls for team in ("platform", "rivals")}
    address = TeamLog("postgresql://ada:geheim@db/kode?sslmode=require", "platform", "h")

    assert len(keys) == 2 * len(urls)
    assert address.key in keys
    assert address.label == "platform on db/kode"


def test_an_address_that_cannot_be_read_is_not_quoted():
    with pytest.raises(ConfigError) as fault:
        open_log(Settings(url="postgresql://ada:pa/ss@db/kode"))

    assert "percent-encoded" in str(fault.value)
    assert "pa/ss" not in str(fault.value)
