from kode.cli.prompt.reports import context_lines, cost_lines
from kode.cli.screen.lines import cell_width
from kode.messages import Usage
from kode.session.spending import Spending, Spent

USAGE = Usage(input_tokens=12_300, output_tokens=400, cached_tokens=6_150)
PARTS = {"system prompt": 2_000, "tools": 3_000, "shell output": 45_000}


def test_the_window_is_shown_by_kind_with_what_is_free() -> None:
    _, *bars = context_lines(PARTS, 50_000, 200_000, 80)
    assert [line.split("  ")[0].strip() for line in bars] == [
        "system prompt",
        "tools",
        "shell output",
        "free",
    ]
    assert "22.5%" in bars[2]
    assert all(cell_width(line) <= 30 for line in context_lines(PARTS, 50_000, 200_000, 30))


def test_the_table_fits_a_narrow_screen() -> None:
    spent = Spent(requests=2, usage=USAGE, cost_usd=0.5)
    by_model = Spending({"a-model-with-a-very-long-name": spent, "b": spent})
    for width in (10, 40, 60):
        lines = cost_lines({"turn": by_model, "session": by_model, "day": by_model}, width)
        assert all(cell_width(line) <= width for line in lines)
    lines = cost_lines({"turn": by_model, "session": by_model, "day": by_model}, 39)
    assert lines[0].split() == ["in", "out", "cost"]
    assert all(line.endswith(("$1.00", "$0.50")) for line in lines[1:])
