"""Whatever two workers do in any order, and whenever one is killed, no task is lost and none ends
twice."""

from dataclasses import dataclass, field, replace

from hypothesis import given, strategies as st

from kode.plugins.fleet.queue import (
    Finished,
    FleetTask,
    Leased,
    Record,
    Released,
    make_codecs,
    replay_records,
)
from tests.plugins.fleet.conftest import finished, started

TASKS = [
    FleetTask(id=name, task=f"Do {name}.", source="/project", isolate="none")
    for name in ("a", "b", "c")
]
LEASE = Leased(task="a", lease="1", host="h", session="20260101-000000-aaaaaa")


@dataclass
class World:
    """A log, and the workers that write to it. Every append is one step under the lock."""

    log: list[Record] = field(default_factory=list)
    made: int = 0
    held: dict[str, str] = field(default_factory=dict)
    """Task → the worker that has its lock."""
    leases: dict[str, list[Leased]] = field(default_factory=dict)
    """Worker → leases that it thinks it has; a machine that lost its connection keeps them."""
    ended: dict[str, int] = field(default_factory=dict)
    """Task → how often its end was confirmed to a worker."""

    def lease(self, name):
        for task in replay_records(TASKS, self.log).open_tasks():
            if task.task.id not in self.held:
                self.made += 1
                session = task.session or f"session-{self.made}"
                lease = replace(
                    LEASE, task=task.task.id, lease=str(self.made), host=name, session=session
                )
                self.held[lease.task] = name
                self.leases.setdefault(name, []).append(lease)
                self.log.append(lease)
                return

    def write(self, record, lease):
        if not replay_records(TASKS, self.log).tasks[lease.task].is_held_under(lease.lease):
            return
        self.log.append(record)
        if isinstance(record, Finished):
            self.ended[lease.task] = self.ended.get(lease.task, 0) + 1
        if isinstance(record, Finished | Released):
            self.held.pop(lease.task, None)

    def step(self, what, name):
        leases = self.leases.get(name, [])
        match what:
            case "lease":
                self.lease(name)
            case "start" if leases:
                self.write(started(leases[-1]), leases[-1])
            case "finish" if leases:
                lease = leases.pop()
                self.write(finished(lease), lease)
            case "release" if leases:
                lease = leases.pop()
                self.write(Released(task=lease.task, lease=lease.lease, reason="stopped"), lease)
            case "cut off":
                self.held = {task: one for task, one in self.held.items() if one != name}
            case "killed":
                self.step("cut off", name)
                self.leases.pop(name, None)
            case "killed in the last write":
                self.step("killed", name)
                # Only what nobody was answered for can be missing.
                if self.log and not isinstance(self.log[-1], Finished):
                    self.log.pop()


STEPS = ("lease", "start", "finish", "release", "cut off", "killed", "killed in the last write")
MOVES = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(["x1", "x2", "y1"])), max_size=30
)


@given(MOVES)
def test_no_task_is_lost_or_ends_twice(steps):
    world = World()
    for what, name in steps:
        world.step(what, name)
    codec, _ = make_codecs()
    assert [codec.validate_json(codec.dump_json(record)) for record in world.log] == world.log
    # Later one worker alone takes all that is left.
    world.held.clear()
    for _ in TASKS:
        for what in ("lease", "start", "finish"):
            world.step(what, "z1")
    assert not list(replay_records(TASKS, world.log).open_tasks())
    assert world.ended == {task.id: 1 for task in TASKS}
    if not any(what == "killed in the last write" for what, _ in steps):
        leases = {(one.task, one.session) for one in world.log if isinstance(one, Leased)}
        assert len(leases) == len(TASKS)


def test_a_finished_task_takes_no_more_records():
    end = finished(LEASE, "error")
    second = replace(LEASE, lease="2", session="20260101-000000-bbbbbb")
    later = [second, started(second), finished(second), Released(task="a", lease="1", reason="")]
    state = replay_records(TASKS, [LEASE, started(LEASE), end, *later]).tasks["a"]
    assert (state.finished, state.starts) == (end, [started(LEASE)])
