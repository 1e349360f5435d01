"""After an edit: reports new errors found by the language's checker to the model.

Checkers are those on the machine or in the project's own environment; nothing is downloaded. They
run in the sandbox like every unapproved command: on the file before and after, and errors in both
are not reported. Errors only, within `LIMIT_S`. Where none covers the file, kode itself looks for
the first syntax error in Python, JSON and TOML.
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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode.messages import first_of, shorten
from kode.programs import find_program
from kode.tool import Action, Around, ToolOutput
from kode.tools.program import run_program
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

LIMIT_S = 1.3  # every edit waits for it, and for the end of a killed checker
MAX_LINES = 10  # the first faults cause the others
MAX_LINE_CHARS = 200  # a message with its path
MAX_FILE_BYTES = 1_000_000  # checkers need seconds for larger files

_FINDING = re.compile(
    r"^(?:ERROR )?(?P<path>[^\s(][^(\n]*?)[:(](?P<line>\d+)[:,]\d+(?:-\d+)?\)?:? "
    r"(?P<message>\S.*)$",
    re.MULTILINE,
)
"""`a.py:4:7: F821 ...`, `ERROR a.py:4:7-16: ...`, `a.ts(1,7): error TS2322: ...`."""

_COMMENT = re.compile(r"^\s*(//|/\*)", re.MULTILINE)

_WRITE_THEN_RUN = 'cat > "$1" && shift && exec "$@"'
"""For `sh -c`: writes stdin to a file of the throw-away copy, then runs a program."""


@dataclass(frozen=True)
class Checker:
    """A program that checks one language."""

    program: str
    suffixes: tuple[str, ...]
    arguments: str
    """Separated by spaces; `{path}` stands for the file."""
    reads_stdin: bool = False
    """Whether it takes the file's text from stdin; otherwise it reads the project on disk, which
    needs a copy to write the text to."""
    needs: str = ""
    """A file that must be in the working directory or the project's root; "" for none."""
    errors_have: str = ""
    """What a line contains that is an error; "" if all are."""


_PYTHON, _JSON = (".py", ".pyi"), (".json", ".ipynb")
# Of ruff: code that cannot work: syntax, undefined names, comparisons that are always true.
_RUFF = "check --no-cache --quiet --no-fix --output-format concise --select E9,F63,F7,F82"
CHECKERS = (
    Checker("ruff", _PYTHON, f"{_RUFF} --stdin-filename {{path}} -", reads_stdin=True),
    Checker("ty", _PYTHON, "check --output-format concise {path}", errors_have=" error["),
    Checker("pyrefly", _PYTHON, "check --output-format min-text {path}", errors_have="ERROR "),
    Checker("gofmt", (".go",), "-e -l", reads_stdin=True),
    Checker(
        *("tsc", (".ts", ".tsx", ".mts", ".cts"), "--noEmit --pretty false"),
        needs="tsconfig.json",
        errors_have=" error ",
    ),
    Checker(
        *("cargo", (".rs",), "check --offline --quiet --message-format short"),
        needs="Cargo.toml",
        errors_have=" error",
    ),
)
_SUFFIXES = {".toml", *_JSON}.union(*(checker.suffixes for checker in CHECKERS))
OWN_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Where a project has its checkers. They run in the sandbox only."""


@dataclass(frozen=True, kw_only=True)
class Checkers:
    """The checkers of one session."""

    place: Workplace
    sandbox: "Sandbox | None"
    within: Around
    """What else is done around a call: after the checkers, so that hooks see their findings."""

    async def around(self, action: Action, run: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        """See `tool.Around`: adds new errors to the result of an edit."""
        path = Path(action.path)
        if action.tool.effect != "edit" or path.suffix not in _SUFFIXES:
            return await self.within(action, run)

        async def edit_and_check() -> ToolOutput:
            before = await asyncio.to_thread(_read_file, path)
            output = await run()
            after = await asyncio.to_thread(_read_file, path)
            if before is None or after is None or str(path) not in output.files_changed:
                return output
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LIMIT_S):
                    errors = await self._new_errors(path, before, after)
                    output = replace(output, text=output.text + errors)
            return output

        return await self.within(action, edit_and_check)

    async def _new_errors(self, path: Path, before: bytes, after: bytes) -> str:
        kind = "off" if self.sandbox is None else await asyncio.to_thread(self.sandbox.kind)
        if programs := self._find_programs(path, kind):
            reports = (self._compare(*it, path, before, after) for it in programs.items())
            return "".join(await asyncio.gather(*reports))
        error = await asyncio.to_thread(syntax_error, path, after)
        if not error or syntax_error(path, before):
            return ""
        return f"\n\n[wrong since this edit]\n{self._relative_path(str(path))}: {error}"

    async def _compare(
        self, checker: Checker, program: str, path: Path, before: bytes, after: bytes
    ) -> str:
        """What a checker finds in a file that it did not find before; "" if it cannot say."""
        new = await self._run(checker, program, path, after)
        old = await self._run(checker, program, path, before) if new else None
        if new is None or old is None:
            return ""
        counts = Counter((where, message) for where, _, message in old)
        lines = []
        for where, line, message in new:
            counts[where, message] -= 1
            if counts[where, message] < 0:
                lines.append(f"{where}:{line}: {message}")
        shown = "\n".join(first_of(lines, MAX_LINES))
        return f"\n\n[{checker.program}: wrong since this edit]\n{shown}" if lines else ""

    async def _run(
        self, checker: Checker, program: str, path: Path, text: bytes
    ) -> list[tuple[str, str, str]] | None:
        """(path from the working directory, line, message) of each error with this text in the
        file; None if the checker did not finish in time."""
        words = checker.arguments.replace("{path}", "\0").split()
        write = () if checker.reads_stdin else ("/bin/sh", "-c", _WRITE_THEN_RUN, "sh", str(path))
        ran = await run_program(
            (*write, program, *(word.replace("\0", str(path)) for word in words)),
            cwd=self.place.cwd,
            environment={**self.place.environment, "NO_COLOR": "1"},
            timeout_s=LIMIT_S,
            given=text,
            sandbox=self.sandbox,
            gently=False,
        )
        if ran.exit_code is None:
            return None
        return [
            (
                self._relative_path(str(path) if checker.reads_stdin else match["path"]),
                match["line"],
                shorten(match["message"], MAX_LINE_CHARS),
            )
            for match in _FINDING.finditer(f"{ran.stdout}\n{ran.stderr}")
            if checker.errors_have in f" {match[0]}"
        ]

    def _relative_path(self, path: str) -> str:
        return os.path.relpath(os.path.join(self.place.cwd, path), self.place.cwd)

    def _find_programs(self, path: Path, sandbox: str) -> dict[Checker, str]:
        """The checkers that apply to this file with this kind of sandbox, and where they are;
        "off": the person wants none, so that programs of the machine run without one."""
        if sandbox not in ("off", "plain", "layered"):
            return {}
        project, roots = self.place.project, self.place.roots
        folders = [str(project / folder) for folder in OWN_FOLDERS]
        search = os.pathsep.join((*folders, self.place.environment.get("PATH", os.defpath)))
        programs = {
            checker: find_program(checker.program, roots)
            if sandbox == "off"
            else shutil.which(checker.program, path=search)
            for checker in CHECKERS
            if path.suffix in checker.suffixes
            and (checker.reads_stdin or sandbox == "layered")
            and any((folder / checker.needs).exists() for folder in (self.place.cwd, project))
        }
        return {checker: program for checker, program in programs.items() if program}


def _read_file(path: Path) -> bytes | None:
    """The bytes of a file, empty if it does not exist; None if it is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return b"" if isinstance(error, FileNotFoundError) else None
    return data if len(data) <= MAX_FILE_BYTES else None


def syntax_error(path: Path, data: bytes) -> str:
    """The first error, as `line 3: '(' was never closed`; "" for none, for other languages, and for
    a text that cannot be judged."""
    try:
        text = data.decode("utf-8-sig")
        if path.suffix in _PYTHON:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
        elif path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix in _JSON:
            json.loads(text or "null")
    except SyntaxError as error:
        # Of which Python it is an error: the project's may be newer.
        version = ".".join(map(str, sys.version_info[:2]))
        return f"line {error.lineno or 1}: {error.msg} (as Python {version} reads it)"
    except json.JSONDecodeError as error:
        # Comments are meant: it is the JSON of some tool that takes them.
        return "" if _COMMENT.search(text) else f"line {error.lineno}: {error.msg}"
    except tomllib.TOMLDecodeError as error:
        return str(error)
    except (ValueError, RecursionError, MemoryError):  # not text, a NUL, too deep
        pass
    return ""
