"""After an edit: reports new errors found by the language's checker to the model.

Checkers are those on the machine or in the project's own environment. They run in the sandbox like
every unapproved command, on the text before and after, which they get on stdin. Where none covers
the file, kode itself looks for the first syntax error in Python, JSON and TOML.
"""

import ast
import asyncio
import contextlib
import json
import os
import re
import shutil
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode.messages import cut_list, shorten
from kode.process import find_program
from kode.tool import Action, ToolOutput
from kode.tools.processes import run_program
from kode.values import Value, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

LIMIT_S = 1.3  # every edit waits for it, and for the end of a killed checker
MAX_LINES = 10  # the first faults cause the others
MAX_LINE_CHARS = 200  # a message with its path
MAX_FILE_BYTES = 1_000_000  # checkers need seconds for larger files

# Code that cannot work: syntax, undefined names, comparisons that are always true.
_RUFF = (
    "ruff check --no-cache --quiet --no-fix --output-format concise --select E9,F63,F7,F82 "
    "--stdin-filename {path} -"
)
_CHECKERS = {".py": _RUFF, ".pyi": _RUFF, ".go": "gofmt -e -l"}
"""Suffix → the command that reads a text of this language on stdin."""
_parse_python = partial(
    compile, filename="", mode="exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True
)
_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys((".py", ".pyi"), _parse_python),
    **dict.fromkeys((".json", ".ipynb"), lambda text: json.loads(text or "null")),
    ".toml": tomllib.loads,
}
"""Suffix → the function that raises the first error in a text; a file may be empty."""

_FINDING = re.compile(r"^[^\n]*?:(\d+):\d+: (\S.*)$", re.MULTILINE)
"""`a.py:4:7: F821 ...`."""
_COMMENT = re.compile(r"^\s*(//|/\*)", re.MULTILINE)


class Checkers(Value):
    """The checkers of one session."""

    place: Workplace
    sandbox: "Sandbox | None"

    def around(
        self, action: Action, run: Callable[[], Awaitable[ToolOutput]]
    ) -> Awaitable[ToolOutput]:
        """See `tool.Around`: adds new errors to the result of an edit."""
        path = Path(action.path)
        if action.tool.effect != "edit" or path.suffix not in {*_CHECKERS, *_PARSERS}:
            return run()

        async def edit_and_check() -> ToolOutput:
            before = await asyncio.to_thread(_read_file, path)
            output = await run()
            after = await asyncio.to_thread(_read_file, path)
            if before is not None and after is not None and str(path) in output.files_changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LIMIT_S):
                        errors = await self._describe_new_errors(path, before, after)
                        output = replace(output, text=output.text + errors)
            return output

        return edit_and_check()

    async def _describe_new_errors(self, path: Path, before: bytes, after: bytes) -> str:
        """Raises: TimeoutError."""
        name, lines, head = os.path.relpath(path, self.place.cwd), list[str](), ""
        if argv := await asyncio.to_thread(self._find_command, path):
            head = f"{os.path.basename(argv[0])}: "
            new = await self._find_errors(argv, after)
            old_errors = await self._find_errors(argv, before) if new else []
            old = Counter(message for _, message in old_errors)
            for line, message in new:
                old[message] -= 1
                lines += [f"{name}:{line}: {message}"] if old[message] < 0 else []
        elif error := await asyncio.to_thread(find_syntax_error, path, after):
            lines = [] if find_syntax_error(path, before) else [f"{name}: {error}"]
        text = "\n".join(cut_list(lines, MAX_LINES))
        return f"\n\n[{head}wrong since this edit]\n{text}" if lines else ""

    async def _find_errors(self, argv: Sequence[str], text: bytes) -> list[tuple[str, str]]:
        """The line and the message of each finding. Raises: TimeoutError."""
        ran = await run_program(
            argv,
            cwd=self.place.cwd,
            environment={**self.place.environment, "NO_COLOR": "1"},
            timeout_s=LIMIT_S,
            stdin=text,
            sandbox=self.sandbox,
        )
        if ran.exit_code is None:
            raise TimeoutError
        findings = _FINDING.findall(f"{ran.stdout}\n{ran.stderr}")
        return [(line, shorten(message, MAX_LINE_CHARS)) for line, message in findings]

    def _find_command(self, path: Path) -> list[str]:
        """The checker for this file; empty if there is none. A project's own runs in the sandbox
        only; where the person wants no sandbox, those of the machine run without one."""
        program, *words = _CHECKERS.get(path.suffix, " ").split(" ")
        program_path = None
        if program and self.sandbox is None:
            program_path = find_program(program, self.place.roots)
        elif program and self.sandbox is not None and self.sandbox.kind() in ("plain", "layered"):
            folders = [str(self.place.project / it) for it in (".venv/bin", "venv/bin")]
            search = (*folders, self.place.environment.get("PATH", os.defpath))
            program_path = shutil.which(program, path=os.pathsep.join(search))
        return [program_path, *(it.format(path=path) for it in words)] if program_path else []


def _read_file(path: Path) -> bytes | None:
    """The bytes of a file, empty if it does not exist; None if it is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return b"" if isinstance(error, FileNotFoundError) else None
    return data if len(data) <= MAX_FILE_BYTES else None


def find_syntax_error(path: Path, data: bytes) -> str:
    """The first error, as `line 3: '(' was never closed`; "" for none, for other languages, and for
    a text that cannot be judged."""
    try:
        text = data.decode("utf-8-sig")
        with warnings.catch_warnings(action="ignore"):
            _PARSERS.get(path.suffix, str)(text)
    except SyntaxError as error:
        # Names the version of Python that judged the text: the project's may be newer.
        version = ".".join(map(str, sys.version_info[:2]))
        return f"line {error.lineno or 1}: {error.msg} (as Python {version} reads it)"
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        # Comments are intended: some tools take JSON with comments.
        return "" if path.suffix != ".toml" and _COMMENT.search(text) else str(error)
    except (ValueError, RecursionError, MemoryError):  # not text, a NUL, too deep
        return ""
    return ""
