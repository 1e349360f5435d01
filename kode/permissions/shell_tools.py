"""Development tools, package managers, containers, databases and clouds: their subcommands decide.

Git has a module of its own; commands on files are in `shell_verbs`.
"""

import os
import re
from collections.abc import Callable

from kode.permissions import sensitive
from kode.permissions import shell_table as table
from kode.permissions.shell_judge import (
    Finding,
    Scene,
    absolute,
    destructive,
    development,
    has_option,
    network,
    option_values,
    positionals,
    reads_path,
    safe,
    system,
    together,
    unknown,
    with_more,
    write,
    writes_path,
)
from kode.permissions.shell_words import UNKNOWN, Word
from kode.permissions.shell_wrappers import after_options, interpreter_input


def development_tool(words: list[Word], scene: Scene) -> Finding:
    """A test runner, linter, type checker or build: the project's own code runs."""
    return _guarded(words[1:], scene)


def _guarded(arguments: list[Word], scene: Scene) -> Finding:
    """Development, unless the arguments point outside the project or mean more than a build."""
    for word in arguments:
        text = word.text.lower()
        steps = re.split(r"[:/_.-]", text) if not text.startswith("-") else []
        if table.NEVER_DEVELOPMENT & set(steps) and "/" not in text and "." not in text:
            return unknown("does more than build or test")
        if not word.known:
            return unknown("arguments are not known beforehand")
        value = word.text.split("=", 1)[1] if "=" in word.text else word.text
        if value.startswith(("/", "~", "../")) or "/../" in value:
            path = absolute(Word(value), scene)
            if path is None or sensitive.place(path, scene.where) not in ("root", "temp"):
                return unknown("works outside the project")
        if re.search(r"[;|&`$]", word.text):
            return unknown("text that may be run")
    return development()


def _losing(words: list[Word]) -> Finding | None:
    text = " ".join(word.text for word in words)
    if re.search(table.LOSING_WORDS, text, re.IGNORECASE):
        return destructive("its program text deletes, or runs a shell")
    return None


# ── interpreters ─────────────────────────────────────────────────────────────────────────────


def _python(words: list[Word], scene: Scene) -> Finding:
    rest = words[1:]
    while rest and re.fullmatch(r"-[BEIOsSuvqxbPd]+|-[WX].*", rest[0].text):
        rest = rest[2:] if rest[0].text in ("-W", "-X") else rest[1:]
    if not rest:
        return interpreter_input(scene) or unknown("an interpreter of its own")
    if rest[0].text in ("--version", "-V", "-VV", "--help", "-h"):
        return safe("prints its version or help")
    if rest[0].text == "-m" and len(rest) > 1:
        return _python_module(rest[1], rest[2:], scene)
    if rest[0].text == "-":
        return interpreter_input(scene) or unknown("runs what comes in")
    return _interpreter(words, scene)


def _python_module(module: Word, rest: list[Word], scene: Scene) -> Finding:
    match module.text:
        case "pip" | "pip3":
            return _pip([Word("pip"), *rest], scene)
        case "json.tool":
            given = positionals(rest, ("--indent",))
            return together(
                safe("prints"),
                *(reads_path(w, scene) for w in given[:1]),
                *(writes_path(w, scene, replaces=True) for w in given[1:]),
            )
        case "venv" | "virtualenv":
            return together(
                write("makes an environment"), *(writes_path(w, scene) for w in positionals(rest))
            )
        case "http.server":
            served = option_values(rest, ("--directory", "-d"))
            inside = all(reads_path(w, scene).klass == "safe" for w in served)
            return (
                network("serves files to other machines")
                if inside
                else system("serves files outside the project to other machines")
            )
        case "ruff" | "black" | "isort":
            return with_more(safe("runs a module"), scene.run_words([module, *rest]))
        case "timeit" | "calendar" | "this" | "site" if not rest:
            return safe("prints")
        case name if name in table.DEVELOPMENT or name in (
            "build",
            "doctest",
            "compileall",
            "py_compile",
            "mypy",
            "pyright",
        ):
            return _guarded(rest, scene)
    return unknown("runs a module")


def _interpreter(words: list[Word], scene: Scene) -> Finding:
    rest = words[1:]
    if scene.downloads:
        return destructive("runs what it just downloaded")
    losing = (
        _losing(rest)
        if any(
            re.match(r"-[a-zA-Z]*[ceEr]", w.text) or w.text in ("--eval", "--print", "eval")
            for w in rest
        )
        else None
    )
    if losing:
        return losing
    if not positionals(rest):
        piped = interpreter_input(scene)
        if piped and not rest:
            return piped
    if (
        scene.feed is not None
        and any(part.klass == "network" for part in scene.feed.parts)
        and (not rest or rest[-1].text in ("-", "/dev/stdin"))
    ):
        return destructive("runs what it just downloaded")
    leaks = [read for w in rest if (read := reads_path(w, scene)).secret]
    return together(unknown("an interpreter, which may do anything"), *leaks)


def _node(words: list[Word], scene: Scene) -> Finding:
    if len(words) > 1 and words[1].text == "--test":
        return _guarded(words[2:], scene)
    if len(words) == 2 and words[1].text in ("-v", "--version"):
        return safe("prints its version")
    return _interpreter(words, scene)


# ── package managers ─────────────────────────────────────────────────────────────────────────


def _npm(words: list[Word], scene: Scene) -> Finding:
    name = os.path.basename(words[0].text)
    rest = after_options(
        words[1:], ["--prefix", "-C", "--dir", "--cwd", "-w", "--workspace", "--filter", "-F"]
    )
    before = words[1 : len(words) - len(rest)]
    if before and any(w.text.startswith(("/", "~", "..")) for w in before):
        return unknown("works in another folder")
    if not rest:
        return network("installs packages") if name == "yarn" else safe("prints help")
    sub, arguments = rest[0].text, rest[1:]
    if has_option(arguments, "-g", "--global"):
        return system("installs for the whole machine")
    match sub:
        case (
            "test"
            | "t"
            | "tst"
            | "run"
            | "run-script"
            | "build"
            | "lint"
            | "format"
            | "check"
            | "typecheck"
            | "type-check"
            | "test:unit"
            | "start:test"
            | "coverage"
            | "tsc"
        ):
            return _guarded(arguments, scene)
        case "ls" | "list" | "ll" | "la" | "why" | "explain" | "pkg" | "root" | "prefix" | "bin":
            return development("asks the package manager") if sub != "pkg" else write()
        case "unpublish" | "deprecate" | "owner" | "access" | "dist-tag":
            return destructive("takes back what was published")
        case "exec" | "dlx" | "x" | "create" | "init":
            if sub == "init" and (not positionals(arguments)):
                return write("makes a package file")
            if has_option(arguments, "-c", "--call"):
                return _npx([Word("npx"), *arguments], scene)
            return network("downloads and runs a package")
        case "config" | "set" | "login" | "adduser" | "token" | "logout":
            return system("changes settings or hands out tokens")
        case "publish":
            return network("publishes a package")
        case "cache":
            return (
                write("clears a cache")
                if "clean" not in [w.text for w in arguments]
                else (system("clears a cache of the whole user"))
            )
        case "start" | "stop" | "restart" | "dev" | "serve" | "preview":
            return unknown("starts the project")
        case (
            "install"
            | "i"
            | "ci"
            | "add"
            | "update"
            | "upgrade"
            | "up"
            | "audit"
            | "outdated"
            | "view"
            | "info"
            | "show"
            | "search"
            | "fund"
            | "dedupe"
            | "rebuild"
            | "link"
            | "remove"
            | "uninstall"
            | "un"
            | "rm"
            | "import"
            | "fetch"
            | "pack"
            | "doctor"
            | "ping"
            | "whoami"
            | "install-test"
            | "it"
            | "prune"
            | "clean-install"
            | "pm"
            | "unlink"
            | "self-update"
            | "version"
            | "workspaces"
            | "workspace"
        ):
            return network("installs packages or asks their registry")
    if name in ("yarn", "pnpm", "bun"):
        return (
            _guarded(rest, scene)
            if sub in table.DEVELOPMENT or ":" in sub
            else unknown("a script of the project")
        )
    return unknown("a command of the package manager")


def _npx(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-c", "--call"):
        return with_more(
            network("downloads and runs a package"),
            [
                part
                for value in option_values(words[1:], ("--call", "-c"))
                for part in scene.run_text(value.text)
                if part.klass in ("system", "destructive")
            ],
        )
    rest = after_options(words[1:], ["-p", "--package"])
    inner = scene.run_words(rest) if rest else ()
    grave = [part for part in inner if part.klass in ("system", "destructive")]
    if has_option(words[1:], "--no-install", "--no", "--offline") and not grave and rest:
        return (
            _guarded(rest[1:], scene)
            if rest[0].text in table.DEVELOPMENT
            else unknown("runs a package")
        )
    return with_more(network("downloads and runs a package"), grave)


def _pip(words: list[Word], scene: Scene) -> Finding:
    rest = after_options(words[1:], ["--python", "--log", "--proxy"])
    match rest[0].text if rest else "":
        case "list" | "show" | "freeze" | "check" | "inspect" | "debug":
            return development("asks the package manager")
        case "--version" | "--help" | "help" | "":
            return safe("prints")
        case "uninstall":
            return write("removes packages") if rest else unknown("")
        case "config" | "cache":
            return (
                system("changes settings of the user")
                if len(rest) > 1 and rest[1].text in ("set", "unset", "edit", "purge", "remove")
                else unknown("asks its settings")
            )
    targets = option_values(rest, ("--target", "--prefix", "--root"))
    return together(
        network("installs packages, which runs their code"),
        *(writes_path(w, scene) for w in targets),
    )


_RUN_OPTIONS = (
    "--with --group --extra --python -p --package --env-file --directory --project -C --only-group"
).split()


def _runner(words: list[Word], scene: Scene) -> Finding:
    """uv, poetry, pipenv, hatch, pdm, rye, bundle: `run` wraps a command, the rest installs."""
    rest = after_options(words[1:], ["--directory", "--project", "-C", "-P", "-e", "--env"])
    sub = rest[0].text if rest else ""
    if sub in ("run", "exec"):
        inner = after_options(rest[1:], _RUN_OPTIONS)
        before = rest[1 : len(rest) - len(inner)]
        if any(w.text.startswith(("--with", "--env-file", "--python")) for w in before):
            return with_more(network("downloads what the command needs"), scene.run_words(inner))
        own = development("runs a command in the project's environment")
        return with_more(own, scene.run_words(inner)) if inner else own
    if sub in ("", "--version", "--help", "help", "version", "-V"):
        return safe("prints")
    if sub == "pip":
        return _pip(rest, scene)
    if sub in ("tool", "x"):
        return network("downloads and runs a package")
    if sub in ("show", "tree", "list", "env", "check", "info", "which", "python", "config"):
        given = [w.text for w in rest[1:]]
        if sub == "config" and len(given) > 1:
            return system("changes settings")
        return development("asks the package manager") if sub != "python" else network("installs")
    if sub in ("build", "test", "fmt", "format", "lint", "typecheck"):
        return _guarded(rest[1:], scene)
    if sub == "venv":
        return together(
            write("makes an environment"), *(writes_path(w, scene) for w in positionals(rest[1:]))
        )
    if sub in ("init", "new"):
        return write("makes a project")
    if sub == "cache":
        return system("clears a cache of the whole user")
    return network("installs packages or publishes one")


def _cargo(words: list[Word], scene: Scene) -> Finding:
    rest = [w for w in words[1:] if not w.text.startswith("+")]
    rest = after_options(rest, ["--config", "-Z", "--color", "-C"])
    sub = rest[0].text if rest else ""
    if any(w.text.startswith(("--config", "-Z")) for w in words[1:3]):
        return unknown("a setting that may run a program")
    match sub:
        case (
            "build"
            | "b"
            | "check"
            | "c"
            | "test"
            | "t"
            | "clippy"
            | "bench"
            | "doc"
            | "d"
            | "nextest"
            | "miri"
            | "llvm-cov"
            | "tarpaulin"
            | "expand"
            | "udeps"
            | "machete"
        ):
            return _guarded(rest[1:], scene)
        case "fmt":
            return write("formats files")
        case "tree" | "metadata" | "locate-project" | "pkgid" | "verify-project" | "read-manifest":
            return development("asks the package manager")
        case "" | "--version" | "help" | "--list" | "version":
            return safe("prints")
        case "clean":
            return write("deletes what a build makes again")
        case "new" | "init":
            return together(
                write("makes a project"), *(writes_path(w, scene) for w in positionals(rest[1:]))
            )
        case "run" | "r":
            return unknown("runs the project's program")
        case "yank" | "owner":
            return destructive("takes back what was published")
        case "login" | "logout":
            return system("changes keys")
    return network("installs or publishes packages")


def _go(words: list[Word], scene: Scene) -> Finding:
    rest = words[1:]
    sub = rest[0].text if rest else ""
    if any(
        w.text.startswith(
            ("-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "-overlay", "-C")
        )
        for w in rest
    ):
        return unknown("runs another program")
    match sub:
        case "build" | "test" | "vet" | "tool" | "generate":
            return _guarded(rest[1:], scene) if sub != "generate" else unknown("runs generators")
        case "fmt" | "fix":
            return write("formats files")
        case "version" | "help" | "doc" | "":
            return safe("prints")
        case "env":
            return (
                system("changes settings of the user")
                if has_option(rest, "-w", "-u")
                else (development("asks its settings"))
            )
        case "list":
            return development("asks the package manager")
        case "mod":
            what = rest[1].text if len(rest) > 1 else ""
            if what in ("init", "edit", "vendor"):
                return write() if what != "vendor" else network("fetches modules")
            if what in ("graph", "why", "verify"):
                return development("asks the package manager")
            return network("fetches modules")
        case "clean":
            return (
                write("deletes what a build makes again")
                if not has_option(rest, "-modcache", "-cache")
                else system("deletes caches of the user")
            )
        case "get" | "install" | "work":
            return network("fetches modules")
    return unknown("runs code")


def _make(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--eval", "-E") or any(
        re.match(r"(SHELL|\.SHELLFLAGS|MAKEFLAGS|CC|CXX)\s*[:+?]?=", w.text) for w in words[1:]
    ):
        return unknown("steers what make runs")
    if has_option(words[1:], "-n", "--dry-run", "--just-print"):
        return development("shows what make would run")
    folders = option_values(words[1:], ("--directory", "-C", "--file", "-f"))
    if any(
        (path := absolute(w, scene)) is None or sensitive.place(path, scene.where) != "root"
        for w in folders
    ):
        return unknown("works in another folder")
    return _guarded(words[1:], scene)


def _dotnet(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "build" | "test" | "format" | "msbuild" | "vstest" | "pack":
            return _guarded(words[2:], scene)
        case "restore" | "add" | "nuget" | "tool" | "publish" | "workload":
            return network("installs packages")
        case "--version" | "--info" | "--list-sdks":
            return safe("prints")
        case "clean":
            return write()
    return unknown("runs a program")


def _ruby_tool(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "install" | "update" | "add" | "fetch" | "push" | "outdated" | "require" | "search":
            return network("installs packages")
        case "list" | "show" | "env" | "info" | "check":
            return development("asks the package manager")
        case "test" | "run-script" | "validate" | "lint":
            return _guarded(words[2:], scene)
        case "exec":
            return (
                with_more(development(), scene.run_words(words[2:]))
                if len(words) > 2
                else (unknown("runs a command"))
            )
        case "uninstall" | "yank" | "remove":
            return write("removes packages")
    return unknown("a command of the package manager")


def _rails(words: list[Word], scene: Scene) -> Finding:
    text = " ".join(w.text for w in words[1:])
    if re.search(r"db:(drop|reset|purge|truncate|rollback)|flush|reset_db|sqlflush", text):
        return destructive("deletes a database")
    if words[0].text == "rake":
        return _guarded(words[1:], scene)
    tested = words[1:] and words[1].text in ("test", "spec")
    return _guarded(words[2:], scene) if tested else unknown("runs the project")


def _deno(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "test" | "lint" | "check" | "bench":
            return _guarded(words[2:], scene)
        case "fmt":
            return write("formats files")
        case "install" | "add" | "cache":
            return network("installs packages")
    return _interpreter(words, scene)


# ── containers, databases, clouds ────────────────────────────────────────────────────────────


def _docker(words: list[Word], scene: Scene) -> Finding:
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
        return _compose([Word("docker-compose"), *inner], scene)
    sub = subs[0] if subs else ""
    second = subs[1] if len(subs) > 1 else ""
    if sub in ("run", "create") or (sub == "container" and second in ("run", "create")):
        return _docker_run(rest, scene)
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


def _compose(words: list[Word], scene: Scene) -> Finding:
    sub = words[1].text if len(words) > 1 else ""
    if sub == "down" and has_option(words[1:], "-v", "--volumes", "--rmi"):
        return destructive("deletes volumes")
    if sub == "rm":
        return destructive("deletes containers")
    if sub in ("pull", "push"):
        return network("talks to a registry")
    return unknown("containers may do anything")


def _cloud(words: list[Word], scene: Scene) -> Finding:
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
        return destructive("deletes what is in the cloud")
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


def _infrastructure(words: list[Word], scene: Scene) -> Finding:
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


def _database(words: list[Word], scene: Scene) -> Finding:
    found = _losing(words[1:])
    if found:
        return found
    lost = _LOSING_ARGUMENTS.get(words[0].text, set())
    if any(w.text.lower() in lost for w in words[1:]):
        return destructive("deletes from a database")
    if scene.feed is not None and scene.feed.text is not None:
        fed = _losing([Word(scene.feed.text)])
        if fed:
            return fed
    leaks = [read for w in words[1:] if (read := reads_path(w, scene)).secret]
    return together(unknown("asks a database, which may do anything"), *leaks)


def _gh(words: list[Word], scene: Scene) -> Finding:
    texts = [w.text for w in words[1:]]
    if set(texts[:3]) & {"delete", "archive", "remove", "close-all"}:
        return destructive("deletes what is on the server")
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
        return destructive("deletes what is on the server")
    return network("talks to the server")


def _openssl(words: list[Word], scene: Scene) -> Finding:
    sub = words[1].text if len(words) > 1 else ""
    if sub in ("s_client", "s_server", "ocsp"):
        return network("talks to another machine")
    leaks = [read for w in words[1:] if (read := reads_path(w, scene)).secret]
    outputs = [writes_path(w, scene, replaces=True) for w in option_values(words[1:], ("-out",))]
    if sub == "version":
        return safe("prints its version")
    return together(unknown("works with keys"), *leaks, *outputs)


def _man(words: list[Word], scene: Scene) -> Finding:
    return unknown("opens a pager, which can run programs")


def _serves(words: list[Word], scene: Scene) -> Finding:
    return network("talks to other machines")


Tool = Callable[[list[Word], Scene], Finding]


def _same(judge: Tool, names: str) -> dict[str, Tool]:
    return dict.fromkeys(names.split(), judge)


TOOLS: dict[str, Tool] = {
    **_same(_python, "python python2 python3 pypy pypy3"),
    **_same(
        _interpreter,
        "perl ruby php lua luajit R Rscript julia groovy scala irb ghci tclsh elixir "
        "osascript kotlin swift",
    ),
    **_same(_node, "node ts-node tsx"),
    **_same(_deno, "deno"),
    **_same(_npm, "npm yarn pnpm bun"),
    **_same(_npx, "npx bunx pnpx pipx uvx"),
    **_same(_pip, "pip pip3 pip2 conda mamba micromamba"),
    **_same(_runner, "uv poetry pipenv hatch pdm rye"),
    **_same(_cargo, "cargo"),
    **_same(_go, "go"),
    **_same(_make, "make gmake"),
    **_same(_dotnet, "dotnet"),
    **_same(_ruby_tool, "bundle gem composer"),
    **_same(_rails, "rails rake"),
    **_same(_docker, "docker podman nerdctl"),
    **_same(_compose, "docker-compose podman-compose"),
    **_same(
        _cloud,
        "kubectl oc helm aws gcloud gsutil az oci doctl linode-cli hcloud heroku fly "
        "flyctl vercel netlify railway wrangler firebase eksctl argocd s3cmd s5cmd mc "
        "rclone bq openstack ibmcloud",
    ),
    **_same(_infrastructure, "terraform tofu pulumi cdk terragrunt"),
    **_same(
        _database,
        "psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh clickhouse-client "
        "influx mysqladmin pg_restore sqlcmd duckdb",
    ),
    **_same(_gh, "gh glab hub tea"),
    **_same(_openssl, "openssl"),
    **_same(_man, "man info"),
}
