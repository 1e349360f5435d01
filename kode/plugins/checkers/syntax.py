"""Finds the first syntax error in Python, JSON, TOML, YAML and JavaScript, with nothing installed.

For files that no checker of the machine covers; see `diagnostics`.
"""

import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from kode.plugin.messages import shorten

_COMMENT = re.compile(r"^\s*(//|/\*)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|\{%")
MAX_SHOWN_CHARS = 60  # one line beside its place


def syntax_error(path: Path, data: bytes) -> str:
    """The first error, as `line 3: '(' was never closed`; "" for none, for other languages, and for
    a text that cannot be judged."""
    find = FINDERS.get(path.suffix)
    if find is None:
        return ""
    try:
        return find(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, RecursionError, MemoryError):
        return ""


def _python(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "", "exec", flags=0x400, dont_inherit=True)  # ast.PyCF_ONLY_AST
    except SyntaxError as error:
        # Of which Python it is an error: the project's may be newer.
        version = ".".join(map(str, sys.version_info[:2]))
        return f"line {error.lineno or 1}: {error.msg} (as Python {version} reads it)"
    except ValueError as error:  # a NUL
        return f"line 1: {error}"
    return ""


def _json(text: str) -> str:
    try:
        json.loads(text or "null")
    except json.JSONDecodeError as error:
        # Comments are meant: it is the JSON of some tool that takes them.
        return "" if _COMMENT.search(text) else f"line {error.lineno}: {error.msg}"
    return ""


def _toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return ""


def _yaml(text: str) -> str:
    import yaml

    if _TEMPLATE.search(text):
        return ""
    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return f"line {mark.line + 1 if mark else 1}: {error.problem or error.context}"
    except yaml.YAMLError as error:
        return f"line 1: {shorten(str(error), 200)}"
    return ""


def _javascript(text: str) -> str:
    import tree_sitter_javascript
    from tree_sitter import Language, Parser

    data = text.encode()
    node = Parser(Language(tree_sitter_javascript.language())).parse(data).root_node
    if not node.has_error:
        return ""
    while not (node.is_error or node.is_missing):
        node = next(child for child in node.children if child.has_error or child.is_missing)
    line = node.start_point[0] + 1
    if node.is_missing:
        return f"line {line}: `{node.type}` is missing"
    shown = shorten(data[node.start_byte : node.end_byte].decode(errors="replace"), MAX_SHOWN_CHARS)
    return f"line {line}: syntax error at `{shown}`"


FINDERS: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys((".py", ".pyi"), _python),
    **dict.fromkeys((".json", ".ipynb"), _json),
    ".toml": _toml,
    **dict.fromkeys((".yaml", ".yml"), _yaml),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _javascript),
}
"""Suffix → finds the first error in a text."""
