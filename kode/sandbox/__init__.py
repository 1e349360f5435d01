"""The sandbox: limits, enforced by the kernel, what a command that nobody approved can reach.

    sandbox.py    read this first: what the machine has, and what the commands of a session share
    trial.py      finds out what it has, with the acts of `probe.py`, and proves it to a person
    attempt.py    one command in it: how it starts, what was blocked, what it changed
    reach.py      what such a command may reach, for bubblewrap and Landlock
    seatbelt.py   the same as a profile for macOS
    masks.py      which files of a folder hold keys, so that nothing shows in their place
    layer.py      the throw-away copy of the folders of work: what a command changed in it, what of
                  that becomes real, and what the next command finds
    store.py      where the copies lie
    monitor.py    what the sandbox blocked, as the kernel reports it
    limits.py     Landlock and seccomp: what the kernel enforces
    launcher.py   the last step, inside: limits its own process, then becomes the command

`kode.permissions` decides whether a command runs in it, and what becomes of its changes.
"""
