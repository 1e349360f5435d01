import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kode.messages import Text, Usage
from kode.session import upkeep
from kode.session.entries import MessageEntry, UsageEntry, timestamp
from kode.session.spending import Spending
from tests.session.stories import story

NOW = datetime(2026, 1, 2, 15, tzinfo=UTC)
MIDNIGHT = NOW.replace(hour=0)


def replied(model: str, cost_usd: float | None, at: datetime = NOW) -> MessageEntry:
    return MessageEntry(
        role="assistant",
        parts=(Text(text="a" * 70_000),),
        stop="end",
        usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=50),
        model=model,
        cost_usd=cost_usd,
        at=timestamp(at.timestamp()),
    )


def test_spending_is_told_by_model_the_dearest_first() -> None:
    entries = [replied("cheap", 0.01), replied("dear", 1.0), replied("local", None)]
    extra = UsageEntry(purpose="memory", usage=Usage(input_tokens=5), cost_usd=0.5, model="dear")
    spending = Spending.of([*entries, extra])
    assert list(spending) == ["dear", "cheap", "local"]
    assert (spending["dear"].requests, spending["dear"].cost_usd) == (2, 1.5)
    assert (spending["local"].cost_usd, spending["local"].unpriced) == (0.0, 1)
    assert spending.total.usage.input_tokens == 305


def since_midnight(home: Path) -> Spending:
    return Spending.of(entry for *_, entry in Spending.requests_by_folder(home, MIDNIGHT))


def test_a_day_has_what_all_sessions_took_since_midnight(tmp_path: Path) -> None:
    yesterday = NOW - timedelta(days=1)
    story(tmp_path, replied("m", 1.0, yesterday), replied("m", 0.25), replied("n", 0.5))
    upkeep.fork_session(tmp_path, story(tmp_path, replied("m", 0.125)).header.id)  # counts once
    story(tmp_path, replied("m", 9.0, yesterday))

    spending = since_midnight(tmp_path)

    assert {model: spent.cost_usd for model, spent in spending.items()} == {"n": 0.5, "m": 0.375}


def test_a_file_that_has_not_changed_since_is_not_opened(tmp_path: Path) -> None:
    os.utime(story(tmp_path, replied("m", 0.25)).path, (0, 0))
    assert since_midnight(tmp_path) == {}


def test_a_damaged_line_or_time_hides_no_earlier_request(tmp_path: Path) -> None:
    session = story(tmp_path, replied("m", 0.25), replace(replied("m", 8), at="?"))
    with session.path.open("ab") as file:
        file.write(b'{"type":"message","usage":{\n{"type":"message","usage":{}}\n\xff\n')
    assert since_midnight(tmp_path).total.cost_usd == 0.25
