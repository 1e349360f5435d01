from pathlib import Path

import pytest

from kode.plugins.checkers.syntax import syntax_error


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", "x = 1\ndef plus(a, b:\n    return a\n", 2),
        ("a.py", "if x:\ny = 1\n", 2),
        ("a.pyi", "def f(: ...\n", 1),
        ("a.json", '{"a": 1,\n "b": 2\n "c": 3}', 3),
        ("n.ipynb", '{"cells": [}', 1),
        ("a.toml", "[a]\nx = \n", 2),
        ("a.yaml", "a: 1\nb: [1, 2\nc: 3\n", 3),
        ("a.yml", "a: 1\n\tb: 2\n", 2),
        ("a.js", "let a = 1;\nfoo(1;\n", 2),
        ("a.mjs", "function f() {\n  return 1;\n", 2),
        ("a.jsx", "const a = <div>;\n", 1),
    ],
)
def test_the_line_of_the_first_error_is_named(name: str, text: str, line: int) -> None:
    assert f"line {line}" in syntax_error(Path(name), text.encode())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "\ufeffx = 1\n"),
        ("a.py", 'x = "\\d"\n'),
        ("a.py", ""),
        ("a.json", ""),
        ("tsconfig.json", '{\n  // why\n  "a": 1,\n}'),
        ("a.toml", "x = 1\n"),
        ("a.yaml", "a: !Ref b\n---\nc: 1\n"),
        ("deploy.yaml", "{{- if .x }}\na: {{ .b }}\n{{- end }}\n"),
        ("a.js", "#!/usr/bin/env node\nclass A { #x = 1 }\nconst y = a?.b ?? `${c}`;\n"),
        ("a.jsx", "const a = <div a={1}>x</div>;\n"),
        ("a.md", "def f(:"),
        ("a.json", "[" * 100_000),
    ],
)
def test_valid_and_unjudgeable_files_are_not_accused(name: str, text: str) -> None:
    assert syntax_error(Path(name), text.encode()) == ""


def test_bytes_that_are_no_text_are_not_judged() -> None:
    assert syntax_error(Path("a.py"), b"# caf\xe9\nx = (\n") == ""
