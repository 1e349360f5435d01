"""Where a team's notes are, and what a project is called there."""

import pytest

from kode import paths
from kode.config.model import Notes as Settings
from kode.errors import ConfigError
from kode.plugins.team.address import Address, address_of, project_name


def repository(root, url):
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*\n'
    )
    return root


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:org/api.git",
        "https://github.com/org/api",
        "https://ada:token@GitHub.com/org/api.git/",
        "ssh://git@github.com:22/org/api.git",
        "github.com:org/api.git",
    ],
)
def test_a_project_has_one_name_however_it_was_cloned(tmp_path, url):
    assert project_name(repository(tmp_path, url)) == "github.com/org/api"


def test_a_worktree_is_the_project_it_belongs_to(tmp_path):
    main = repository(tmp_path / "main", "git@github.com:org/api.git")
    own = main / ".git" / "worktrees" / "fix"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    worktree = tmp_path / "fix"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {own}\n")

    assert project_name(worktree) == "github.com/org/api"


@pytest.mark.parametrize("url", ["../elsewhere", "/srv/git/api.git", ""])
def test_a_project_with_no_address_is_its_path(tmp_path, url):
    root = repository(tmp_path, url)

    assert project_name(root) == paths.path_hash(root)
    assert project_name(tmp_path / "none") == paths.path_hash(tmp_path / "none")


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
