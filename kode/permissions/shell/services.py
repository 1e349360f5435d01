"""What clients of containers, databases, clouds and forges would do: their subcommands decide.

Commands that copy to and from other machines are in `remote`.
"""

import re

from kode.permissions import sensitive
from kode.permissions.shell.development import losing
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    deletes_remotely,
    destructive,
    network,
    safe,
    system,
    together,
    unknown,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import absolute, reads_path, writes_path
from kode.permissions.shell.words import UNKNOWN, Word
from kode.permissions.shell.wrappers import after_options

_DOCKER_LOOKS = (
    ("ps",),
    ("images",),
    *((kind, "ls") for kind in ("container", "image", "volume", "network")),
)


def docker(words: list[Word], scene: Scene) -> Finding:
    rest = after_options(
        words[1:],
        [
            "-H",
            "--host",
            "-c",
            "--context",
            "-f",
            "--file",
            "-p",
            "--project-name",
            "--env-file",
            "--config",
            "--profile",
        ],
    )
    if has_option(words[1 : len(words) - len(rest)], "-H", "--host"):
        return unknown("talks to another machine's containers")
    subs = [w.text for w in rest if not w.text.startswith("-")][:2]
    if subs[:1] == ["compose"]:
        inner = after_options(rest[1:], ["-f", "--file", "-p", "--project-name", "--profile"])
        return compose([Word("docker-compose"), *inner], scene)
    sub = subs[0] if subs else ""
    second = subs[1] if len(subs) > 1 else ""
    if sub in ("run", "create") or (sub == "container" and second in ("run", "create")):
        return _docker_run(rest, scene)
    looks = (sub,) if sub in ("ps", "images") else (sub, second)
    if looks in _DOCKER_LOOKS and words[1:2] == rest[:1]:
        return safe("lists containers or images")
    if sub in ("rm", "rmi", "prune") or second in ("rm", "prune", "remove", "rmi"):
        return destructive("deletes containers, images or volumes")
    if sub in ("pull", "push", "login", "search", "logout"):
        return network("talks to a registry")
    if sub in ("kill", "stop", "restart", "swarm", "node", "service", "stack", "plugin"):
        return system("changes running containers")
    if sub == "cp":
        given = positionals(rest[1:])
        return together(
            unknown("copies to or from a container"),
            *(writes_path(w, scene) for w in given[1:2] if ":" not in w.text),
        )
    if sub == "exec":
        return unknown("runs a command in a container")
    return unknown("containers may do anything")


def _docker_run(rest: list[Word], scene: Scene) -> Finding:
    texts = [w.text for w in rest]
    if any(
        re.match(
            r"--(privileged|pid=host|net(?:work)?=host|cap-add|device|ipc=host|userns=host"
            r"|security-opt|volumes-from)",
            text,
        )
        for text in texts
    ):
        return system("a container with rights on the machine")
    mounts = option_values(rest, ("--volume", "-v", "--mount"))
    for mount in mounts:
        match = re.search(r"(?:source|src)=([^,]+)", mount.text)
        source = match[1] if match else mount.text.split(":", 1)[0]
        if not source.startswith(("/", "~", ".", UNKNOWN)):
            continue
        path = absolute(Word(source), scene)
        if path is None or sensitive.place(path, scene.where) != "root":
            return system("gives a container folders of the machine")
    return unknown("runs a container")


def compose(words: list[Word], scene: Scene) -> Finding:
    sub = words[1].text if len(words) > 1 else ""
    if sub == "down" and has_option(words[1:], "-v", "--volumes", "--rmi"):
        return destructive("deletes volumes")
    if sub == "rm":
        return destructive("deletes containers")
    if sub in ("pull", "push"):
        return network("talks to a registry")
    return unknown("containers may do anything")


def cloud(words: list[Word], scene: Scene) -> Finding:
    """Clouds and clusters: deleting words are destructive, the rest talks to them."""
    texts = [w.text.lower() for w in words[1:]]
    verbs = {
        step for text in texts[:6] if not text.startswith("-") for step in re.split(r"[-_:]", text)
    }
    if verbs & {
        "delete",
        "reset",
        "rm",
        "rb",
        "destroy",
        "terminate",
        "remove",
        "purge",
        "drain",
        "deregister",
        "detach",
        "uninstall",
        "rollback",
        "wipe",
        "empty",
        "undeploy",
        "revoke",
        "flush",
        "deletecollection",
        "evict",
        "prune",
    } or has_option(words[1:], "--delete"):
        return deletes_remotely("deletes what is in the cloud")
    if verbs & {
        "secret",
        "secrets",
        "secretsmanager",
        "iam",
        "password",
        "token",
        "credential",
        "credentials",
        "config",
        "configure",
        "login",
        "kms",
        "sts",
        "auth",
    }:
        return system("reads or changes keys")
    if verbs & {"exec", "proxy", "ssh", "debug", "attach", "forward", "cp"} and not verbs & {"s3"}:
        return unknown("runs a command elsewhere")
    found = [
        writes_path(w, scene)
        for w in positionals(words[1:])[-1:]
        if "cp" in verbs and "://" not in w.text
    ]
    leaks = [read for w in words[1:] if (read := reads_path(w, scene)).secret]
    return together(network("talks to a cloud or cluster"), *found, *leaks)


def infrastructure(words: list[Word], scene: Scene) -> Finding:
    texts = [w.text for w in words[1:]]
    if "destroy" in texts or "-destroy" in texts or "down" in texts or "--destroy" in texts:
        return destructive("takes down what runs")
    if any(
        text in ("apply", "up", "import", "taint", "state", "force-unlock") for text in texts[:2]
    ):
        grave = (
            any(text in ("rm", "mv", "push") for text in texts)
            or "apply" in texts
            or ("up" in texts)
        )
        return destructive("changes what runs") if grave else unknown("changes its state")
    if texts[:1] in (["fmt"],):
        return write("formats files")
    if texts[:1] in (["version"], ["--version"], ["-version"]):
        return safe("prints its version")
    return unknown("asks for what runs elsewhere")


_LOSING_ARGUMENTS = {
    "mysqladmin": {"drop"},
    "redis-cli": {"del", "unlink", "flushall", "flushdb"},
    "pg_restore": {"--clean", "-c"},
}


def database(words: list[Word], scene: Scene) -> Finding:
    found = losing(words[1:])
    if found:
        return found
    lost = _LOSING_ARGUMENTS.get(words[0].text, set())
    if any(w.text.lower() in lost for w in words[1:]):
        return destructive("deletes from a database")
    if scene.feed is not None and scene.feed.text is not None:
        fed = losing([Word(scene.feed.text)])
        if fed:
            return fed
    leaks = [read for w in words[1:] if (read := reads_path(w, scene)).secret]
    return together(unknown("asks a database, which may do anything"), *leaks)


def gh(words: list[Word], scene: Scene) -> Finding:
    texts = [w.text for w in words[1:]]
    if set(texts[:3]) & {"delete", "archive", "remove", "close-all"}:
        return deletes_remotely("deletes what is on the server")
    if texts[:1] in (
        ["auth"],
        ["secret"],
        ["ssh-key"],
        ["gpg-key"],
        ["config"],
        ["alias"],
        ["extension"],
    ):
        return system("reads or changes keys or settings")
    if texts[:1] == ["api"] and any(re.search(r"delete", text, re.IGNORECASE) for text in texts):
        return deletes_remotely("deletes what is on the server")
    return network("talks to the server")


def openssl(words: list[Word], scene: Scene) -> Finding:
    sub = words[1].text if len(words) > 1 else ""
    if sub in ("s_client", "s_server", "ocsp"):
        return network("talks to another machine")
    leaks = [read for w in words[1:] if (read := reads_path(w, scene)).secret]
    outputs = [writes_path(w, scene, replaces=True) for w in option_values(words[1:], ("-out",))]
    if sub == "version":
        return safe("prints its version")
    return together(unknown("works with keys"), *leaks, *outputs)


def man(words: list[Word], scene: Scene) -> Finding:
    return unknown("opens a pager, which can run programs")
