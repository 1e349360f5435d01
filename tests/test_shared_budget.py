"""Money that several kodes spend together."""

from pathlib import Path

import pytest

from kode.errors import LimitError
from kode.shared_budget import SharedBudget


def test_one_agents_spending_shows_before_anothers_next_request(tmp_path: Path) -> None:
    one, other = (SharedBudget(tmp_path / "spent.jsonl", by=name) for name in ("one", "other"))
    one.set_limit(1.0)
    one.add(0.6)
    other.check()
    other.add(0.5)
    with pytest.raises(LimitError, match=r"\$1 is used up \(\$1.1000 spent"):
        one.check()
    assert one.spent_by == {"one": 0.6, "other": 0.5}


def test_a_higher_limit_counts_for_those_that_run(tmp_path: Path) -> None:
    path = tmp_path / "spent.jsonl"
    budget = SharedBudget(path)
    budget.set_limit(1.0)
    budget.add(1.0, "one")
    SharedBudget(path).set_limit(2.0)
    budget.check()
    assert budget.limit_usd == 2.0


def test_a_half_written_line_is_read_once_whole(tmp_path: Path) -> None:
    path = tmp_path / "spent.jsonl"
    path.write_bytes(b'{"limit_usd": 1.0}\n{"spent_usd": 0.25, "by"')
    budget = SharedBudget(path)
    budget.refresh()
    assert budget.spent_usd == 0.0
    path.write_bytes(path.read_bytes() + b': "one"}\nno money\n')
    budget.refresh()
    assert budget.spent_usd == 0.25


NO_AMOUNTS = ["NaN", "Infinity", "-1", '"much"', "null", "[]", "9" * 400, "9" * 5000]


@pytest.mark.parametrize("amount", [*NO_AMOUNTS, "[" * 3000 + "]" * 3000], ids=lambda it: it[:9])
def test_an_invalid_amount_changes_nothing(amount: str, tmp_path: Path) -> None:
    path = tmp_path / "spent.jsonl"
    path.write_text('{"limit_usd": 1.0}\n')
    for name in ("limit_usd", "spent_usd"):
        with path.open("a") as file:
            file.write(f'{{"{name}": {amount}, "by": "one"}}\n')
    budget = SharedBudget(path)
    budget.refresh()
    assert (budget.limit_usd, budget.spent_usd, budget.damaged) == (1.0, 0.0, 2)
    assert budget.stopped()
    budget.set_limit(2.0)
    budget.check()


def test_one_that_only_looks_adds_nothing(tmp_path: Path) -> None:
    budget = SharedBudget(tmp_path / "spent.jsonl", only_looks=True)
    budget.add(1.0)
    assert not budget.path.exists()


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped"])
def test_a_damaged_record_lets_nothing_more_be_spent(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "spent.jsonl"
    one = SharedBudget(path, by="one")
    one.set_limit(1.0)
    one.add(0.5)
    whole = path.read_bytes()
    lines = {"cut": whole.splitlines(keepends=True)[0], "emptied": b""}
    path.write_bytes(lines.get(damage, whole.replace(b"1.0", b"9.0")))

    other = SharedBudget(path)
    with pytest.raises(LimitError):
        other.check()
    one.add(0.1)
    with pytest.raises(LimitError):
        SharedBudget(path).check()
    SharedBudget(path).set_limit(3.0)
    other.check()


def test_a_doubled_record_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "spent.jsonl"
    one = SharedBudget(path, by="one")
    one.set_limit(1.0)
    one.add(0.5)
    path.write_bytes(path.read_bytes() * 2)

    other = SharedBudget(path)
    other.check()
    assert other.spent_usd == 0.5
