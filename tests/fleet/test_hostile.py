"""A queue from elsewhere: status, collect and cancel reach only it and the repositories that its
tasks name."""

import json
import os
from pathlib import Path

import pytest

from kode.cli.main import main
from kode.errors import UserError
from kode.fleet.queue import LOG, SPENT, TASKS, open_queue
from kode.fleet.records import Finished, Fleet, Leased, Started, line_of, parse_line
from tests.fleet.conftest import Make, task

DATA = Path(__file__).parent / "data" / "hostile_fields.jsonl"
FIELDS = [json.loads(line) for line in DATA.read_text().splitlines()]
LINES = {
    "fleet": Fleet(id="f", created_at=""),
    "task": task("a", Path("/")),
    "leased": Leased(task="a", lease="l", worker="w", host="h", pid=1, until=0, session="s"),
    "started": Started(task="a", lease="l", at=0, tree="/", base="", mark="0"),
    "finished": Finished(task="a", lease="l", at=0, status="success"),
}


@pytest.mark.parametrize("case", FIELDS, ids=str)
def test_a_field_used_as_path_or_argument_stays_one(
    case: dict[str, str],
) -> None:
    row = json.loads(line_of(LINES[case["line"]]))
    assert parse_line(json.dumps(row).encode())
    row[case["field"]] = case["value"]

    with pytest.raises(ValueError, match="match"):
        parse_line(json.dumps(row).encode())


def test_a_hostile_task_closes_the_queue_and_records_are_dropped(make: Make) -> None:
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


def test_status_prints_nothing_that_a_terminal_obeys(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_worker_with_an_unreadable_file_lives_its_lease_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make("a")
    lease = json.loads(line_of(LINES["leased"]))
    monkeypatch.setattr("kode.fleet.queue.host", lambda: lease["host"])
    (queue.folder / "workers" / lease["worker"]).mkdir(parents=True)
    (queue.folder / LOG).write_text(json.dumps(lease) + "\n")

    found = open_queue(Path("/nonexistent"), str(queue.folder))

    assert not found.is_gone(LINES["leased"])  # type: ignore[arg-type]
