"""What package managers and builds would do: their subcommands decide."""

import os
import re

from kode.permissions import sensitive
from kode.permissions.shell import table
from kode.permissions.shell.development import guarded
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    deletes_remotely,
    destructive,
    development,
    network,
    safe,
    system,
    together,
    unknown,
    with_more,
    write,
)
from kode.permissions.shell.options import has_flag, has_option, option_values, positionals
from kode.permissions.shell.paths import absolute, deletes_path, secrets_named, writes_path
from kode.permissions.shell.words import Word
from kode.permissions.shell.wrappers import after_options


def npm(words: list[Word], scene: Scene) -> Finding:
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
    lists_scripts = sub in ("run", "run-script") and not arguments
    if name == "npm" and (lists_scripts or sub in ("ls", "list", "ll", "la", "root", "prefix")):
        return safe("asks the package manager")
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
            return guarded(arguments, scene)
        case "ls" | "list" | "ll" | "la" | "why" | "explain" | "pkg" | "root" | "prefix" | "bin":
            return development("asks the package manager") if sub != "pkg" else write()
        case "unpublish" | "deprecate" | "owner" | "access" | "dist-tag":
            return deletes_remotely("takes back what was published")
        case "exec" | "dlx" | "x" | "create" | "init":
            if sub == "init" and (not positionals(arguments)):
                return write("makes a package file")
            if has_option(arguments, "-c", "--call"):
                return npx([Word("npx"), *arguments], scene)
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
            guarded(rest, scene)
            if sub in table.DEVELOPMENT or ":" in sub
            else unknown("a script of the project")
        )
    return unknown("a command of the package manager")


def npx(words: list[Word], scene: Scene) -> Finding:
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
            guarded(rest[1:], scene)
            if rest[0].text in table.DEVELOPMENT
            else unknown("runs a package")
        )
    return with_more(network("downloads and runs a package"), grave)


def pip(words: list[Word], scene: Scene) -> Finding:
    rest = after_options(words[1:], ["--python", "--log", "--proxy"])
    match rest[0].text if rest else "":
        case "list" | "show" | "freeze" | "check" if not has_option(
            words[1:], "--outdated", "-o", "--uptodate", "--log", "--python", "--path", "--proxy"
        ):
            return together(safe("asks the package manager"), *secrets_named(rest, scene))
        case "list" | "show" | "freeze" | "check" | "inspect" | "debug":
            return development("asks the package manager")
        case "--version" | "--help" | "help" | "":
            return safe("prints")
        case "uninstall":
            return unknown("removes packages")
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


def runner(words: list[Word], scene: Scene) -> Finding:
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
    if sub == "version" and len(rest) > 1:
        return write("changes the project's version")
    if sub in ("", "--version", "--help", "help", "version", "-V"):
        return safe("prints")
    if sub == "pip":
        return pip(rest, scene)
    if sub in ("tool", "x"):
        return network("downloads and runs a package")
    if sub in ("show", "tree", "list", "env", "check", "info", "which", "python", "config"):
        given = [w.text for w in rest[1:]]
        if sub == "config" and len(given) > 1:
            return system("changes settings")
        return development("asks the package manager") if sub != "python" else network("installs")
    if sub in ("build", "test", "fmt", "format", "lint", "typecheck"):
        return guarded(rest[1:], scene)
    if sub == "venv":
        if has_option(rest, "--clear", "-c"):
            targets = positionals(rest[1:]) or [Word(".venv")]
            return together(write(), *(deletes_path(w, scene) for w in targets))
        return together(
            write("makes an environment"), *(writes_path(w, scene) for w in positionals(rest[1:]))
        )
    if sub in ("init", "new"):
        return write("makes a project")
    if sub == "cache":
        return system("clears a cache of the whole user")
    return network("installs packages or publishes one")


def cargo(words: list[Word], scene: Scene) -> Finding:
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
            return guarded(rest[1:], scene)
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
            return deletes_remotely("takes back what was published")
        case "login" | "logout":
            return system("changes keys")
    return network("installs or publishes packages")


def go(words: list[Word], scene: Scene) -> Finding:
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
            return guarded(rest[1:], scene) if sub != "generate" else unknown("runs generators")
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


def make(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--eval", "-E") or any(
        re.match(r"(SHELL|\.SHELLFLAGS|MAKEFLAGS|CC|CXX)\s*[:+?]?=", w.text) for w in words[1:]
    ):
        return unknown("steers what make runs")
    if has_flag(words[1:], "-n", "--dry-run", "--just-print", valued="CfIjloOW"):
        return development("shows what make would run")
    folders = option_values(words[1:], ("--directory", "-C", "--file", "-f"))
    if any(
        (path := absolute(w, scene)) is None or sensitive.place(path, scene.where) != "root"
        for w in folders
    ):
        return unknown("works in another folder")
    return guarded(words[1:], scene)


def mix(words: list[Word], scene: Scene) -> Finding:
    sub = words[1].text if len(words) > 1 else ""
    if re.match(r"ecto\.(?:drop|reset|rollback)", sub):
        return destructive("deletes a database")
    if re.match(r"(?:deps|hex|local|archive|escript)(?:\.|$)", sub):
        return network("fetches packages")
    if sub in ("test", "compile", "credo", "dialyzer", "docs", "xref"):
        return guarded(words[2:], scene)
    return write("formats files") if sub == "format" else unknown("runs a task of the project")


def cmake(words: list[Word], scene: Scene) -> Finding:
    """`cmake -E` is a small shell, `-P` runs a script."""
    if len(words) > 2 and words[1].text == "-E":
        inner = words[2:]
        if inner[0].text in ("remove", "remove_directory"):
            inner = [Word("rm"), *inner[1:]]
        return with_more(unknown("runs a command of its own"), scene.run_words(inner))
    if any(word.text in ("-P", "--install", "--open") for word in words[1:]):
        return unknown("installs, or runs a script")
    return guarded(words[1:], scene)


def dotnet(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "build" | "test" | "format" | "msbuild" | "vstest" | "pack":
            return guarded(words[2:], scene)
        case "restore" | "add" | "nuget" | "tool" | "publish" | "workload":
            return network("installs packages")
        case "--version" | "--info" | "--list-sdks":
            return safe("prints")
        case "clean":
            return write()
    return unknown("runs a program")


def ruby_tool(words: list[Word], scene: Scene) -> Finding:
    match words[1].text if len(words) > 1 else "":
        case "install" | "update" | "add" | "fetch" | "push" | "outdated" | "require" | "search":
            return network("installs packages")
        case "list" | "show" | "env" | "info" | "check":
            return development("asks the package manager")
        case "test" | "run-script" | "validate" | "lint":
            return guarded(words[2:], scene)
        case "exec":
            return (
                with_more(development(), scene.run_words(words[2:]))
                if len(words) > 2
                else (unknown("runs a command"))
            )
        case "yank":
            return deletes_remotely("takes back what was published")
        case "uninstall" | "remove":
            return unknown("removes packages")
    return unknown("a command of the package manager")


def rails(words: list[Word], scene: Scene) -> Finding:
    text = " ".join(w.text for w in words[1:])
    if re.search(r"db:(drop|reset|purge|truncate|rollback)|flush|reset_db|sqlflush", text):
        return destructive("deletes a database")
    if words[0].text == "rake":
        return guarded(words[1:], scene)
    tested = words[1:] and words[1].text in ("test", "spec")
    return guarded(words[2:], scene) if tested else unknown("runs the project")
