import pytest

from kode.errors import ToolError
from kode.tools.file_search import matches
from tests.tables import for_each


@for_each(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/y/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/*.py", "y/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "x/a.py", False),
        ("./src/a?.py", "src/ab.py", True),
        ("src/**", "src/x/y", True),
        ("**/x/*", "a/x/b", True),
        ("*.{js,ts{,x}}", "a.tsx", True),
        ("*.{js,ts{,x}}", "a.jsx", False),
        ("[!a]*", "b", True),
        ("[!a]*", "abc", False),
        ("[a-c]x", "bx", True),
        ("!*.py", "a.py", False),
        ("!*.py", "a.js", True),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        (".*", ".env", True),
    ],
)
def test_a_glob_means_what_it_does_elsewhere(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("pattern", ["*.{a", "[a", "{1,2}" * 12])
def test_an_invalid_glob_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="is not a glob"):
        matches(pattern, "x")
