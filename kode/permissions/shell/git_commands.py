"""What git commands would do that have a judge of their own; the others are judged by kind, in
`git`."""

import os
import re

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
    with_more,
    write,
)
from kode.permissions.shell.options import has_flag, has_option, option_values, positionals
from kode.permissions.shell.paths import absolute, reads_path, writes_path
from kode.permissions.shell.words import UNKNOWN, Word


def message_file(words: list[Word], scene: Scene) -> Finding:
    """The file that a message is read from."""
    files = option_values(words, ("--file", "-F", "--template", "-t"))
    return together(safe(), *(reads_path(word, scene) for word in files))


def _push(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--dry-run") or Word("-n") in words:
        return network("talks to another repository")
    if has_option(
        words,
        "-f",
        "--force",
        "--force-with-lease",
        "--force-if-includes",
        "--mirror",
        "--delete",
        "-d",
        "--prune",
    ):
        return deletes_remotely("rewrites or deletes what was pushed")
    if any(word.text.startswith(("+", ":")) for word in words):
        return deletes_remotely("rewrites or deletes what was pushed")
    if has_option(words, "--exec", "--receive-pack"):
        return unknown("runs a program on the other side")
    return network("sends commits to another repository")


def _reaching(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--upload-pack", "-u", "--exec", "--config", "-c", "--template") or any(
        word.text.startswith("ext::") for word in words
    ):
        return unknown("may run a program")
    outside = [
        writes_path(word, scene)
        for word in positionals(words)[1:]
        if word.text.startswith(("/", "~", ".."))
    ]
    return together(network("talks to another repository"), *outside)


def _fetch(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--upload-pack") or any(w.text.startswith("ext::") for w in words):
        return unknown("may run a program")
    return network("talks to another repository")


def _checkout(words: list[Word], scene: Scene) -> Finding:
    if has_option(
        words, "-f", "--force", "-p", "--patch", "--ours", "--theirs", "-m", "--pathspec-from-file"
    ):
        return destructive("discards changes that are not committed")
    texts = [word.text for word in words]
    if "--" in texts:
        behind = texts[texts.index("--") + 1 :]
        return destructive("discards changes that are not committed") if behind else write()
    if has_option(words, "-b", "-B", "--orphan", "-t", "--track", "--detach"):
        return write("switches to another commit")
    given = positionals(words)
    if len(given) > 1 or any(_looks_like_a_path(word, scene) for word in given):
        return destructive("discards changes that are not committed")
    if any(not word.known for word in given):
        return destructive("may discard changes that are not committed")
    return write("switches to another commit")


def _looks_like_a_path(word: Word, scene: Scene) -> bool:
    text = word.text
    if word.glob or text in (".", "..") or text.endswith("/") or text.startswith(("./", ":")):
        return True
    if re.search(r"\.(?!\d)\w{1,5}$", text):
        return True
    path = absolute(word, scene)
    return path is not None and UNKNOWN not in path and os.path.exists(path)


def _restore(words: list[Word], scene: Scene) -> Finding:
    staged = has_flag(words, "--staged", "-S", valued="sU")
    if staged and not has_option(words, "--worktree", "-W"):
        return write("takes files out of the next commit")
    return destructive("discards changes that are not committed")


def _reset(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--hard", "--merge", "--keep"):
        return destructive("discards changes that are not committed")
    return write("moves the branch or takes files out of the next commit")


def _clean(words: list[Word], scene: Scene) -> Finding:
    if has_flag(words, "-n", "--dry-run", valued="e"):
        return safe("only lists what would go")
    return destructive("deletes files that are in no commit")


def _stash(words: list[Word], scene: Scene) -> Finding:
    match words[0].text if words else "push":
        case "list" | "show":
            outputs = option_values(words, ("--output",))
            shown = (writes_path(w, scene, replaces=True) for w in outputs)
            return together(safe("reads the repository"), *shown)
        case "drop" | "clear":
            return destructive("throws stashed changes away")
        case "push" | "save" | "apply" | "pop" | "branch" | "create" | "store":
            return write("moves changes to or from the stash")
        case text if text.startswith("-"):
            return write("moves changes to or from the stash")
    return unknown("not a known stash command")


def _branch(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "-D") or (
        has_option(words, "-d", "--delete") and has_option(words, "-f", "--force")
    ):
        return destructive("deletes a branch that may not be merged")
    if has_option(
        words,
        "-d",
        "--delete",
        "-m",
        "--move",
        "-M",
        "-c",
        "--copy",
        "-C",
        "-f",
        "--force",
        "-u",
        "--set-upstream-to",
        "--unset-upstream",
        "-t",
        "--track",
    ):
        return write("changes branches")
    if has_option(words, "--edit-description"):
        return unknown("opens an editor")
    given = positionals(
        words,
        (
            "--sort",
            "--format",
            "--contains",
            "--no-contains",
            "--merged",
            "--no-merged",
            "--points-at",
            "--color",
        ),
    )
    listing = has_option(
        words,
        "-l",
        "--list",
        "-a",
        "-r",
        "--contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "--show-current",
    )
    return safe("reads the repository") if listing or not given else write("makes a branch")


def _tag(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "-d", "--delete"):
        return destructive("deletes a tag")
    given = positionals(words, ("--sort", "--format", "--contains", "--points-at", "--merged"))
    listing = has_flag(
        words, "-l", "--list", "-n", "--contains", "--points-at", "--merged", valued="mFu"
    )
    if has_option(words, "-v", "--verify"):
        return unknown("runs gpg")
    if listing or not given:
        return safe("reads the repository")
    return together(write("makes a tag"), message_file(words, scene))


def _remote(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words)
    match given[0].text if given else "":
        case "" | "get-url":
            return safe("reads the repository")
        case "show" | "update" | "prune":
            return network("talks to another repository")
    return system("changes where the repository pushes to and pulls from")


def _config(words: list[Word], scene: Scene) -> Finding:
    reads = has_option(
        words,
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "-l",
        "--list",
        "--get-color",
        "--get-colorbool",
        "--show-origin",
        "--name-only",
    )
    given = positionals(words, ("-f", "--file", "--blob", "--type", "--default"))
    elsewhere = option_values(words, ("--file", "-f"))
    if any(reads_path(word, scene).klass != "safe" for word in elsewhere):
        return system("reads or changes a configuration elsewhere")
    if given and given[0].text in ("list", "get"):
        reads = True
    shows = {"-l", "--list", "--get-regexp", "list"}
    if shows & {word.text for word in words}:
        return unknown("shows all settings, which may hold keys")
    if reads and not has_option(words, "--add", "--unset", "--unset-all", "--replace-all"):
        return safe("reads settings")
    if has_option(words, "-e", "--edit"):
        return system("opens an editor on settings that run programs")
    changes = has_option(
        words,
        "--add",
        "--unset",
        "--unset-all",
        "--replace-all",
        "--rename-section",
        "--remove-section",
    )
    subcommand = given and given[0].text in ("set", "unset", "rename-section", "edit")
    if len(given) == 1 and not changes and not subcommand:
        return safe("reads a setting")
    return system("changes settings that can run programs later")


def _worktree(words: list[Word], scene: Scene) -> Finding:
    match words[0].text if words else "list":
        case "list":
            return safe("reads the repository")
        case "remove" if has_option(words, "-f", "--force"):
            return destructive("deletes a work tree")
        case "add" | "move" | "remove":
            given = positionals(words[1:], ("-b", "-B", "--reason", "--orphan"))
            target = given[1:2] if words[0].text == "move" else given[:1]
            found = together(write("changes work trees"), *(writes_path(w, scene) for w in target))
            beside = target and target[0].text.startswith("../") and "/" not in target[0].text[3:]
            if found.klass == "system" and beside and not found.protected:
                return unknown("makes or removes a work tree beside the project")
            return found
        case "lock" | "unlock" | "prune" | "repair":
            return write("changes work trees")
    return unknown("not a known worktree command")


def _submodule(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words)
    match given[0].text if given else "status":
        case "status" | "summary":
            return safe("reads the repository")
        case "update" | "add" | "sync" | "init":
            return network("fetches other repositories")
        case "foreach":
            text = " ".join(word.text for word in given[1:])
            return with_more(unknown("runs a command in each submodule"), scene.run_text(text))
        case "deinit":
            return destructive("deletes a submodule's files")
    return unknown("not a known submodule command")


def _reflog(words: list[Word], scene: Scene) -> Finding:
    if words and words[0].text in ("expire", "delete", "drop"):
        return destructive("deletes what lost commits are found by")
    return safe("reads the repository")


def _gc(words: list[Word], scene: Scene) -> Finding:
    prunes = any(word.text.startswith("--prune=") for word in words)
    if prunes or (has_option(words, "--aggressive") and prunes):
        return destructive("deletes what lost commits are found by")
    return write("packs the repository")


def _rm(words: list[Word], scene: Scene) -> Finding:
    if has_flag(words, "-n", "--dry-run"):
        return safe("only lists what would go")
    if has_flag(words, "--cached"):
        return write("takes files out of the next commit")
    if has_option(words, "-f", "--force", "-r"):
        return destructive("deletes files")
    return write("deletes files that are committed")


def _lost(words: list[Word], scene: Scene) -> Finding:
    return destructive("rewrites history")


def _update_ref(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "-d", "--stdin"):
        return destructive("deletes a branch or tag")
    return write("moves a branch or tag")


def _symbolic_ref(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "-d", "--delete"):
        return destructive("deletes a reference")
    return write("moves a reference") if len(positionals(words)) > 1 else safe()


def _checkout_index(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "-f", "--force", "-a", "-u"):
        return destructive("overwrites files")
    places = option_values(words, ("--prefix",))
    return together(write(), *(writes_path(word, scene) for word in places))


def _read_tree(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--reset", "-u", "-m"):
        return destructive("overwrites files")
    return write("replaces what the next commit holds")


def _archive(words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--remote", "--exec"):
        return unknown("asks another machine, or runs a program there")
    outputs = option_values(words, ("--output", "-o"))
    added = option_values(words, ("--add-file",))
    return together(
        safe("prints"),
        *(writes_path(w, scene, replaces=True) for w in outputs),
        *(reads_path(w, scene) for w in added),
    )


def _hash_object(words: list[Word], scene: Scene) -> Finding:
    reading = together(safe(), *(reads_path(word, scene) for word in positionals(words, ("-t",))))
    return (
        together(write("adds to the repository"), reading) if has_option(words, "-w") else reading
    )


def _bisect(words: list[Word], scene: Scene) -> Finding:
    if words and words[0].text == "run":
        return with_more(unknown("runs a command at each step"), scene.run_words(words[1:]))
    if words and words[0].text in ("log", "view", "visualize"):
        return safe() if words[0].text == "log" else unknown("opens a program")
    return write("switches to another commit")


def _notes(words: list[Word], scene: Scene) -> Finding:
    if not words or words[0].text in ("list", "show"):
        return safe("reads the repository")
    if words[0].text in ("remove", "prune"):
        return destructive("deletes notes")
    return together(write("changes notes"), message_file(words, scene))


def _lfs(words: list[Word], scene: Scene) -> Finding:
    match words[0].text if words else "":
        case "" | "ls-files" | "status" | "env" | "version" | "logs":
            return unknown("runs git-lfs")
        case "install" | "uninstall" | "update":
            return system("changes settings and hooks that run later")
        case "track" | "untrack" | "checkout" | "migrate" | "prune":
            return write() if words[0].text in ("track", "untrack") else unknown("runs git-lfs")
    return network("talks to another repository")


def _daemon(words: list[Word], scene: Scene) -> Finding:
    return unknown("waits for other machines")


def _plant(words: list[Word], scene: Scene) -> Finding:
    return system("hands out passwords, or plants what runs later")


def _tool(words: list[Word], scene: Scene) -> Finding:
    return unknown("runs another program")


COMMANDS = {
    "push": _push,
    "clone": _reaching,
    "fetch": _fetch,
    "pull": _fetch,
    "ls-remote": _fetch,
    "checkout": _checkout,
    "restore": _restore,
    "reset": _reset,
    "clean": _clean,
    "stash": _stash,
    "branch": _branch,
    "tag": _tag,
    "remote": _remote,
    "config": _config,
    "worktree": _worktree,
    "submodule": _submodule,
    "reflog": _reflog,
    "gc": _gc,
    "prune": _lost,
    "prune-packed": _gc,
    "rm": _rm,
    "filter-branch": _lost,
    "filter-repo": _lost,
    "replace": _lost,
    "update-ref": _update_ref,
    "symbolic-ref": _symbolic_ref,
    "checkout-index": _checkout_index,
    "read-tree": _read_tree,
    "archive": _archive,
    "hash-object": _hash_object,
    "bisect": _bisect,
    "notes": _notes,
    "lfs": _lfs,
    "daemon": _daemon,
    "request-pull": _fetch,
    "credential": _plant,
    "credential-store": _plant,
    "credential-cache": _plant,
    "maintenance": _plant,
    "difftool": _tool,
    "mergetool": _tool,
    "gui": _tool,
    "hook": _tool,
    "instaweb": _tool,
    "fast-import": _lost,
}
