"""What of the folders that belong to kode may be read unasked, and nothing else of them."""

from pathlib import Path

from tests.permissions.test_decide import decided, shell
from tests.tables import for_each

KODE = Path("/home/user/.kode")
JOURNAL = KODE / "memory" / "journal" / "0123456789abcdef"
READABLE = {"readable": (JOURNAL / "HISTORY*.md",), "protected": (KODE,)}


@for_each(
    ("command", "sandbox"),
    [
        (f"grep -i parser {JOURNAL}/HISTORY.md", "none"),
        (f"tail -20 {JOURNAL}/HISTORY-2026-03.md", "none"),
        (f"grep -i parser {JOURNAL}/HISTORY*.md", "plain"),
        (f"grep -i parser {JOURNAL}/HISTORY-2026-0?.md | head -3", "layered"),
    ],
)
@for_each("mode", ["ask", "plan"])
def test_the_log_of_the_journal_is_searched_unasked(mode: str, command: str, sandbox: str) -> None:
    decision = shell(mode, command, sandbox=sandbox, **READABLE)

    assert decision.outcome == "allow"
    assert decision.untrusted, "a session that read outside text may have written there"
    if sandbox == "none":
        assert shell(mode, command, protected=(KODE,)).outcome != "allow"


@for_each(
    "command",
    [
        f"cat {JOURNAL}/approval/x.json",
        f"cat {JOURNAL}/HISTORY*.md/../approval/x.json",
        f"grep -ri parser {JOURNAL}",
        f"cat {JOURNAL}/../fedcba9876543210/HISTORY.md",
        f"cat {KODE}/config.json",
        f"cat {JOURNAL}/*.md",
    ],
)
def test_files_beside_a_readable_folder_are_not_readable(command: str) -> None:
    assert shell("ask", command, **READABLE).outcome != "allow"


def test_it_may_be_read_and_never_written() -> None:
    path = str(JOURNAL / "HISTORY.md")

    assert decided("ask", "read_file", {"path": path}, **READABLE).outcome == "allow"
    for mode in ("ask", "auto-edit", "full"):
        edit = decided(mode, "write_file", {"path": path, "content": "x"}, **READABLE)
        assert edit.outcome == "deny"
        assert shell(mode, f"echo x >> {path}", **READABLE).outcome == "deny"
        assert shell(mode, f"rm {path}", **READABLE).outcome == "deny"
