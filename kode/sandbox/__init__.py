"""The sandbox: what a command that nobody was asked about can reach, held by the kernel.

    deferred.py   stands for a sandbox until a command needs it
    sandbox.py    read this first: what holds on this machine
    attempt.py    one command in it: how it starts, what it hits, what it changed
    view.py       what such a command sees, as mounts for bubblewrap and rules for Landlock
    masks.py      which files of a folder hold keys, so that nothing shows in their place
    layer.py      the throw-away copy of the folders of work, and what a command changed in it
    apply.py      makes real what of it is allowed, or leaves it to the next command
    store.py      where the copies lie
    wall.py       what a command ran into, as the kernel reports it
    limits.py     Landlock and seccomp: what the kernel enforces
    launcher.py   the last step, inside: limits its own process, then becomes the command
    probe.py      the self-test, run inside

Whether a command runs in it, and what becomes of its changes, is decided in `kode.permissions`.
"""
