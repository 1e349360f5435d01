from kode.cli.prompt.overview import advice, context_lines, cost_lines
from kode.cli.screen.lines import cell_width
from kode.engine.window import Window
from kode.messages import Usage
from kode.session.spending import Spent

USAGE = Usage(input_tokens=12_300, output_tokens=400, cached_tokens=6_150)
WINDOW = Window(
    size=200_000,
    used=50_000,
    parts=(("system prompt", 2_000), ("tools", 3_000), ("shell output", 45_000)),
    by_compaction=30_000,
    makes_room_at=160_000,
)


def test_the_window_is_shown_by_kind_with_what_is_free() -> None:
    head, *bars = context_lines(WINDOW, 80)
    assert head == "50k of 200k tokens are used (25%)."
    assert [line.split("  ")[0].strip() for line in bars] == [
        "system prompt",
        "tools",
        "shell output",
        "free",
    ]
    assert "22.5%" in bars[2]
    assert all(cell_width(line) <= 30 for line in context_lines(WINDOW, 30))


def test_the_advice_says_how_much_compaction_frees() -> None:
    text = "\n".join(advice(WINDOW))
    assert "Compacts automatically at 160k tokens." in text
    assert "/compact would free about 30k tokens" in text


def test_several_models_get_a_line_each_and_a_sum() -> None:
    dear = Spent(requests=2, usage=USAGE, cost_usd=0.5)
    local = Spent(requests=1, usage=USAGE, unpriced=1)
    lines = cost_lines(
        {"turn": {"dear": dear}, "session": {"dear": dear, "local": local}, "day": {}}, 80
    )
    assert lines == [
        "                     requests     in  cached  out    cost",
        "last turn · dear            2  12.3k     50%  400   $0.50",
        "this session                3  24.6k     50%  800  $0.50+",
        "  dear                      2  12.3k     50%  400   $0.50",
        "  local                     1  12.3k     50%  400       ?",
        "today, all sessions         0      0       -    0   $0.00",
        "+ the cost of local: the price is unknown (`prices` sets it).",
    ]


def test_tokens_of_thinking_have_a_column_where_there_are_any() -> None:
    usage = Usage(input_tokens=12_300, output_tokens=4_000, thinking_tokens=3_500)
    spent = {"m": Spent(requests=1, usage=usage, cost_usd=0.5)}
    lines = cost_lines({"turn": spent, "session": spent, "day": spent}, 80)
    assert lines[0].split()[-3:] == ["out", "thinking", "cost"]
    assert lines[1].split()[-3:] == ["4k", "3.5k", "$0.50"]


def test_the_table_fits_a_narrow_screen() -> None:
    spent = Spent(requests=2, usage=USAGE, cost_usd=0.5)
    by_model = {"a-model-with-a-very-long-name": spent, "b": spent}
    for width in (10, 40, 60):
        lines = cost_lines({"turn": by_model, "session": by_model, "day": by_model}, width)
        assert all(cell_width(line) <= width for line in lines)
    lines = cost_lines({"turn": by_model, "session": by_model, "day": by_model}, 39)
    assert lines[0].split() == ["in", "out", "cost"]
    assert all(line.endswith(("$1.00", "$0.50")) for line in lines[1:])
