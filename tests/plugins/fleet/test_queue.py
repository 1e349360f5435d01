"""The folder of a queue: who may lease a task, and recovery after a crash."""

import json

import pytest

from kode import paths
from kode.cli.main import main
from kode.errors import EXIT_NOT_STARTED, SessionError, UserError
from kode.plugins.fleet.queue import FLEET, LOG, Figures, Released, open_queue
from tests.plugins.fleet.conftest import again, finished, leased, started


def test_two_workers_never_have_the_same_task(make):
    queue = make("a", "b")
    other = again(queue)
    assert {leased(queue).task, leased(other).task} == {"a", "b"}
    assert again(queue).lease() is None
    assert not any(map(again(queue).is_free, again(queue).state.open_tasks()))


def test_a_dead_workers_task_is_leased_with_its_session(queue):
    first = leased(queue)
    queue.close()
    assert leased(again(queue)).session == first.session


def test_a_worker_that_lost_its_task_cannot_end_it(queue):
    first = leased(queue)
    queue.close()  # as when its machine loses the connection to the folder
    other = again(queue)
    second = leased(other)
    assert not queue.record(finished(first), under=first)
    assert other.record(finished(second), under=second)


def test_a_line_cut_by_a_crash_is_set_aside(queue):
    lease = leased(queue)
    log = queue.folder / LOG
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"type": "finished", "task": "a", "le')
    other = again(queue)
    assert other.state.tasks["a"].finished is None
    assert other.record(finished(lease), under=lease)
    assert log.read_bytes().startswith(whole + b'{"task"')
    assert log.with_name("log.jsonl.torn").read_bytes().startswith(b'{"type": "finished"')


def test_damaged_and_doubled_lines_are_ignored_and_counted(queue):
    lease = leased(queue)
    assert queue.record(started(lease), under=lease)
    log = queue.folder / LOG
    log.write_bytes(log.read_bytes() * 2 + b"\x00\x00\n")
    other = again(queue)
    assert (other.log.damaged, other.log.duplicates) == (1, 2)
    assert len(other.state.tasks["a"].starts) == 1
    assert other.record(finished(lease), under=lease)
    assert again(other).state.tasks["a"].finished is not None


def test_a_spent_budget_starts_no_tasks_until_raised(make):
    queue = make("a", "b", budget_usd=1.0)
    lease = leased(queue)
    queue.book_missing_cost(queue.state.tasks["a"], 1.25)
    queue.record(Released(task="a", lease=lease.lease, reason="no money"), under=lease)
    assert queue.lease() is None
    assert "$1 is used up" in queue.explain_stop()
    other = again(queue)
    other.resume(2.0)
    assert again(other).lease() is not None


def test_a_new_budget_counts_what_was_spent_before(make):
    queue = make("a", "b")
    lease = leased(queue)
    queue.record(finished(lease, figures=Figures(cost_usd=0.75)), under=lease)
    queue.resume(0.5)
    assert again(queue).lease() is None


def test_a_sessions_cost_is_counted_once(make):
    queue = make("a", budget_usd=1.0)
    leased(queue)
    for cost in (0.25, 0.25, 0.5):
        queue.book_missing_cost(queue.state.tasks["a"], cost)
    assert queue.budget().spent_usd == pytest.approx(0.5)


def test_a_cancelled_fleet_starts_no_more_tasks_ever(queue):
    queue.cancel()
    assert again(queue).lease() is None
    with pytest.raises(UserError, match="cancelled"):
        queue.resume(None)


def test_only_starts_without_a_worker_are_left_to_whoever_cancels(queue):
    lease = leased(queue)
    queue.record(started(lease, mark="m"), under=lease)
    assert again(queue).cancel() == []
    queue.close()
    assert [one.mark for one in again(queue).cancel()] == ["m"]


def test_a_missing_fleet_is_an_error_with_advice(tmp_path):
    with pytest.raises(SessionError, match="`kode fleet run"):
        open_queue(tmp_path, None)


def test_a_log_that_lost_its_end_says_so_for_good(make):
    queue = make("a", "b")
    for _ in "ab":
        lease = leased(queue)
        assert queue.record(finished(lease), under=lease)
    path = queue.folder / LOG
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    assert again(queue).log.lost_bytes == len(b"".join(lines))
    path.write_bytes(b"".join(lines[:3]))
    cut = again(queue)
    assert cut.log.lost_bytes == len(lines[3])
    assert leased(cut).task == "b"

    assert (again(queue).log.damaged, again(queue).log.lost_bytes) == (1, 0)
    assert again(queue).state.tasks["a"].finished is not None


@pytest.mark.parametrize("change", [{"tasks": []}, {"flags": ["--yolo"]}, {"version": 1}, None])
def test_a_damaged_or_older_queue_is_refused_and_not_changed(queue, change, capsys):
    path = queue.folder / FLEET
    line, checksum = path.read_text().splitlines()
    line = json.dumps({**json.loads(line), **change}) if change is not None else "{"
    path.write_text(f"{line}\n{checksum}\n")
    before = path.read_bytes()

    assert main(["fleet", "resume"]) == EXIT_NOT_STARTED

    assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_bytes() == before
    assert not (path.parent / LOG).exists()


def test_a_queue_of_another_home_is_not_opened(queue, tmp_path, capsys):
    folder = queue.folder.rename(tmp_path / "theirs")
    assert main(["fleet", "resume", str(folder)]) == EXIT_NOT_STARTED
    assert f"no fleet '{folder}' in {paths.kode_home()}" in capsys.readouterr().err
    assert not (folder / LOG).exists()


def test_status_prints_no_control_sequences(queue, capsys):
    lease = leased(queue)
    end = {"error": "\x1b]0;x\x07\x1b[2J\n\u202e", "figures": Figures(tokens=9)}
    queue.record(finished(lease, "error", **end), under=lease)
    (queue.folder / LOG).write_bytes((queue.folder / LOG).read_bytes() + b"damaged\n")

    assert main(["fleet", "status", queue.fleet.id[:12]]) == 0
    assert main(["fleet", "cancel"]) == 0

    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert len(out.splitlines()) == 4
    assert "Cost unknown, 9 tokens" in out
    assert "cost unknown\n" in out


def test_an_executor_names_the_extra_it_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kode.installed.has_extra", lambda extra: False)
    assert main(["fleet", "run", "tasks.jsonl", "--executor", "ray"]) == EXIT_NOT_STARTED
    assert "ray" in capsys.readouterr().err
    assert not (paths.kode_home() / "queues").exists()
