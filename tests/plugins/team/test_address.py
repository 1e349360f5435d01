"""Where a team's notes are."""

import pytest

from kode.config.model import Notes as Settings
from kode.errors import ConfigError
from kode.plugins.team.address import Address, address_of


def test_each_server_person_and_team_has_its_own_copy():
    urls = [
        "postgresql://ada@db/kode",
        "postgresql://bob@db/kode",
        "postgresql://ada@other/kode",
        "postgresql://ada@db:6432/kode",
        "postgresql://ada@db/other",
        "postgresql://ada@/kode?host=/tmp/one",
    ]
    keys = {Address(url, team, "h").key for url in urls for team in ("platform", "rivals")}

    assert len(keys) == 2 * len(urls)
    label = Address("postgresql://ada:geheim@db.example:6432/kode?sslmode=require", "t", "h").label
    assert label == "t on db.example:6432/kode"
    one, other = (f"postgresql://ada:{word}@db/kode" for word in ("before", "after"))
    assert Address(one, "t", "h").key == Address(other, "t", "h").key


def test_an_address_that_cannot_be_read_is_not_quoted():
    with pytest.raises(ConfigError) as fault:
        address_of(Settings(url="postgresql://ada:pa/ss@db/kode"))

    assert "percent-encoded" in str(fault.value)
    assert "pa/ss" not in str(fault.value)
