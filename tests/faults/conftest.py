"""Says at the end what could not be tested on this machine, and why."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "tests/faults/" in report.nodeid
    ]
    if not skipped:
        return
    terminalreporter.section("fault tests that could not run here", sep="-")
    for report in skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"{report.nodeid}: {why.removeprefix('Skipped: ')}")
