"""Two users on one machine: neither sees, reaches or changes the sessions of the other."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.attacks.jail import REPOSITORY
from tests.e2e.two_users import USERS, secret
from tests.needs import lacking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="makes its users in a jail of namespaces"),
]

LONGEST_S = 600


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    if os.geteuid() != 0:
        lacking("root", "to have two users")
    words = [sys.executable, "-m", "tests.attacks.jail", "--", sys.executable, "-m"]
    done = subprocess.run(
        [*words, "tests.e2e.two_users"],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize("user", USERS)
def test_another_user_finds_nothing_of_a_session(found: dict[str, Any], user: str) -> None:
    # The project is readable to all; what kode keeps and runs is not.
    own = f"/home/{user}/project/a.txt"

    assert found[user]["looks"] == [own]
    assert found[user]["looks afterwards"] == [own]


@pytest.mark.parametrize("user", USERS)
def test_another_users_session_is_not_there(found: dict[str, Any], user: str) -> None:
    for words, (status, out, err) in found[user]["own home"].items():
        assert secret(user) not in out + err
        assert "Traceback" not in err
        assert status == 0 if words.endswith("--json") else status in (1, 3), words


def test_another_users_home_is_refused_by_name(found: dict[str, Any]) -> None:
    for words, (status, out, err) in found["ann"]["her home"].items():
        assert secret("ann") not in out + err
        assert out == "", words
        assert "/home/ann/.kode" in err
        assert "Traceback" not in err
        assert status in (1, 3), words


@pytest.mark.parametrize("user", USERS)
def test_tries_of_another_user_change_nothing(found: dict[str, Any], user: str) -> None:
    seen = found[user]

    assert (seen["state"], seen["answered"], seen["of others"]) == ("asks", 0, [])
    assert seen["file"] == f"two {secret(user)}\n"
