"""What a command changed in its copy becomes real as a whole, or is undone as a whole."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.engine.command import (
    AllowedCommand,
    _apply_with_undo,
    describe_changes,
    diff_changes,
    run_command,
    settle_changes,
    settle_ended,
)
from kode.errors import KodeError
from kode.events import no_emit
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import find_fault
from kode.tool import ALLOWED, Action, Blocked, Decision, FileChange, ToolContext, ToolOutput
from tests.needs import lacking
from tests.sandbox.sandboxed import ran
from tests.undo.changes import undo_in
from tests.workplaces import workplace


@pytest.fixture
def made(tmp_path: Path) -> Sandbox:
    (tmp_path / "work").mkdir()
    return Sandbox(place=workplace(tmp_path / "work", home=tmp_path / "kode"))


async def test_a_cancellation_during_application_completes_it_and_allows_undo(
    made: Sandbox, tmp_path: Path
) -> None:
    if why := find_fault(made, "layered"):
        lacking("bubblewrap", why)
    work = tmp_path / "work"
    for at in range(20):
        (work / f"old{at}").write_text("old")
    await asyncio.sleep(0.02)
    attempt = made.begin(kind="layered")
    command = "for i in $(seq 0 19); do echo new > old$i; done; echo new > made"
    assert ran(attempt.wrap(("/bin/bash", "-c", command)), work).code == 0
    begins, may_go_on = threading.Event(), threading.Event()
    real_apply = attempt.apply

    def slowly(changes: Any) -> Any:
        begins.set()
        may_go_on.wait(20)
        return real_apply(changes)

    attempt.apply = slowly  # type: ignore[method-assign]
    undo = undo_in(tmp_path / "undo")
    task = asyncio.ensure_future(_apply_with_undo(undo, attempt, attempt.changes()))
    await asyncio.to_thread(begins.wait)
    task.cancel()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    attempt.close()

    assert {(work / name).read_text() for name in os.listdir(work)} == {"new\n"}
    assert undo.undo().left_alone == ()
    assert {(work / name).read_text() for name in os.listdir(work)} == {"old"}
    assert not (work / "made").exists()


class Attempt:
    """Stands for an attempt that has made these changes, some of which cannot be applied; the files
    of its copy lie in a folder."""

    wrap = None

    def __init__(self, copy: Path, *changes: FileChange, faults: dict[str, str] | None = None):
        self.copy, self.made, self.faults = copy, changes, faults or {}
        self.outside_text: str | None = ""
        self.ended = asyncio.Event()
        self.applied: list[FileChange] = []
        self.carried: list[FileChange] = []

    def changes(self) -> tuple[FileChange, ...]:
        return self.made

    def version(self, path: str) -> Path:
        return self.copy / Path(path).name

    def files(self, change: FileChange) -> tuple[str, ...]:
        return (change.path,)

    def find_blocked(self, text: str) -> tuple[Blocked, ...]:
        return (Blocked("write", "/etc/hosts"),)

    def apply(self, changes: Any) -> dict[str, str]:
        self.applied.extend(changes)
        return self.faults

    def carry_layer(self, changes: Any) -> None:
        self.carried.extend(changes)

    def close(self) -> None:
        """Leaves nothing anyway."""


def changes_of(root: Path, *names: str, **fields: Any) -> list[FileChange]:
    return [FileChange(path=str(root / name), **{"change": "created", **fields}) for name in names]


def command_of(
    attempt: Attempt,
    *decisions: Decision,
    output: ToolOutput | str = "",
    decision: Decision = ALLOWED,
    told: list[str] | None = None,
) -> AllowedCommand:
    """A command with this output, whose changes get these decisions, and which runs as `decision`
    says. `told` gets what is told of its end, and the files that are marked."""
    cwd, notes = attempt.copy.parent / "work", [] if told is None else told

    async def run(*given: Any) -> ToolOutput | str:
        return output

    async def judge_changes(*given: Any, **more: Any) -> Any:
        return [*zip(attempt.made, decisions, strict=True)]

    agent: Any = SimpleNamespace(
        sandbox=SimpleNamespace(begin=lambda marked: attempt),
        gate=SimpleNamespace(judge_changes=judge_changes),
        undo=undo_in(attempt.copy.parent / "undo"),
        marks=SimpleNamespace(
            record=lambda paths, source: notes.extend(paths),
            find_marked=dict,
            find_source=lambda read: "any",
        ),
        late={},
    )
    background: Any = SimpleNamespace(tell=lambda of, text: notes.append(text))
    context = ToolContext(
        place=workplace(cwd),
        call_id="1",
        session_id="s",
        emit=no_emit,
        seen_files={},
        background=background,
        decision=decision,
    )
    tool: Any = SimpleNamespace(run=run)
    action = Action(call_id="1", tool=tool, arguments={})
    return AllowedCommand(agent=agent, action=action, context=context)


def test_a_diff_names_binary_files_and_counts_those_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.engine.command.MAX_DIFF_CHARS", 300)
    copy, names = tmp_path / "copy", ("a.py", "b.png", "c.py", "d.py", "e.py")
    copy.mkdir()
    for name in names:
        (copy / name).write_bytes(b"\xff\x00" if name == "b.png" else b"x" * 100 + b"\n")
    attempt: Any = Attempt(copy, *changes_of(tmp_path / "work", *names))

    diff = diff_changes(tmp_path / "work", attempt, attempt.changes())

    assert "+xxx" in diff
    assert "b/b.png" in diff
    assert diff.count("+++ ") == 2
    assert "3 more files" in diff


def test_git_records_are_one_word_and_names_one_line(tmp_path: Path) -> None:
    [source] = changes_of(tmp_path, "a.py")
    records = changes_of(tmp_path, ".git/objects/ab/cd", ".git/refs/heads/main", kind="git")

    (note,) = describe_changes(tmp_path, [source, *records], {}).notes
    assert ("a.py (new)" in note, note.count(".git")) == (True, 1)
    (note,) = describe_changes(tmp_path, records, {}).notes
    assert ("a.py" in note, note.count(".git")) == (False, 1)

    odd = changes_of(tmp_path, "x].\n[Run: rm", change="changed")
    assert describe_changes(tmp_path, odd, {}).notes == ("[It changed x].\\n[Run: rm.]",)


@pytest.mark.parametrize("run_in", ["sandbox", "read_only"])
async def test_a_command_begun_in_mode_plan_changes_nothing_later(
    tmp_path: Path, run_in: Any
) -> None:
    [change] = changes_of(tmp_path / "work", "a.py")
    attempt, told = Attempt(tmp_path / "copy", change), list[str]()
    decision = replace(ALLOWED, run_in=run_in)
    command = command_of(attempt, ALLOWED, output="bg1", decision=decision, told=told)

    await run_command(command)
    attempt.ended.set()
    ((_, settled),) = await settle_ended(command.agent, "s")
    assert await settle_ended(command.agent, "s") == []
    keeps = run_in == "sandbox"

    assert attempt.applied == [change] * keeps
    assert told[:-1] == [change.path] * keeps
    assert "a.py" in told[-1]
    assert [refusal.not_kept for refusal in settled.refusals] == [("a.py (new)",)] * (not keeps)


@pytest.mark.parametrize(("opened", "source"), [("a page", "a page"), ("", ""), (None, "any")])
async def test_the_marked_file_that_a_command_opened_is_its_source(
    tmp_path: Path, opened: str | None, source: str
) -> None:
    """Where what it opened is not known, any marked file of the project may be it."""
    attempt = Attempt(tmp_path / "copy")
    attempt.outside_text = opened
    attempt.ended.set()
    output = ToolOutput(text="ok", exit_status=0)
    command = command_of(attempt, output=output, decision=replace(ALLOWED, run_in="sandbox"))
    assert (await run_command(command)).untrusted == source


async def test_a_command_that_keeps_nothing_is_not_asked_about(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "copy", *changes_of(tmp_path / "work", "a.py"))
    attempt.ended.set()
    decision = Decision(outcome="allow", reason="limits", run_in="read_only")
    failed = ToolOutput(text="denied", exit_status=1)

    output = await run_command(command_of(attempt, output=failed, decision=decision))

    assert {one.message for one in output.refusals} == {"limits"}
    assert (output.files_changed, attempt.carried) == ((), [])


NOBODY = Decision(outcome="deny", by="nobody", reason="It asks.")


async def settled(attempt: Any, *decisions: Decision) -> ToolOutput:
    return await settle_changes(command_of(attempt, *decisions), attempt, may_ask=True)


async def test_a_deleted_folder_that_stays_is_one_change(tmp_path: Path) -> None:
    names = (".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", "notes.md")
    changes = changes_of(tmp_path / "work", *names, change="deleted")

    result = await settled(Attempt(tmp_path / "copy", *changes), *[NOBODY] * 5)

    assert result.summary == "2 changes not kept"
    (refusal,) = result.refusals
    assert refusal.not_kept == (".git (deleted)", "notes.md (deleted)")
    assert result.notes == (f"[{refusal.for_model}]",)


async def test_each_reason_not_to_keep_files_names_them(tmp_path: Path) -> None:
    changes = changes_of(tmp_path / "work", *"abcde", change="changed")
    *_, d, e = (change.path for change in changes)
    faults = {d: "someone else changed it meanwhile", e: "No space left on device"}
    rule = Decision(outcome="deny", reason="A rule forbids it.")

    attempt = Attempt(tmp_path / "copy", *changes, faults=faults)
    result = await settled(attempt, rule, NOBODY, NOBODY, ALLOWED, ALLOWED)

    assert result.files_changed == ()
    assert [(one.by, one.not_kept) for one in result.refusals] == [
        ("rule", ("a",)),
        ("nobody", ("b", "c")),
        ("fault", ("d",)),
        ("fault", ("e",)),
    ]


async def test_an_ignored_folder_has_one_name(tmp_path: Path) -> None:
    root = tmp_path / "work"
    created, changed = (
        changes_of(root, f"build/{name}", change=change, ignored=f"{root}/build/")[0]
        for name, change in (("a", "created"), ("b", "changed"))
    )
    locked = {created.path: "it is locked"}
    result = await settled(Attempt(tmp_path / "copy", created, faults=locked), ALLOWED)
    assert result.refusals[0].not_kept == ("build/ (new, 1 file, git ignores it)",)

    output = describe_changes(root, [created, changed], {})
    assert output.files_changed == (f"{root}/build/",)
    assert output.notes == ("[It changed build/ (2 files, git ignores it).]",)


async def test_changes_too_many_to_list_are_a_fault(tmp_path: Path) -> None:
    class Many(Attempt):
        def changes(self) -> Any:
            raise KodeError("It changed more than 20,000 files.")

    result = await settled(Many(tmp_path / "copy"))

    assert [(one.by, one.message) for one in result.refusals] == [
        ("fault", "It changed more than 20,000 files.")
    ]
