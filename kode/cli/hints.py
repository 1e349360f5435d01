"""Words of other agents' command lines, and kode's equivalents.

A name with the same meaning is accepted by kode itself. One without an equivalent gets one true
sentence, never a guess: `--yolo` is not `--no-color`.
"""

from collections.abc import Mapping

FLAG_HINTS: Mapping[str, str] = {
    "-a": "`--permission-mode ask|auto-edit|plan|full` sets what is asked.",
    "-c": "`kode config set KEY VALUE` changes a setting; flags change one run.",
    "-i": "`--ctx FILE` attaches an image or a file.",
    "-o": "The answer is on stdout: `kode run TASK > FILE`.",
    "-s": "`--sandbox` keeps commands in the sandbox; `--permission-mode` sets what is asked.",
    "-v": "`--version` prints the version, `--verbose` shows more.",
    "-w": "kode makes no worktrees: make one with git and name it with `--cwd DIR`.",
    "--agent": "`kode subagent --agent NAME` uses one of `kode extensions agents`.",
    "--agents": "Write a definition into `.claude/agents`; `kode extensions agents` lists them.",
    "--approval-mode": "`--permission-mode ask|auto-edit|plan|full` sets what is asked.",
    "--ask-for-approval": "`--permission-mode ask|auto-edit|plan|full` sets what is asked.",
    "--betas": "kode sends what a model needs by itself: leave the flag out.",
    "--checkpointing": "kode always saves what /undo needs.",
    "--debug": "`--verbose` shows more.",
    "--file": "`--ctx FILE` attaches a file.",
    "--fork-session": "`kode session fork ID` copies a session, `kode -r ID` opens the copy.",
    "--full-auto": "`--permission-mode auto-edit` runs edits and sandboxed commands.",
    "--image": "`--ctx FILE` attaches an image.",
    "--include-directories": "`--add-dir DIR` allows work in another folder.",
    "--ide": "`kode acp` works in editors that speak the Agent Client Protocol.",
    "--include-partial-messages": "`--output-format stream-json` gives the text in parts.",
    "--json": "`--output-format json` or `stream-json` prints JSON.",
    "--last": "`kode continue` resumes the newest session of this directory.",
    "--add-mcp": "`kode mcp add '{…}'` takes the same JSON.",
    "--message": "`kode run TASK` runs one task.",
    "--no-sandbox": "Set `sandbox.enabled` to false in the config to run without one.",
    "--oss": "`--base-url URL --model M` uses a local server.",
    "--output-last-message": "The answer is on stdout: `kode run TASK > FILE`.",
    "--plugin-dir": "`kode extensions add FOLDER` adds a bundle.",
    "--profile": "kode has no profiles; `KODE_HOME` names another home with its own config.",
    "--search": "`web_search` in the config lets the vendor's server search the web.",
    "--tools": "`--deny RULE` takes tools away, `--allow RULE` lets them run unasked.",
    "--skip-git-repo-check": "kode needs no git repository: leave the flag out.",
    "--strict-mcp-config": '`--mcp-config` adds servers; `"disabled": true` turns others off.',
    "--thinking": "`--effort LEVEL` sets how much the model thinks.",
    "--worktree": "kode makes no worktrees: make one with git and name it with `--cwd DIR`.",
    "--yes": "`--allow RULE` allows by name, `--permission-mode full` nearly everything.",
}
"""Flags that kode lacks → what to do instead."""

SANDBOX_MODES: Mapping[str, str] = {
    "read-only": "`--permission-mode plan`",
    "workspace-write": "`--permission-mode auto-edit`",
    "danger-full-access": "`--permission-mode full`",
}
"""Values of `--sandbox` → the mode that allows as much. kode's flag of that name has none."""

COMMAND_HINTS: Mapping[str, str] = {
    "ask": "`kode run TASK` runs one task.",
    "auth": "`kode init` sets up a key.",
    "chat": "`kode` alone starts a chat.",
    "fork": "`kode session fork ID` copies a session.",
    "login": "`kode init` sets up a key.",
    "logout": "Remove the key from the file `kode config path` prints, or unset its variable.",
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
