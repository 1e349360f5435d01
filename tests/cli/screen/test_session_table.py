from datetime import UTC, date, datetime, timedelta

from kode.cli.screen.lines import cell_width
from kode.cli.screen.session_table import table, when
from kode.session.index import Summary

TODAY = date(2026, 3, 5)


def summary(**more: object) -> Summary:
    values = {
        "id": "20260305-091500-3fa9c2",
        "updated_at": datetime(2026, 3, 5, 9, 15).astimezone().isoformat(),
        "cwd": "/srv/a-rather-long/path/to/some/project",
        "task": "fix the\ntest 修正する",
        "turns": 12,
        "cost_usd": 1.5,
    }
    return Summary(**{**values, **more})


def test_a_narrow_table_is_cut_and_keeps_the_id() -> None:
    for width in (90, 57, 20):
        _, line = table([summary()], width, today=TODAY)
        assert "20260305-091500-3fa9c2" in line
        assert cell_width(line) <= max(width, 23)


def test_a_damaged_session_says_what_to_do() -> None:
    line = table([summary(damaged=True)], 200, today=TODAY)[1]
    assert "damaged: `kode session check 20260305-091500-3fa9c2`" in line


def test_days_are_told_as_people_do() -> None:
    noon = datetime(2026, 3, 5, 12).astimezone()
    told = [when((noon - timedelta(days=n)).isoformat(), TODAY) for n in (0, 1, 20, 400)]
    assert told == ["today 12:00", "yesterday 12:00", "Feb 13 12:00", "2025-01-29"]
    assert when("nonsense", TODAY) == "?"
    assert when(datetime(2026, 3, 5, 12, tzinfo=UTC).isoformat(), TODAY) != "?"
