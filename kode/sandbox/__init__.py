"""The sandbox: limits, enforced by the kernel, what a command that nobody approved can reach.

    sandbox.py    read this first: what the machine has, and what the commands of a session share
    support.py    finds out what it has, with the self-test of `probe.py`
    attempt.py    one command in it: how it starts, what was blocked, what it changed
    confine.py    one for programs beside the session, such as MCP servers
    view.py       what such a command may reach, as mounts for bubblewrap and rules for Landlock
    seatbelt.py   the same as a profile for macOS
    masks.py      which files of a folder hold keys, so that nothing shows in their place
    layer.py      the throw-away copy of the folders of work, and what a command changed in it
    apply.py      applies allowed changes, or keeps ignored files for the next command
    store.py      where the copies lie
    monitor.py    what the sandbox blocked, as the kernel reports it
    limits.py     Landlock and seccomp: what the kernel enforces
    launcher.py   the last step, inside: limits its own process, then becomes the command

`kode.permissions` decides whether a command runs in it, and what becomes of its changes.
"""
