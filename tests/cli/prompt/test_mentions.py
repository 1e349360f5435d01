from hypothesis import given
from hypothesis import strategies as st

from kode.cli.prompt.attach import mentions, write_mention
from tests.tables import for_each


@for_each(
    ("text", "names"),
    [
        ("see @src/app.py please", ["src/app.py"]),
        ("see @src/app.py.", ["src/app.py.", "src/app.py"]),
        ('look at @"two words.png" and @b.png', ["two words.png", "b.png"]),
        (r"look at @two\ words.png", ["two words.png"]),
        ("(@a.png)", ["a.png)", "a.png"]),
        ("(in @src/?).", ["src/?).", "src/?)", "src/?", "src/"]),
        ("what is in @.?", [".?", "."]),
        ("mail me@example.org", []),
        ("@a @a", ["a"]),
        ("@", []),
    ],
)
def test_names_in_a_text_are_found_after_an_at_sign(text, names):
    assert mentions(text) == names


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1))
def test_every_printable_name_that_is_written_is_understood(name):
    assert name in mentions(f"see @{write_mention(name)}") or name != name.strip() == ""
