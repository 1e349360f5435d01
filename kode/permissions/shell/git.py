"""What a git command line would do: the options before the command, then the command, by its kind
or by the judge it has in `git_commands`. Commands in general are in `verbs`.
"""

import re
from dataclasses import replace

from kode.permissions import sensitive
from kode.permissions.shell.git_commands import COMMANDS, message_file
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    network,
    safe,
    system,
    together,
    unknown,
    with_more,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import absolute, reads_path, sweeps_below, writes_path
from kode.permissions.shell.search import option_files
from kode.permissions.shell.words import UNKNOWN, Word

_READS = frozenset(
    "status log diff show blame annotate rev-parse ls-files ls-tree describe shortlog cat-file "
    "rev-list merge-base name-rev for-each-ref show-ref grep whatchanged cherry count-objects "
    "check-ignore check-attr check-ref-format check-mailmap var version diff-tree diff-index "
    "diff-files range-diff show-branch verify-commit verify-tag verify-pack show-index fsck "
    "merge-tree patch-id stripspace column get-tar-commit-id help --version".split()
)
_LISTS_ONLY = frozenset("status ls-files check-ignore check-attr rev-parse ls-tree".split())
_WRITES = frozenset(
    "add stage commit mv init switch merge rebase cherry-pick revert am apply format-patch "
    "sparse-checkout bundle notes pack-refs update-index merge-file merge-index commit-tree "
    "write-tree mktree mktag pack-objects index-pack unpack-objects repack rerere "
    "commit-graph multi-pack-index fast-export stage request-pull".split()
)
_NETWORK = frozenset(
    "fetch pull clone push ls-remote fetch-pack send-pack send-email imap-send svn p4 lfs annex "
    "remote-http remote-https http-fetch http-push archive-remote daemon cvsimport".split()
)
_QUIET_SETTINGS = re.compile(
    r"(?:color\.\w+|core\.pager=(?:cat|)|core\.quotepath|advice\.\w+|user\.(?:name|email)"
    r"|log\.\w+|diff\.(?:noprefix|mnemonicprefix|renames|context|algorithm)|init\.defaultbranch"
    r"|commit\.gpgsign=false|tag\.gpgsign=false|pull\.rebase|merge\.conflictstyle"
    r"|safe\.directory|core\.(?:autocrlf|longpaths|abbrev)|column\.ui|status\.\w+"
    r"|grep\.(?:linenumber|patterntype)|protocol\.version)(?:=[\w./:@+ -]*)?",
    re.IGNORECASE,
)


_DISCARDS = frozenset(
    "checkout restore reset clean stash switch merge rm checkout-index read-tree worktree "
    "submodule".split()
)
"""What of them is destructive, is so to the working tree or to what is stashed."""


def git(words: list[Word], scene: Scene) -> Finding:
    """`words` begins with git itself."""
    rest, before = words[1:], safe("reads the repository")
    folder: str | None = scene.cwd or scene.where.cwd
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        name, _, attached = option.text.partition("=")
        if name in ("--version", "--help", "-v", "-h", "--html-path", "--man-path"):
            return safe("prints")
        if name in (
            "--no-pager",
            "-P",
            "--no-optional-locks",
            "--literal-pathspecs",
            "--no-replace-objects",
            "--glob-pathspecs",
            "--icase-pathspecs",
            "--bare",
        ):
            continue
        value = Word(attached) if attached else rest.pop(0) if rest else Word(UNKNOWN)
        before = together(before, _global_option(name, value, scene))
        if name == "-C" and folder is not None:
            folder = absolute(value, replace(scene, cwd=folder))
    if not rest:
        return together(before, safe("prints help"))
    sub, arguments = rest[0], rest[1:]
    if not sub.known or sub.glob:
        return unknown("the git command is not fixed text")
    found = _subcommand(sub.text, arguments, scene)
    if _discards(sub.text, arguments, found):
        known = folder is not None and UNKNOWN not in folder
        found = replace(found, discards=(folder if folder and known else scene.where.cwd,))
    if found.klass == "safe" and any(not word.known for word in arguments):
        found = together(found, unknown("arguments are not known beforehand"))
    return together(found, before) if before.klass != "safe" else found


def _discards(sub: str, arguments: list[Word], found: Finding) -> bool:
    """Whether uncommitted work is worth keeping first: stashing takes it out of the tree, and an
    abort drops how conflicts were solved."""
    if found.klass == "destructive":
        return sub in _DISCARDS
    if sub == "stash":
        return found.klass == "write"
    return sub in ("rebase", "am", "cherry-pick", "revert") and has_option(arguments, "--abort")


def _global_option(name: str, value: Word, scene: Scene) -> Finding:
    if name == "-C":
        path = absolute(value, scene)
        if path is None or UNKNOWN in path:
            return unknown("works in a folder that is not known")
        place = sensitive.place(path, scene.where)
        return safe() if place in ("root", "temp") else unknown("works in another repository")
    if name == "-c":
        if _QUIET_SETTINGS.fullmatch(value.text):
            return safe()
        command = re.match(r"alias\.[\w-]+=!(.*)", value.text, re.DOTALL)
        if command:
            return with_more(unknown("an alias that runs a command"), scene.run_text(command[1]))
        return unknown("a setting that may run a program")
    if name in ("--git-dir", "--work-tree"):
        path = absolute(value, scene)
        if path is None or sensitive.place(path, scene.where) not in ("root",):
            return system("works on a tree elsewhere")
        return unknown("works on a tree elsewhere")
    return unknown(f"git {name} may run a program")


def _subcommand(sub: str, words: list[Word], scene: Scene) -> Finding:
    special = COMMANDS.get(sub)
    if special is not None:
        return special(words, scene)
    if sub in _READS:
        return _reading(sub, words, scene)
    if sub in _NETWORK:
        return network("talks to another repository")
    if sub in _WRITES:
        return _writing(sub, words, scene)
    return unknown("a git command or alias that is not known")


def _reading(sub: str, words: list[Word], scene: Scene) -> Finding:
    if has_option(words, "--ext-diff", "--textconv", "--open-files-in-pager", "--filters"):
        return unknown("may run a program that the repository names")
    if sub == "grep" and any(word.text.startswith("-O") for word in words):
        return unknown("opens files in a program")
    if sub == "help" or has_option(words, "--help"):
        return unknown("opens the manual") if words else safe("prints help")
    if sub == "fsck" and has_option(words, "--lost-found"):
        return write("keeps what no branch leads to")
    if sub == "var" and has_option(words, "-l"):
        return unknown("shows all settings, which may hold keys")
    if sub == "cat-file" and has_option(words, "--batch", "--batch-command"):
        return unknown("shows objects that are not named")
    found = safe("reads the repository")
    if sub == "grep" and has_option(words, "--no-index", "--untracked"):
        folders = [Word(w.text) for w in positionals(words)[1:]]
        tracked = has_option(words, "--untracked", "--exclude-standard")
        found = together(found, sweeps_below(folders, scene, ignored=not tracked))
    for value in option_values(words, ("--output",)):
        found = together(found, writes_path(value, scene, replaces=True))
    found = together(found, *option_files(words, scene))
    if sub in _LISTS_ONLY or (sub == "log" and not has_option(words, "-p", "--patch", "-u")):
        return found
    for word in words:
        if word.text.startswith("-") or (sub == "grep" and word is words[0]):
            continue
        name = Word(word.text.rsplit(":", 1)[-1], word.glob)
        outside = name.text.startswith(("/", "~", "../"))
        read = reads_path(name, scene)
        if read.secret or read.klass == "system" or (outside and read.klass != "safe"):
            found = together(found, read)
    return found


def _writing(sub: str, words: list[Word], scene: Scene) -> Finding:
    if sub in ("rebase",) and has_option(words, "-x", "--exec"):
        commands = [
            p for v in option_values(words, ("--exec", "-x")) for p in scene.run_text(v.text)
        ]
        return with_more(unknown("runs a command at each step"), commands)
    if (
        sub in ("merge", "rebase", "cherry-pick", "revert")
        and has_option(words, "-s", "--strategy")
        and any(re.search(r"[/]|^-s=?\.", w.text) for w in words)
    ):
        return unknown("a merge program of its own")
    if sub == "switch" and (has_option(words, "-f", "--force", "--discard-changes")):
        return destructive("discards changes that are not committed")
    if sub == "repack" and has_option(words, "-a", "-d"):
        return write("packs the repository")
    if sub == "init" and has_option(words, "--template"):
        return unknown("copies hooks from a template")
    if sub == "merge" and has_option(words, "--abort"):
        return destructive("discards changes that are not committed")
    if sub in ("rebase", "am", "cherry-pick", "revert") and has_option(words, "--skip", "--quit"):
        return write("drops a step")
    if sub == "apply" and has_option(words, "--unsafe-paths"):
        return unknown("changes files outside the repository")
    if sub in ("commit", "merge", "revert", "am", "cherry-pick"):
        return together(write("changes the repository"), message_file(words, scene))
    if sub in ("format-patch", "bundle", "mv", "init", "apply"):
        targets = option_values(words, ("--output-directory", "-o", "--directory"))
        if sub == "bundle":
            targets += positionals(words)[1:2]
        if sub == "mv" and has_option(words, "-f", "--force"):
            return destructive("replaces files")
        if sub in ("mv", "init"):
            targets += positionals(words)
        return together(
            write("changes the repository"), *(writes_path(word, scene) for word in targets)
        )
    return write("changes the repository")
