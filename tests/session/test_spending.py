from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kode.messages import Message, Text, Usage, user_message
from kode.session import log, upkeep
from kode.session.entries import MessageEntry, UsageEntry
from kode.session.spending import Spending, last_turn, spending_since

NOW = datetime(2026, 1, 2, 15, tzinfo=UTC)


def replied(model: str, cost_usd: float | None, at: datetime = NOW) -> MessageEntry:
    return MessageEntry(
        role="assistant",
        parts=(Text(text="a" * 70_000),),
        stop="end",
        usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=50),
        model=model,
        cost_usd=cost_usd,
        at=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )


def session(home: Path, *entries: MessageEntry | UsageEntry) -> str:
    made = log.create(home, cwd=home, model="m", provider="openai")
    made.append_message(user_message("hi"))
    made.append(*entries)
    made.close()
    return made.header.id


def test_spending_is_told_by_model_the_dearest_first() -> None:
    entries = [replied("cheap", 0.01), replied("dear", 1.0), replied("local", None)]
    extra = UsageEntry(purpose="memory", usage=Usage(input_tokens=5), cost_usd=0.5, model="dear")
    found = Spending.of([*entries, extra])
    assert list(found) == ["dear", "cheap", "local"]
    assert (found["dear"].requests, found["dear"].cost_usd) == (2, 1.5)
    assert (found["local"].cost_usd, found["local"].unpriced) == (0.0, 1)
    assert found.total.usage.input_tokens == 305


def test_the_last_turn_begins_with_what_the_person_asked_last() -> None:
    asked = MessageEntry(role="user", parts=(Text(text="hi"),))
    entries = [asked, replied("a", 0.1), asked, replied("b", 0.2)]
    assert list(Spending.of(last_turn(entries))) == ["b"]
    assert last_turn([]) == []


def test_a_day_has_what_all_sessions_took_since_midnight(tmp_path: Path) -> None:
    yesterday = NOW - timedelta(days=1)
    session(tmp_path, replied("m", 1.0, yesterday), replied("m", 0.25), replied("n", 0.5))
    session(tmp_path, replied("m", 0.125))
    session(tmp_path, replied("m", 9.0, yesterday))

    found = spending_since(tmp_path, NOW.replace(hour=0))

    assert {model: spent.cost_usd for model, spent in found.items()} == {"n": 0.5, "m": 0.375}


def test_copied_entries_of_a_fork_count_once(tmp_path: Path) -> None:
    old = session(tmp_path, replied("m", 0.25))
    upkeep.fork(tmp_path, old)
    assert spending_since(tmp_path, NOW.replace(hour=0)).total.cost_usd == 0.25


def test_a_file_that_has_not_changed_since_is_not_opened(tmp_path: Path) -> None:
    import os

    old = session(tmp_path, replied("m", 0.25))
    path = tmp_path / "sessions" / f"{old}.jsonl"
    os.utime(path, (0, 0))
    path.chmod(0)
    assert spending_since(tmp_path, NOW.replace(hour=0)) == {}


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    old = session(tmp_path, replied("m", 0.25))
    with (tmp_path / "sessions" / f"{old}.jsonl").open("ab") as file:
        file.write(b'{"type":"message","usage":{\n{"type":"message","usage":{}}\n\xff\n')
    assert spending_since(tmp_path, NOW.replace(hour=0)).total.cost_usd == 0.25


def test_a_time_that_cannot_be_read_hides_no_earlier_request(tmp_path: Path) -> None:
    session(tmp_path, replied("m", 0.25), replace(replied("m", 8), at="?"))
    assert spending_since(tmp_path, NOW.replace(hour=0)).total.cost_usd == 0.25


def test_a_session_keeps_each_cost_and_knows_unpriced_requests(tmp_path: Path) -> None:
    made = log.create(tmp_path, cwd=tmp_path, model="m", provider="openai")
    answer = Message(role="assistant", parts=(), usage=Usage(input_tokens=1), model="m")
    made.append_message(answer, 0.5)
    assert not made.unpriced
    made.append_message(answer)
    made.close()
    again, _ = log.load(tmp_path, made.header.id)
    assert again.unpriced
    assert [e.cost_usd for e in again.entries if isinstance(e, MessageEntry)] == [0.5, None]
    again.close()
