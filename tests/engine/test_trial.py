"""What a command changed in its copy becomes real as a whole, or is undone as a whole."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kode.engine.trial import _make_real
from kode.sandbox.sandbox import Sandbox, open_sandbox
from kode.session.checkpoints import Checkpoints
from kode.session.content_store import Contents
from kode.session.keeper import Keeper
from tests.sandbox.sandboxed import begun, fault, ran
from tests.workplaces import workplace


@pytest.fixture
def made(tmp_path: Path) -> Sandbox:
    (tmp_path / "work").mkdir()
    return open_sandbox(workplace(tmp_path / "work", home=tmp_path / "kode"), network=False)


def keeper_in(tmp_path: Path) -> Keeper:
    contents = Contents(tmp_path / "contents", max_file_bytes=1 << 20, max_bytes=1 << 24)
    checkpoints = Checkpoints(tmp_path / "kept", contents)
    return Keeper(checkpoints=checkpoints, turn=lambda: 1, emit=lambda event: None)


async def test_a_cancellation_while_changes_become_real_leaves_all_of_them_and_a_way_back(
    made: Sandbox, tmp_path: Path
) -> None:
    if why := fault(made, "layered"):
        pytest.skip(why)
    work = tmp_path / "work"
    for at in range(20):
        (work / f"old{at}").write_text("old")
    await asyncio.sleep(0.02)
    attempt = begun(made, "layered")
    command = "for i in $(seq 0 19); do echo new > old$i; done; echo new > made"
    assert ran(attempt.wrap(("/bin/bash", "-c", command)), work).code == 0
    begins, may_go_on = threading.Event(), threading.Event()
    real_apply = attempt.apply

    def slowly(changes: Any) -> Any:
        begins.set()
        may_go_on.wait(20)
        return real_apply(changes)

    attempt.apply = slowly  # type: ignore[method-assign]
    keeper = keeper_in(tmp_path)
    task = asyncio.ensure_future(_make_real(keeper, attempt, attempt.changes()))
    await asyncio.to_thread(begins.wait)
    task.cancel()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    attempt.close()

    assert {(work / name).read_text() for name in os.listdir(work)} == {"new\n"}
    keeper.checkpoints.end_turn()
    assert keeper.checkpoints.undo().left_alone == ()
    assert {(work / name).read_text() for name in os.listdir(work)} == {"old"}
    assert not (work / "made").exists()
