"""Money that several kodes spend together."""

from pathlib import Path

import pytest

from kode.errors import KodeError
from kode.shared_budget import SharedBudget
from tests.tables import for_each


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.jsonl"


def test_one_agents_spending_shows_before_anothers_next_request(path: Path) -> None:
    one, other = (SharedBudget(path, by=name) for name in ("one", "other"))
    one.set_limit(1.0)
    one.add(0.6)
    other.check()
    other.add(0.5)
    with pytest.raises(KodeError, match=r"\$1 .* \(\$1.1000 spent"):
        one.check()
    assert one.spent_by == {"one": 0.6, "other": 0.5}
    SharedBudget(path).set_limit(2.0)  # counts for those that run
    one.check()
    assert one.limit_usd == 2.0
    # A doubled record is counted once, and one that only looks adds nothing.
    path.write_bytes(path.read_bytes() * 2)
    looking = SharedBudget(path, only_looks=True)
    looking.add(1.0)
    looking.check()
    assert looking.spent_usd == pytest.approx(1.1)


def test_a_half_written_line_is_read_once_whole(path: Path) -> None:
    path.write_bytes(b'{"limit_usd": 1.0}\n{"spent_usd": 0.25, "by"')
    budget = SharedBudget(path)
    budget.refresh()
    assert budget.spent_usd == 0.0
    path.write_bytes(path.read_bytes() + b': "one"}\nno money\n')
    budget.refresh()
    assert budget.spent_usd == 0.25


ODD = ["NaN", "Infinity", "-1", '"much"', "null", "[]", "9" * 5000, "[" * 3000 + "]" * 3000]


@for_each("amount", ODD)
def test_an_invalid_amount_changes_nothing(amount: str, path: Path) -> None:
    lines = [f'{{"{name}": {amount}, "by": "one"}}\n' for name in ("limit_usd", "spent_usd")]
    path.write_text('{"limit_usd": 1.0}\n' + "".join(lines))
    budget = SharedBudget(path)
    budget.refresh()
    assert (budget.limit_usd, budget.spent_usd) == (1.0, 0.0)
    assert "is damaged" in budget.explain_stop()


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped"])
def test_a_damaged_record_lets_nothing_more_be_spent(path: Path, damage: str) -> None:
    one = SharedBudget(path, by="one")
    one.set_limit(1.0)
    one.add(0.5)
    whole = path.read_bytes()
    lines = {"cut": whole.splitlines(keepends=True)[0], "emptied": b""}
    path.write_bytes(lines.get(damage, whole.replace(b"1.0", b"9.0")))

    other = SharedBudget(path)
    with pytest.raises(KodeError):
        other.check()
    SharedBudget(path).set_limit(3.0)
    other.check()
