"""The profile for macOS, which no machine here enforces: its rules are read as Seatbelt documents
them, the last one that matches deciding."""

import ast
import os
import re
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kode.sandbox.reach import Access, Grants, Reach, VisiblePlace, to_seatbelt
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import find_fault
from tests.sandbox.sandboxed import ran
from tests.tables import for_each
from tests.workplaces import workplace

TOKEN = re.compile(r'[()]|#?"(?:[^"\\]|\\.)*"|[^\s()"]+')


def parsed(text: str) -> list[Any]:
    """The expressions of a profile, as nested lists of words."""
    words = (
        {"(": "[", ")": "],"}.get(word, f"{word.removeprefix('#').strip(chr(34))!r},")
        for word in TOKEN.findall(text)
    )
    return list(ast.literal_eval(f"[{' '.join(words)}]"))


@dataclass(frozen=True)
class Rules:
    """A profile that answers what it allows."""

    rules: list[Any]
    parameters: dict[str, str]

    def allows(self, operation: str, path: str) -> bool:
        if operation == "write":
            ways = ("data", "create", "unlink", "mode", "xattr", "owner", "flags", "times")
            return any(self.allows(f"file-write-{way}", path) for way in ways)
        allowed = False
        for verb, *words in self.rules[1:]:
            filters = [word for word in words if isinstance(word, list)]
            matches = not filters or any(self.matches(each, path) for each in filters)
            named = [
                re.escape(word).replace(r"\*", ".*") for word in words if isinstance(word, str)
            ]
            if matches and any(re.fullmatch(name, operation) for name in named):
                allowed = verb == "allow"
        return allowed

    def matches(self, condition: list[Any], path: str) -> bool:
        kind, *values = condition
        if kind in ("remote", "local"):
            return values == ["ip", "*:*"] and not path.startswith("/")
        if kind == "require-all":
            return all(self.matches(value, path) for value in values)
        value = self.parameters[values[0][1]] if isinstance(values[0], list) else values[0]
        if kind == "regex":
            return re.search(value, path) is not None
        if kind.endswith("-prefix"):
            return path.startswith(value)
        below = kind == "subpath" and path.startswith(value.rstrip("/") + "/")
        return path == value or below


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in (".ssh", ".kode", "work/sub", "work/.git", ".local/bin"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def opened(home: Path, grants: str = "") -> Sandbox:
    place = workplace(home / "work", home=home / ".kode")
    given = Grants(network="network" in grants, project="project" in grants)
    return Sandbox(place=place, grants=given)


GIT = (
    "work/.git/config work/.git/hooks/post-commit work/.git/HOOKS/x work/.git/modules/a/config "
    "work/.GIT/Config work/sub/.git/hooks/x work/sub/.git/hoo\u212as/x work/.git work/sub/.git "
    "work/.git/worktrees/a/commondir"
)
RECORDS = "work/.git/objects/ab/cdef work/.git/index.lock work/.git/refs/heads/main work/.git/HEAD"
READ, LOOK, UNLINK = "file-read-data", "file-read-metadata", "file-write-unlink"
SERVICES = (
    "x com.apple.SecurityServer com.apple.securityd com.apple.pasteboard.1 "
    "com.apple.cfprefsd.agent com.apple.coreservices.launchservicesd"
)
"""Those of keys, the clipboard, preferences and other programs."""


@cache
def rules_in(home: Path, grants: str) -> tuple[Rules, str]:
    """The rules for a home with these grants, and the folder for temporary files."""
    sandbox = opened(home, grants)
    reach, tmp = sandbox.reach("seatbelt"), sandbox.temporary_folder()
    _, _, text, *options = to_seatbelt(reach.hide([home / "work/sub/.env"]))
    return Rules(parsed(text), dict(option.split("=", 1) for option in options[1::2])), tmp


@for_each(
    ("grants", "operation", "paths", "allowed"),
    [
        ("", "write", "~/tmp/x", True),
        ("", "write", "/ /tmp/x /private/tmp/x ~/x ~/work/x ~/work/sub/.env /etc/hosts", False),
        ("project", "write", "~/work/x ~/" + RECORDS.replace(" ", " ~/"), True),
        ("project", "write", "~/work/sub/.env", False),
        ("", READ, "~/work ~/work/a/b ~/work/sub/other ~/.local/bin/tool", True),
        ("", READ, "/usr/bin/env ~/tmp/x", True),
        ("", READ, "~/.ssh/id ~/.kode/config.json ~/.kode ~/notes ~/Library/Keychains/x ~", False),
        *((grants, READ, "~/work/sub/.env", False) for grants in ("", "project")),
        ("project", READ, "~/work/sub/other", True),
        # Folders above what is shown only exist, and none can be moved away.
        ("", LOOK, "~", True),
        ("", LOOK, "~/.ssh", False),
        ("project", UNLINK, "~/work ~/work/sub ~/work/.git", False),
        ("project", UNLINK, "~/work/sub/other", True),
        *(
            ("project", f"file-write-{way}", "~/" + GIT.replace(" ", " ~/"), False)
            for way in ("create", "data", "unlink")
        ),
        *(("", name, "/", False) for name in ("file-link", "file-mount", "appleevent-send")),
        *(("", name, "/", False) for name in ("job-creation", "mach-register")),
        # The network only where the settings say so, and no unix socket.
        *(
            (grants, f"network-{way}", paths, allowed)
            for way in ("outbound", "bind", "inbound")
            for grants, paths, allowed in (
                ("", "localhost:80 /var/run/docker.sock ~/work/agent /private/tmp/x", False),
                ("network", "localhost:80", True),
                ("network", "/var/run/docker.sock ~/work/agent /private/tmp/x", False),
            )
        ),
        *((grants, "mach-lookup", SERVICES, False) for grants in ("", "network")),
        # Neither arguments nor variables of other processes.
        ("", "sysctl-read", "kern.proc.all kern.procargs2 kern.procargs2.1", False),
        ("", "sysctl-read", "kern.osrelease hw.ncpu", True),
    ],
)
def test_a_profile_allows_what_is_listed_and_nothing_else(
    home: Path, grants: str, operation: str, paths: str, allowed: bool
) -> None:
    made, tmp = rules_in(home, grants)
    assert made.rules[:2] == [["version", "1"], ["deny", "default"]]
    for path in paths.split():
        path = path.replace("~/tmp", tmp, 1).replace("~", str(home), 1)
        assert made.allows(operation, path) is allowed, path


@for_each("access", ["readable", "writable", "hidden"])
def test_no_path_is_part_of_the_program_text(access: Access) -> None:
    path = Path('/quokka\\"') / '") (allow default) ("'
    made = Reach(places=(VisiblePlace(path, access),), temporary="/quokka", network="none")
    _, _, text, *options = to_seatbelt(made)
    assert "quokka" not in text
    assert f"P0={path}" in options


def test_a_program_that_limits_nothing_is_found_out(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that says it is a Mac; what it runs gets the private folder without sockets."""
    program = tmp_path / "sandbox-exec"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -p ] || exit 64\nshift 2\n'
        'while [ "$1" = -D ]; do shift 2; done\nexec "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("kode.sandbox.reach.SEATBELT", str(program))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    (home / ".kode" / "config.json").write_text("{}")
    made = opened(home)

    fault = find_fault(made, "seatbelt")
    for leak in (f"reads {home}/.kode/config.json", f"writes {home}/work", "has a network"):
        assert leak in fault
    assert made.support().kind == "none"
    attempt = made.begin(kind="seatbelt")
    command = 'echo "$TMPDIR:$SSH_AUTH_SOCK"; rm /nowhere; echo EPERM: Operation not permitted'
    done = ran(attempt.wrap(("/bin/sh", "-c", command)), home / "work", dict(os.environ))
    assert done.out.splitlines()[0] == f"{made.temporary_folder()}:"
    assert attempt.ended.is_set()
    assert attempt.find_blocked(done.out)
    assert not attempt.find_blocked(done.err)
