"""Commands of other agents that kode lacks, and what to do instead."""

from collections.abc import Mapping

COMMAND_HINTS: Mapping[str, str] = {
    "ask": "`kode run TASK` runs one task.",
    "auth": "`kode init` sets up a key.",
    "chat": "`kode` alone starts a chat.",
    "fork": "`kode session fork ID` copies a session.",
    "login": "`kode init` sets up a key.",
    "logout": "Remove the key from the file `kode config path` prints, or unset its variable.",
    "resume": "`kode -r ID` opens a session, `kode -r` lets you pick one.",
    "review": "`kode run` reviews what you pipe in; in the chat, type /review.",
    "sessions": "`kode session list` lists them.",
    "update": "Upgrade kode the way it was installed: README.md has the lines.",
    "upgrade": "Upgrade kode the way it was installed: README.md has the lines.",
    "version": "`kode --version` prints the version.",
}
"""Shell commands that kode lacks → what to do instead."""

PROMPT_HINTS: Mapping[str, str] = {
    "/add-dir": "Start kode with `--add-dir DIR`, or set `add_dirs` in the config.",
    "/approvals": "/permissions shows the rules and sets the mode.",
    "/bashes": "/bg lists background commands.",
    "/config": "`kode config show` in a shell shows the settings; `kode config set KEY VALUE`.",
    "/details": "Ctrl-O shows the last calls in full.",
    "/doctor": "`kode doctor` in a shell checks this machine.",
    "/login": "Quit, then `kode init --force` sets up another key; `kode doctor` names it.",
    "/logout": "Remove the key from the file `kode config path` prints, or unset its variable.",
    "/settings": "`kode config show` in a shell shows the settings; `kode config set KEY VALUE`.",
    "/theme": "kode uses the colours of your terminal.",
    "/todos": "the model shows its list as it works; /plan shows a plan.",
    "/vim": "Set `repl.vi_mode` to true in the config.",
}
"""Prompt commands that kode lacks → what to do instead."""
