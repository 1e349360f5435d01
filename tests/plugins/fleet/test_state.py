"""Whatever two workers do in any order, and whenever one is killed, no task is lost and none ends
twice."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from kode.plugins.fleet.records import (
    Alive,
    Cancelled,
    Finished,
    Leased,
    Record,
    Released,
    Reopened,
    Resumed,
    Started,
    Task,
    line_of,
    parse_line,
)
from kode.plugins.fleet.state import CLOCK_SKEW_S, LEASE_S, State, is_free, state_of

TASKS = [
    Task(id=name, task=f"Do {name}.", source="/project", isolate="none") for name in ("a", "b", "c")
]


@dataclass
class Simulated:
    """A worker on one of two hosts. Leases that it thinks it holds may have been taken over."""

    name: str
    host: str
    leases: list[Leased] = field(default_factory=list)
    is_alive: bool = True


@dataclass
class World:
    """A log, and the workers that write to it. Every append is one step under the lock."""

    log: list[Record] = field(default_factory=list)
    now: float = 0.0
    made: int = 0
    workers: dict[str, Simulated] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    """Task → how often its end was confirmed to a worker."""

    def worker(self, name: str) -> Simulated:
        one = self.workers.get(name)
        if one is None or not one.is_alive:
            self.made += 1
            host = name[0]
            one = self.workers[name] = Simulated(f"{name}-{self.made}", host)
            self.workers[one.name] = one
        return one

    def lease(self, name: str) -> None:
        me, state = self.worker(name), state_of(TASKS, self.log)

        def is_gone(lease: Leased) -> bool:
            return lease.host == me.host and not self.workers[lease.worker].is_alive

        for one in state.tasks.values():
            if is_free(one, state.until, self.now, is_gone):
                self.made += 1
                lease = Leased(
                    task=one.task.id,
                    lease=str(self.made),
                    worker=me.name,
                    host=me.host,
                    pid=1,
                    until=self.now + LEASE_S,
                    session=one.session or f"session-{self.made}",
                )
                me.leases.append(lease)
                self.log.append(lease)
                return

    def say(self, name: str, record: Record, lease: Leased) -> None:
        state = state_of(TASKS, self.log)
        if state.holds(lease):
            self.log.append(record)
            if isinstance(record, Finished):
                self.ended[lease.task] = self.ended.get(lease.task, 0) + 1

    def step(self, what: str, name: str) -> None:
        me = self.worker(name)
        lease = me.leases[-1] if me.leases else None
        match what:
            case "lease":
                self.lease(name)
            case "start" if lease:
                self.say(name, started(lease), lease)
            case "finish" if lease:
                self.say(name, finished(lease), me.leases.pop())
            case "release" if lease:
                me.leases.pop()
                self.say(
                    name, Released(task=lease.task, lease=lease.lease, reason="stopped"), lease
                )
            case "alive":
                self.log.append(Alive(worker=me.name, until=self.now + LEASE_S))
            case "killed":
                me.is_alive = False
            case "killed in the last write":
                me.is_alive = False
                # Only what nobody was answered for can be missing.
                if self.log and not isinstance(self.log[-1], Finished):
                    self.log.pop()
            case "time passes":
                self.now += LEASE_S / 2


def started(lease: Leased) -> Started:
    return Started(task=lease.task, lease=lease.lease, at=0, tree="/t", base="", mark="0" * 24)


def finished(lease: Leased) -> Finished:
    return Finished(task=lease.task, lease=lease.lease, at=0, status="success")


STEPS = (
    *"lease start finish release alive killed".split(),
    "killed in the last write",
    "time passes",
)
MOVES = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(["x1", "x2", "y1"])), max_size=30
)


@given(MOVES)
def test_no_task_is_lost_and_none_ends_twice(steps: list[tuple[str, str]]) -> None:
    world = World()
    for what, name in steps:
        world.step(what, name)
    # A day later, one worker alone takes all that is left.
    world.now += LEASE_S + CLOCK_SKEW_S + 1
    for worker in world.workers.values():
        worker.is_alive = False
    for _ in TASKS:
        world.step("lease", "z1")
        world.step("start", "z1")
        world.step("finish", "z1")
    state = state_of(TASKS, world.log)
    assert [one.phase for one in state.tasks.values()] == ["ended"] * len(TASKS)
    assert world.ended == {task.id: 1 for task in TASKS}


@given(MOVES)
def test_a_task_keeps_the_session_of_its_first_lease(steps: list[tuple[str, str]]) -> None:
    world = World()
    for what, name in steps:
        world.step(what, name)
        if what == "killed in the last write":
            return
    for task in TASKS:
        sessions = {r.session for r in world.log if isinstance(r, Leased) and r.task == task.id}
        assert len(sessions) <= 1


@given(MOVES, st.integers(0))
def test_a_truncated_log_equals_an_earlier_log(steps: list[tuple[str, str]], cut: int) -> None:
    world = World()
    for what, name in steps:
        world.step(what, name)
    data = b"".join(line_of(record) + b"\n" for record in world.log)
    whole = data[: cut % (len(data) + 1)].rpartition(b"\n")[0].splitlines()
    read = [parse_line(line) for line in whole]
    assert read == world.log[: len(read)]
    tasks = state_of(TASKS, world.log[: len(read)]).tasks
    assert set(tasks) == {task.id for task in TASKS}


RECORDS = st.one_of(
    st.builds(
        Leased,
        task=st.sampled_from("abcd"),
        lease=st.sampled_from("12"),
        worker=st.sampled_from("xy"),
        host=st.just("h"),
        pid=st.just(1),
        until=st.floats(0, 1e9),
        session=st.text(min_size=1, max_size=2),
    ),
    st.builds(
        Finished,
        task=st.sampled_from("abcd"),
        lease=st.sampled_from("12"),
        at=st.just(0.0),
        status=st.sampled_from(["success", "error", "timeout", "cancelled"]),
    ),
    st.builds(
        Released, task=st.sampled_from("abcd"), lease=st.sampled_from("12"), reason=st.just("")
    ),
    st.builds(Resumed, at=st.just(0.0)),
    st.builds(Cancelled, at=st.just(0.0)),
)


@given(st.lists(RECORDS))
def test_a_finished_task_ignores_later_records(records: list[Record]) -> None:
    state = State(state_of(TASKS, ()).tasks)
    for record in records:
        before = {one.task.id: one.finished for one in state.tasks.values()}
        state.apply(record)
        for name, end in before.items():
            assert end is None or state.tasks[name].finished is end


def test_a_reopened_task_keeps_its_session() -> None:
    lease = Leased(
        task="a",
        lease="1",
        worker="x",
        host="h",
        pid=1,
        until=1.0,
        session="20260101-000000-aaaaaa",
    )
    failed = replace(finished(lease), status="error")
    state = state_of(TASKS, [lease, started(lease), failed, Reopened(task="a")])
    assert state.tasks["a"].phase == "waiting"
    assert state.tasks["a"].session == lease.session


def test_only_failures_in_a_row_count() -> None:
    log: list[Record] = []
    for number, status in enumerate(["error", "success", "error"]):
        lease = Leased(
            task="abc"[number],
            lease=str(number),
            worker="x",
            host="h",
            pid=1,
            until=1.0,
            session="s",
        )
        log += [lease, replace(finished(lease), status=status)]
    assert state_of(TASKS, log).failures == 1
    assert state_of(TASKS, [*log, Resumed(at=0.0)]).failures == 0
