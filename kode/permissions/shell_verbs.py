"""What one command would do: finds its judge by its name. Words in, a `Finding` out.

The judges are in `shell_readers`, `shell_find`, `shell_search`, `shell_filters`, `shell_writers`,
`shell_archives`, `shell_builtins`, `shell_wrappers`, `shell_git`, `shell_remote` and `shell_tools`;
commands that need none are data in `shell_table`.
What is in no table is `unknown`.
"""

import itertools
import os
import re
from collections.abc import Callable

from kode.permissions import (
    sensitive,
    shell_archives,
    shell_builtins,
    shell_filters,
    shell_find,
    shell_readers,
    shell_remote,
    shell_search,
    shell_writers,
)
from kode.permissions import shell_table as table
from kode.permissions.shell_development import development_tool
from kode.permissions.shell_git import git
from kode.permissions.shell_judge import (
    Finding,
    Scene,
    destructive,
    safe,
    together,
    unknown,
    with_more,
)
from kode.permissions.shell_paths import reads_path, secrets_named
from kode.permissions.shell_tools import TOOLS
from kode.permissions.shell_words import FOUND, Word
from kode.permissions.shell_wrappers import (
    SHELLS,
    WRAPPERS,
    a_shell,
    command_builtin,
    env,
    evaluate,
    flock,
    remote_shell,
    su,
    trap,
    watch,
    wrapped,
    xargs,
)

Judge = Callable[[list[Word], Scene], Finding]


def judge(words: list[Word], scene: Scene) -> Finding:
    """What a command would do. `words` holds the program's name first and is not empty."""
    verb = words[0]
    if not verb.known or verb.glob or not verb.text or FOUND in verb.text:
        return unknown("which program runs is not known beforehand")
    name, foreign = _program(verb.text, scene)
    if name == "-":
        return unknown("which program runs is not known beforehand")
    found = _judge_named(name, words, scene)
    if found.klass == "unknown" and not found.development:
        found = together(found, *losing(words[1:]), *_keys_named(words, scene))
    if not foreign:
        return found
    return (
        together(unknown("a program outside the system's folders"), found)
        if (not foreign.development or found.klass in ("system", "destructive"))
        else found
        if found.development
        else together(foreign, found)
    )


_NAMED_WITH_MORE = re.compile(r"(?:python|pypy|perl|ruby|lua|php|node)[\d.]*$|mkfs|newfs")


def knows(name: str) -> bool:
    """Whether a program of this name is known, so that a function would stand for it."""
    tables = (_SPECIAL, WRAPPERS, SHELLS, TOOLS, table.PRINTERS, table.LISTERS, table.READERS)
    more = (table.CODE_FREE_WRITERS, table.DEVELOPMENT, table.CLASS_BY_NAME)
    return any(name in one for one in (*tables, *more)) or _NAMED_WITH_MORE.match(name) is not None


def _program(text: str, scene: Scene) -> tuple[str, Finding | None]:
    """The name a program is known by, and a finding when it lies in no system folder."""
    if "/" not in text:
        return text, None
    folder, name = os.path.split(os.path.normpath(text))
    if folder in table.SYSTEM_FOLDERS:
        return name or "-", None
    if scene.cwd is not None:
        path = os.path.normpath(os.path.join(scene.cwd, text))
        own = [f"{root}/{tools}" for root in scene.where.roots for tools in table.TOOL_FOLDERS]
        if os.path.dirname(path) in own or name in ("gradlew", "mvnw"):
            inside = any(sensitive.below(path, root) for root in scene.where.roots)
            development = Finding(
                klass="unknown", reason="a tool the project brings", development=inside
            )
            return name or "-", development
    return name or "-", unknown("a program outside the system's folders")


_EDITORS = ("vim", "nvim", "nano", "R")
_SHORT_VERSION = ("-V",)
"""For some editors that is how much they tell while they run."""


def _judge_named(name: str, words: list[Word], scene: Scene) -> Finding:
    if (
        len(words) == 2
        and name in table.VERSION_ASKERS
        and words[1].text
        in ("--version", "--help", "-version", *_SHORT_VERSION[name in _EDITORS :])
    ):
        return safe("prints its version or help")
    if [w.text for w in words[1:]] == ["-v"] and name in ("node", "ruby", "php", "npm"):
        return safe("prints its version")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, scene)
    if name in WRAPPERS:
        return wrapped(name, words, scene)
    if name in SHELLS:
        return a_shell(name, words, scene)
    tool = TOOLS.get(name)
    if tool is not None:
        return tool(words, scene)
    if name in table.PRINTERS:
        return shell_readers.printer(name, words, scene)
    if name in table.LISTERS:
        return shell_readers.reader(name, words, scene, names_only=True)
    if name in table.READERS:
        return shell_readers.reader(name, words, scene, names_only=False)
    if name in table.CODE_FREE_WRITERS:
        return shell_writers.code_free(name, words, scene)
    if name in table.DEVELOPMENT:
        return development_tool(words, scene)
    if name.startswith(("mkfs", "newfs")):
        return destructive("makes a new file system")
    if _NAMED_WITH_MORE.match(name):
        return TOOLS["python" if name.startswith(("python", "pypy")) else "perl"](words, scene)
    if name in table.CLASS_BY_NAME:
        return _tabled(name, words, scene)
    return unknown("a program that is not known")


_TEXT_IN_CODE = re.compile(r"""(["'])([^"'\n]{2,200})\1""")


def _keys_named(words: list[Word], scene: Scene) -> list[Finding]:
    """Findings for files that hold keys, among the arguments of a program that is not known, and
    in the texts of a program on the command line."""
    named: list[str] = []
    for before, word in itertools.pairwise(words):
        if re.search(r"[\s(]", word.text):
            named += [match[2] for match in _TEXT_IN_CODE.finditer(word.text)]
        elif not word.text.startswith("-") and not before.text.startswith("--env"):
            named.append(word.text)
    found = (reads_path(Word(text), scene) for text in named[:50])
    return [one for one in found if one.secret]


def losing(words: list[Word]) -> list[Finding]:
    """Findings for program texts and subcommands that delete."""
    texts = [word.text for word in words]
    code = " ".join(text for text in texts if " " in text or "(" in text)
    if re.search(table.LOSING_WORDS, code, re.IGNORECASE):
        return [destructive("its program text deletes, or runs a shell")]
    if any(
        re.fullmatch(table.LOSING_SUBCOMMANDS, text, re.IGNORECASE)
        for text in (*texts[:4], " ".join(texts[:2]))
    ):
        return [destructive("a subcommand that deletes")]
    return []


def _tabled(name: str, words: list[Word], scene: Scene) -> Finding:
    klass, reason = table.CLASS_BY_NAME[name]
    looks = table.SYSTEM_LOOKS.get(name, ())
    if klass == "system" and len(words) > 1 and words[1].text in looks:
        options = {w.text.split("=", 1)[0] for w in words[2:] if w.text.startswith("-")}
        only = options <= table.LOOKING_OPTIONS
        return safe("only looks") if only else unknown("an option that may run something")
    if name == "ip" and re.fullmatch(_IP_LOOKS, " ".join(w.text for w in words[1:])):
        return safe("tells of the network's addresses")
    if name == "mount" and [w.text for w in words[1:]] in ([], ["-l"]):
        return safe("lists what is mounted")
    if name in table.LOOKS_THAT_ARE_UNKNOWN and not any(
        re.fullmatch(
            r"add|del|delete|set|flush|up|down|change|replace|-C|-c|-w|-d|--clear|hw|-s"
            r"|link|--vacuum\S*|--rotate|-[a-z]*insert|-replace|-remove|-convert",
            w.text,
        )
        for w in words[1:]
    ):
        return unknown("looks at the machine")
    found = Finding(klass=klass, reason=reason, remote=klass == "network")
    return together(found, *secrets_named(words, scene))


_IP_LOOKS = re.compile(
    r"(?:-(?:4|6|br|brief|c|j|s|o) )*(?:a|addr|address|l|link|r|route|neigh|rule)"
    r"(?: (?:show|list|ls)(?: [\w.]+)?)?"
)


def _systemctl(words: list[Word], scene: Scene) -> Finding:
    ends = {"poweroff", "reboot", "halt", "kexec", "rescue", "emergency"}
    if any(w.text in ends for w in words[1:]):
        return destructive("turns the machine off")
    return _tabled("systemctl", words, scene)


_SPECIAL: dict[str, Judge] = {
    "git": git,
    "command": command_builtin,
    "env": env,
    "xargs": xargs,
    "gxargs": xargs,
    "eval": evaluate,
    "trap": trap,
    "source": shell_builtins.source,
    ".": shell_builtins.source,
    "ssh": remote_shell,
    "su": su,
    "runuser": su,
    "flock": flock,
    "watch": watch,
    "cd": shell_builtins.cd,
    "pushd": shell_builtins.cd,
    "popd": shell_builtins.cd,
    "set": shell_builtins.set_options,
    "export": shell_builtins.declares,
    "declare": shell_builtins.declares,
    "typeset": shell_builtins.declares,
    "local": shell_builtins.declares,
    "readonly": shell_builtins.declares,
    "unset": shell_builtins.unset,
    "let": shell_builtins.let,
    "read": shell_builtins.read,
    "printenv": shell_builtins.printenv,
    "history": shell_builtins.history,
    "crontab": shell_builtins.crontab,
    "alias": shell_builtins.alias,
    "echo": shell_readers.echo,
    "printf": shell_readers.echo,
    "test": shell_readers.test,
    "[": shell_readers.test,
    "grep": shell_search.grep,
    "egrep": shell_search.grep,
    "fgrep": shell_search.grep,
    "rg": shell_search.rg,
    "ag": shell_readers.searcher,
    "ack": shell_readers.searcher,
    "tree": shell_readers.tree,
    "file": shell_readers.file_kinds,
    "sort": shell_readers.sort,
    "gsort": shell_readers.sort,
    "uniq": shell_readers.uniq,
    "xxd": shell_readers.xxd,
    "date": shell_readers.date,
    "hostname": shell_readers.hostname,
    "ps": shell_readers.ps,
    "top": shell_readers.top,
    "ar": shell_archives.archive,
    "7z": shell_archives.archive,
    "7za": shell_archives.archive,
    "7zz": shell_archives.archive,
    "unrar": shell_archives.archive,
    "arch": shell_readers.arch,
    "{": lambda words, scene: with_more(safe("a group"), scene.run_words(words[1:])),
    "tr": lambda words, scene: safe("prints"),
    "df": lambda words, scene: safe("prints"),
    "sed": shell_filters.sed,
    "gsed": shell_filters.sed,
    "awk": shell_filters.awk,
    "gawk": shell_filters.awk,
    "mawk": shell_filters.awk,
    "nawk": shell_filters.awk,
    "jq": shell_filters.jq,
    "gojq": shell_filters.jq,
    "yq": shell_filters.jq,
    "tomlq": shell_filters.jq,
    "jaq": shell_filters.jq,
    "find": shell_find.find,
    "gfind": shell_find.find,
    "fd": shell_find.fd,
    "fdfind": shell_find.fd,
    "rm": shell_writers.rm,
    "unlink": shell_writers.rm,
    "cp": shell_writers.two_places,
    "mv": shell_writers.two_places,
    "ln": shell_writers.two_places,
    "link": shell_writers.two_places,
    "install": shell_writers.two_places,
    "mkdir": shell_writers.writes_all,
    "rmdir": shell_writers.writes_all,
    "touch": shell_writers.writes_all,
    "mkfifo": shell_writers.writes_all,
    "mktemp": shell_writers.writes_all,
    "patch": shell_writers.writes_all,
    "tee": shell_writers.tee,
    "split": shell_writers.split,
    "truncate": shell_writers.truncate,
    "dd": shell_writers.dd,
    "chmod": shell_writers.chmod,
    "chown": shell_writers.chmod,
    "chgrp": shell_writers.chmod,
    "tar": shell_archives.tar,
    "gtar": shell_archives.tar,
    "bsdtar": shell_archives.tar,
    "unzip": shell_archives.unzip,
    "curl": shell_remote.curl,
    "wget": shell_remote.curl,
    "rsync": shell_remote.rsync,
    "nc": shell_remote.nc,
    "ncat": shell_remote.nc,
    "netcat": shell_remote.nc,
    "socat": shell_remote.nc,
    "kill": shell_builtins.kill,
    "systemctl": _systemctl,
    "less": shell_readers.less,
    "more": shell_readers.less,
    "most": shell_readers.less,
    "init": shell_builtins.init,
}
