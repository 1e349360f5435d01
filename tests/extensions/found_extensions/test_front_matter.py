import contextlib

from hypothesis import given, strategies as st

from kode.extensions.definitions import parse_document as read
from tests.tables import for_each

EXAMPLE = 'Use it: when\n<example>\nContext: it fails\nuser: "fix: it"\n</example>\n'
HOOKS = "hooks:\n  Stop:\n    - command: >-\n        run\n        it\n"


@for_each(
    ("head", "fields"),
    [
        ("name: x\nn: 3\ntools: [Read, Grep]\n", {"name": "x", "n": "3", "tools": "Read, Grep"}),
        ("nothing:\n", {"nothing": "", "missing": ""}),
        # What is no YAML stays readable.
        ('t: a: b\nname: a\ncolor: Use "b": c\n', {"name": "a", "color": 'Use "b": c'}),
        (
            f"argument-hint: [a] [b]\n{HOOKS}model: opus\n",
            {"argument-hint": "[a] [b]", "model": "opus"},
        ),
        (f"description: {EXAMPLE}tools: Read\n", {"description": EXAMPLE.strip(), "tools": "Read"}),
    ],
)
def test_fields_are_read_as_leniently_as_elsewhere(head: str, fields: dict[str, str]) -> None:
    document = read(f"---\n{head}user-invocable: yes\n---\nbody\n")
    assert {name: document.text(name) for name in fields} == fields
    assert document.text("user-invocable") in ("true", "yes")
    assert document.body == "body"


def test_aliases_cannot_make_a_text_that_fills_the_memory() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))
    document = read(f"---\na0: &a0 [x, x]\n{levels}\n---\nbody")
    assert document.text("a29") == ""


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nbody"):
        with contextlib.suppress(ValueError):
            read(whole)
