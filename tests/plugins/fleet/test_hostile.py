"""A queue from elsewhere: status, collect and cancel touch only the queue itself and the
repositories of its tasks."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kode import paths
from kode.cli.main import main
from kode.errors import EXIT_NOT_STARTED, StorageError, UserError
from kode.plugins.fleet import child
from kode.plugins.fleet.folders import fleet_folder
from kode.plugins.fleet.owner import SIGNATURE
from kode.plugins.fleet.queue import LOG, SPENT, TASKS, Queue, open_queue
from kode.plugins.fleet.records import Finished, Fleet, Leased, Started, line_of, parse_line
from tests.plugins.fleet.conftest import Make, task
from tests.tables import for_each

DATA = Path(__file__).parent / "data" / "hostile_fields.jsonl"
FIELDS = [json.loads(line) for line in DATA.read_text().splitlines()]
LINES = {
    "fleet": Fleet(id="f", created_at=""),
    "task": task("a", Path("/")),
    "leased": Leased(task="a", lease="l", worker="w", host="h", pid=1, until=0, session="s"),
    "started": Started(task="a", lease="l", at=0, tree="/", base="", mark="0"),
    "finished": Finished(task="a", lease="l", at=0, status="success"),
}


@for_each("case", FIELDS)
def test_a_field_used_as_path_or_argument_stays_one(
    case: dict[str, str],
) -> None:
    row = json.loads(line_of(LINES[case["line"]]))
    assert parse_line(json.dumps(row).encode())
    row[case["field"]] = case["value"]

    with pytest.raises(ValueError, match="match"):
        parse_line(json.dumps(row).encode())


def test_a_hostile_task_blocks_the_queue_but_records_are_dropped(make: Make) -> None:
    queue = make("a")
    with open(queue.folder / LOG, "a") as log:
        row = json.loads(line_of(LINES["leased"])) | {"session": "../../config"}
        log.write(json.dumps(row) + "\n")
    found = open_queue(Path("/nonexistent"), str(queue.folder))
    assert (found.damaged, found.state.tasks["a"].session) == ([1], "")

    path = queue.folder / TASKS
    path.write_text(path.read_text().replace('"id":"a"', '"id":"../a"'))
    with pytest.raises(UserError, match="cannot be read"):
        open_queue(Path("/nonexistent"), str(queue.folder))


@pytest.mark.parametrize("name", [TASKS, LOG, SPENT])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_a_queue_whose_files_lead_elsewhere_is_not_opened(
    make: Make, tmp_path: Path, name: str, kind: str
) -> None:
    path = make("a").folder / name
    victim = tmp_path / "victim"
    if kind == "link":
        victim.write_bytes(path.read_bytes() if name == TASKS else b"mine, without a line feed")
    before = victim.read_bytes() if victim.exists() else None
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(victim)

    assert main(["fleet", "cancel", str(path.parent)]) != 0

    assert (victim.read_bytes() if victim.exists() else None) == before


def test_status_prints_no_control_sequences(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    queue = make("a")
    evil = "\x1b]0;x\x07\x1b[2J\n\u202e"
    leased = json.loads(line_of(LINES["leased"])) | {"host": evil, "worker": "folder"}
    ended = json.loads(line_of(LINES["finished"])) | {"error": evil, "status": "error"}
    (queue.folder / LOG).write_text("".join(json.dumps(row) + "\n" for row in (leased, ended)))
    (queue.folder / "workers" / "folder").mkdir(parents=True)
    folder = queue.folder.rename(queue.folder.with_name("queue\x1b[2J"))
    (folder / LOG).write_text((folder / LOG).read_text() + "damaged\n")

    assert main(["fleet", "status", str(folder)]) == 0
    assert main(["fleet", "cancel", str(folder)]) == 0

    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert len(out.splitlines()) == 4


def test_a_worker_with_an_unreadable_file_keeps_its_lease(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make("a")
    lease = json.loads(line_of(LINES["leased"]))
    monkeypatch.setattr("kode.plugins.fleet.queue.host", lambda: lease["host"])
    (queue.folder / "workers" / lease["worker"]).mkdir(parents=True)
    (queue.folder / LOG).write_text(json.dumps(lease) + "\n")

    found = open_queue(Path("/nonexistent"), str(queue.folder))

    assert not found.is_gone(LINES["leased"])  # type: ignore[arg-type]


def foreign(make: Make, **fields: object) -> Queue:
    """A queue made by another home."""
    queue = make("a", "b", flags=("--permission-mode", "full"), **fields)
    (queue.folder / SIGNATURE).write_text("0" * 64)
    return queue


def test_this_homes_queue_is_its_own_until_tasks_change(make: Make) -> None:
    queue = make("a")
    assert open_queue(paths.home(), str(queue.folder)).is_own()

    path = queue.folder / TASKS
    lines = (replace(queue.fleet, tasks=1), task("evil", Path("/")))
    path.write_bytes(b"".join(line_of(one) + b"\n" for one in lines))

    assert not open_queue(paths.home(), str(queue.folder)).is_own()


def test_another_homes_queue_runs_nothing_without_a_mode(make: Make) -> None:
    queue = foreign(make)

    assert main(["fleet", "resume", str(queue.folder)]) == EXIT_NOT_STARTED
    assert main(["fleet", "worker", str(queue.folder)]) == EXIT_NOT_STARTED
    assert not (queue.folder / LOG).exists()


def test_another_homes_queue_runs_in_the_given_mode_only(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue = foreign(make)
    ran: list[Sequence[str]] = []

    async def run(command: Sequence[str], **about: object) -> dict[str, object]:
        ran.append(command)
        return {"status": "success"}

    monkeypatch.setattr(child, "run_child", run)
    before = sorted(queue.folder.rglob("*"))

    main(["fleet", "resume", str(queue.folder), "--permission-mode", "plan"])

    assert len(ran) == 2
    modes = [c[at + 1] for c in ran for at, word in enumerate(c) if word == "--permission-mode"]
    assert modes[-1] == "plan"
    assert "full" not in modes
    assert sorted(queue.folder.rglob("*")) == before
    assert open_queue(paths.home(), None).is_own()


@pytest.mark.parametrize("keep_bytes", [0, 31, 40])
def test_a_damaged_key_signs_nothing(make: Make, keep_bytes: int) -> None:
    queue = make("a")
    assert queue.is_own()
    path = fleet_folder(paths.home()) / "key"
    cut = path.read_bytes()[:keep_bytes]
    path.write_bytes(cut)

    with pytest.raises(StorageError):
        queue.is_own()
    assert [aside.read_bytes() for aside in path.parent.glob("key.damaged-*")] == [cut]
    assert not queue.is_own()
