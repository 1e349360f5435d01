"""Task files are validated before anything starts."""

import json

import pytest

from kode.errors import ConfigError
from kode.plugins.fleet.tasks import make_tasks, parse_rows
from tests.needs import needs
from tests.plugins.fleet.conftest import git


def tasks(rows, cwd, **flags):
    return make_tasks(parse_rows("\n".join(map(json.dumps, rows)), "tasks.jsonl"), cwd, flags)


def test_a_worktree_is_refused_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="not installed"):
        tasks([{"task": "Fix it", "isolate": "worktree"}], tmp_path)


def test_a_task_starts_at_the_checked_out_commit(repository):
    (one,) = tasks([{"task": "Fix it"}], repository / "part")
    assert (one.id, one.isolate, one.source) == ("1", "clone", str(repository / "part"))
    assert one.base == git(repository, "rev-parse", "HEAD").strip()


def test_a_plain_folder_is_copied(tmp_path):
    (tmp_path / "plain").mkdir()
    (made,) = tasks([{"task": "Fix it", "cwd": "plain"}], tmp_path)
    assert (made.isolate, made.base) == ("copy", "")


def test_a_line_overrides_the_defaults(tmp_path):
    rows = [
        {"task": "a"},
        {"task": "b", "model": "two", "verify": "", "budget_usd": 2, "mode": "auto-edit"},
    ]
    first, second = tasks(rows, tmp_path, mode="plan", verify="make test")
    assert (first.mode, first.verify, first.budget_usd) == ("plan", "make test", None)
    assert (second.mode, second.verify, second.budget_usd) == ("auto-edit", "", 2.0)
    assert second.model == "two"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"task": ""}', "line 1: `task`: String should have at least 1"),
        ('{"prompt": "x"}', "line 1: `task`: Field required"),
        (
            '{"task": "x", "budgt": 1}',
            "`budgt`: Extra inputs are not permitted. The keys",
        ),
        ('{"task": "x", "budget_usd": "much"}', "`budget_usd`: Input should be a valid number"),
        ('{"task": "x", "isolate": "all"}', "should be 'worktree', 'clone', 'copy' or 'none'"),
        ("[1, 2]", "line 1: it must be an object"),
        ("fix the tests", "line 1 is not JSON"),
        ('{"task": "x", "id": "../up"}', "`id`: String should match pattern"),
        ('{"task": "x", "cwd": "nowhere"}', "is not a folder"),
        ('{"task": "x", "mode": "wild"}', "`mode`: Input should be 'ask'"),
        pytest.param(
            '{"task": "x", "isolate": "worktree"}',
            "is not a repository with a commit",
            marks=needs("git"),
        ),
        ('{"task": "x", "id": "A"}\n{"task": "y", "id": "a"}', "Two tasks have the id 'a'"),
        ("\n", "tasks.jsonl has no tasks"),
    ],
)
def test_faults_in_tasks_are_named_before_anything_starts(line, said, tmp_path):
    with pytest.raises(ConfigError) as caught:
        make_tasks(parse_rows(line, "tasks.jsonl"), tmp_path, {})
    assert said in str(caught.value)
