"""What a command can and cannot do in each kind of sandbox that this machine has."""

import contextlib
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kode.tools.sandbox import Sandbox

from kode.contracts import ToolContext
from kode.errors import ToolError
from kode.tools import confine, sandbox, sandbox_view
from kode.tools.shell import shell
from tests.tools.conftest import tried
from tests.tools.sandboxed import KINDS, Kind, Run, opened, python, ran


def test_the_project_and_the_temporary_folder_can_be_changed(run: Run, work: Path) -> None:
    done = run(
        "echo x > made && mkdir d && mv made d/ && echo y > $TMPDIR/t && cat $TMPDIR/t d/made"
    )
    assert (done.code, done.out) == (0, "y\nx\n"), done.err
    assert (work / "d" / "made").read_text() == "x\n"
    assert run("cat $TMPDIR/t").out == "y\n"


def test_nothing_else_can_be_changed(run: Run, home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    targets = [str(tmp_path / "other"), str(home / ".bashrc"), "/usr/kode-test", "/etc/kode-test"]
    for target in targets:
        run(f"echo x > {target}; ln -sf {target} link && echo x >> link")
    assert (tmp_path / "other").read_text() == "theirs"
    assert not any(os.path.exists(target) for target in targets[1:])


def test_the_home_and_kode_s_folder_are_hidden(run: Run, home: Path) -> None:
    done = run("cat ~/.ssh/id_rsa ~/.kode/config.json; ls ~/.kode; git config --get user.name")
    assert "PRIVATE" not in done.out
    assert "SECRET" not in done.out
    assert "config.json" not in done.out
    assert done.out.strip().endswith("Me")


@pytest.mark.parametrize("kind", KINDS)
def test_of_memory_the_log_alone_is_read_and_what_was_moved_is_hidden(
    home: Path, work: Path, tmp_path: Path, kind: Kind
) -> None:
    journal = home / ".kode" / "memory" / "journal" / "0123456789abcdef"
    moved = tmp_path / "moved"
    for path, text in (
        (journal / "HISTORY-2026-03.md", "moved the parser"),
        (journal / "approval" / "x.json", "waits"),
        (moved / "facts" / "user.md", "likes tabs"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    readable = (journal / "HISTORY*.md",)
    made = opened(home, work, elsewhere=(moved,), readable=readable)
    run = tried(made, kind)

    done = run(f"cat {journal}/HISTORY-2026-03.md {journal}/approval/x.json {moved}/facts/user.md")
    run(f"echo x >> {journal}/HISTORY-2026-03.md; echo x >> {moved}/facts/user.md")

    assert done.out == "moved the parser"
    assert (journal / "HISTORY-2026-03.md").read_text() == "moved the parser"
    assert (moved / "facts" / "user.md").read_text() == "likes tabs"
    assert kind != "bubblewrap" or made.standing().kind == kind


def test_git_commits_but_its_hooks_and_settings_stay(run: Run, work: Path) -> None:
    done = run("echo x > f && git add f && git commit -qm first && git log --format=%s")
    assert done.out == "first\n", done.err
    run("echo evil > .git/hooks/pre-commit; git config core.fsmonitor evil; mv .git gone")
    run("rm -rf .git/hooks; ln -sf /tmp .git/hooks; echo evil > .git/config")
    assert not (work / ".git" / "hooks" / "pre-commit").exists()
    assert "evil" not in (work / ".git" / "config").read_text()


def test_a_repository_without_hooks_is_not_given_any(made: Sandbox, work: Path) -> None:
    if made.standing().kind != "bubblewrap":
        pytest.skip(made.standing().why)
    for path in (work / ".git" / "hooks").iterdir():
        path.unlink()
    (work / ".git" / "hooks").rmdir()
    ran(
        made.wrap(("/bin/sh", "-c", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"), False),
        work,
    )
    assert not (work / ".git" / "hooks" / "pre-commit").exists()


def test_no_other_machine_and_no_unix_socket_is_reached(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as unix:
        address = str(tmp_path / "s")
        unix.bind(address)
        unix.listen()
        port = listening.getsockname()[1]
        tried = (
            "import socket\n"
            f"for family, where in ((socket.AF_INET, ('127.0.0.1', {port})), "
            f"(socket.AF_UNIX, {address!r}), (40, (2, 1))):\n"
            "    try: socket.socket(family).connect(where); print('reached', where)\n"
            "    except OSError: pass\n"
            "print('tried', *map(type, socket.socketpair())) "
        )
        done = run(python(tried))
    assert "tried" in done.out, done.err
    assert "reached" not in done.out


def test_other_processes_cannot_be_read_or_ended(run: Run) -> None:
    with subprocess.Popen(["sleep", "20"], env={"CANARY": "canary-value"}) as process:
        done = run(f"cat /proc/{process.pid}/environ; kill -9 {process.pid}; cat /proc/*/environ")
        assert b"canary-value" not in done.out.encode()
        assert process.poll() is None
        process.kill()


def test_namespaces_and_mounts_cannot_be_made_inside(run: Run) -> None:
    assert run("unshare -Ur true").code != 0
    assert run("mount -t tmpfs none /mnt").code != 0


def test_the_exit_status_comes_through(run: Run) -> None:
    assert run("exit 7").code == 7


LATER = (
    "echo x >> .envrc; echo x > .github/workflows/ci.yml; mv .github gone; "
    "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml"
)


def test_what_runs_later_stays_as_it_is(made: Sandbox, work: Path) -> None:
    if made.standing().kind != "bubblewrap":
        pytest.skip(made.standing().why)
    (work / ".envrc").write_text("export A=1\n")
    (work / ".github" / "workflows").mkdir(parents=True)
    ran(
        made.wrap(("/bin/sh", "-c", LATER), False),
        work,
    )
    assert (work / ".envrc").read_text() == "export A=1\n"
    assert list((work / ".github" / "workflows").iterdir()) == []


def test_rules_of_the_project_stay(run: Run, work: Path) -> None:
    (work / "kode.json").write_text('{"permissions": {"deny": ["shell(rm:*)"]}}')
    run("echo {} > kode.json; rm kode.json; mv kode.json gone")
    assert "deny" in (work / "kode.json").read_text()


def test_work_in_the_home_itself_still_hides_keys(home: Path) -> None:
    made = opened(home, home)
    if made.standing().kind != "bubblewrap":
        pytest.skip(made.standing().why)
    command = ("/bin/sh", "-c", "cat .ssh/id_rsa .kode/config.json; echo x > here")
    done = ran(made.wrap(command, False), home)
    assert (home / "here").exists()
    assert "PRIVATE" not in done.out
    assert "SECRET" not in done.out


async def test_the_shell_tool_runs_in_it(context: ToolContext, made: Sandbox, work: Path) -> None:
    if made.standing().kind == "none":
        pytest.skip(made.standing().why)
    inside = replace(context, cwd=work, wrap_command=made.wrap)
    output = await shell.run(
        inside, shell.check({"command": "pwd; cat ~/.ssh/id_rsa; touch ~/x; exit 3"})
    )
    assert str(work) in output.text
    assert "PRIVATE" not in output.text
    assert output.summary == "exit status 3"
    assert not (work.parent / "x").exists()


async def test_without_a_sandbox_nothing_runs_and_nobody_is_asked(
    context: ToolContext, made: Sandbox, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_WHERE", "/nowhere")
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 0)
    inside = replace(context, wrap_command=made.wrap)
    arguments = shell.check({"command": "touch made"})

    assert made.standing().kind == "none"
    assert not made.holds_anything()
    assert shell.preview is not None
    with pytest.raises(ToolError, match=r"bubblewrap.*sandbox\.enabled"):
        shell.preview(inside, arguments)
    with pytest.raises(ToolError, match="Not run"):
        await shell.run(inside, arguments)
    assert not (project / "made").exists()


def test_without_bubblewrap_the_gaps_are_named(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made.fault("landlock"):
        pytest.skip(made.fault("landlock"))
    monkeypatch.setattr(sandbox, "_WHERE", "/nowhere")
    standing = made.standing()
    assert standing.kind == "landlock"
    assert "not installed" in standing.why
    assert standing.gaps
    assert made.holds_anything()


@pytest.mark.parametrize(("version", "kind", "holds"), [(2, "none", False), (5, "landlock", False)])
def test_an_old_landlock_is_worth_less(
    made: Sandbox, monkeypatch: pytest.MonkeyPatch, version: int, kind: str, holds: bool
) -> None:
    if made.fault("landlock"):
        pytest.skip(made.fault("landlock"))
    monkeypatch.setattr(sandbox, "_WHERE", "/nowhere")
    monkeypatch.setattr(sandbox, "landlock_version", lambda: version)
    assert (made.standing().kind, made.holds_anything()) == (kind, holds)
    assert "too old" in made.standing().why or "can be ended" in str(made.standing().gaps)


def test_a_self_test_that_finds_a_leak_fails_the_sandbox(
    made: Sandbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made.fault("bubblewrap"):
        pytest.skip(made.fault("bubblewrap"))
    real = sandbox_view.bubblewrap_arguments

    def leaky(*given: Any, **named: Any) -> list[str]:
        return [*real(*given, **named), "--ro-bind", str(home / ".ssh"), str(home / ".ssh")]

    monkeypatch.setattr(sandbox_view, "bubblewrap_arguments", leaky)
    assert "reads" in made.fault("bubblewrap")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("internet", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_every_jump_of_the_filter_lands_inside(machine: str, internet: bool, alone: bool) -> None:
    program = confine.seccomp_filter(machine, internet=internet, alone=alone)
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]
    for at, step in enumerate(steps):
        if step[0] & 0x07 == 0x05:
            assert at + 1 + max(step[2], step[3]) < len(steps)
    assert steps[-1][0] == 0x06


def test_the_launcher_refuses_rather_than_run_unlimited(
    made: Sandbox, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [kind for kind in KINDS if not made.fault(kind)]
    monkeypatch.setattr(confine, "seccomp_filter", lambda machine, **more: b"not a program..")
    for kind in kinds:
        done = ran(made.command(kind, ("/bin/touch", str(work / "made"))), work)
        assert (done.code, "could not be entered" in done.err) == (126, True), done.err
        assert not (work / "made").exists()


async def test_all_that_a_command_started_in_it_ends_with_it(
    context: ToolContext, made: Sandbox, work: Path
) -> None:
    if made.standing().kind == "none":
        pytest.skip(made.standing().why)
    inside = replace(context, cwd=work, wrap_command=made.wrap)
    command = "(setsid sh -c 'sleep 3; touch late' &) ; sleep 30"

    output = await shell.run(inside, shell.check({"command": command, "timeout_s": 0.3}))

    assert "timed out" in output.summary
    assert str(work) not in running()
    assert not (work / "late").exists()


async def test_the_sandbox_itself_is_not_told_as_left_running(
    context: ToolContext, made: Sandbox, work: Path
) -> None:
    if made.standing().kind == "none":
        pytest.skip(made.standing().why)
    inside = replace(context, cwd=work, wrap_command=made.wrap)

    for _ in range(8):
        output = await shell.run(inside, shell.check({"command": "true"}))
        assert output.text == "(no output)\n[exit status 0]"


def running() -> str:
    """The argument lists of all processes."""
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(texts)
