"""`kode doctor`: checks what works on this machine, each with the next step.

The checks are in `diagnosis` and `plugin`.
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kode.cli.commands import diagnosis, plugin
from kode.cli.commands.diagnosis import Case, Finding, State, UntriedError, missing, optional
from kode.cli.flags import directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import fold
from kode.cli.screen.printer import print_line, to_json
from kode.credentials import redact
from kode.errors import EXIT_FAILED, EXIT_OK
from kode.plain_text import clean

NARROW_COLUMNS = 60  # below it a remark beside its name has no room
MARKS: dict[State, str] = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}

CHECKS: dict[str, Callable[[Case], Finding]] = {
    "Python": diagnosis.python,
    "home": diagnosis.home,
    "disk": diagnosis.disk,
    "config": diagnosis.config,
    "key": diagnosis.key,
    "server": diagnosis.server,
    "model": diagnosis.model,
    "small model": diagnosis.small_model,
    "memory": diagnosis.memory,
    "instructions": diagnosis.instructions,
    "extensions": diagnosis.extensions,
    "git": diagnosis.git,
    "ripgrep": diagnosis.ripgrep,
    "sandbox": diagnosis.sandbox,
    "terminal": diagnosis.terminal,
}
"""In display order."""


def main(argv: Sequence[str]) -> int:
    """Prints each finding when it is made; 1 if something required is missing."""
    parser = Parser("kode doctor", "Checks this machine, and says how to fix what is missing.")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    about = "instead prove the sandbox: run commands in it that must not get out"
    parser.add_argument("--sandbox", action="store_true", help=about)
    arguments = parser.parse(argv)
    findings = []
    for unmasked in diagnosis.sandbox_proofs() if arguments.sandbox else examine(directory()):
        finding = replace(unmasked, detail=redact(unmasked.detail))
        findings.append(finding)
        if not arguments.json:
            print_line(_lines_of(finding))
    if arguments.json:
        print_line(to_json([vars(finding) for finding in findings]))
    return EXIT_FAILED if any(finding.state == "missing" for finding in findings) else EXIT_OK


def _lines_of(finding: Finding) -> str:
    """One line and its next step; on a narrow screen the text goes below."""
    head = f"{MARKS[finding.state]}  {finding.what:<12}"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    indent = "    " if width < NARROW_COLUMNS else " " * (len(head) + 2)
    lines = [clean(finding.detail)] + ([f"→ {finding.next_step}"] if finding.next_step else [])
    body = "\n".join(fold(indent + line, width - 1) for text in lines for line in text.split("\n"))
    return f"{head}\n{body}" if width < NARROW_COLUMNS else f"{head}  {body.lstrip()}"


def examine(cwd: Path) -> Iterator[Finding]:
    """Runs every check; one that fails unexpectedly is a finding too."""
    case = Case(cwd)
    for what, check in CHECKS.items():
        try:
            finding = check(case)
        except UntriedError as error:
            finding = optional(str(error))
        except Exception as error:
            finding = missing(f"{type(error).__name__}: {error}")
        yield replace(finding, what=what)
    yield from diagnosis.foreign_settings(cwd)
    yield from plugin.findings()
