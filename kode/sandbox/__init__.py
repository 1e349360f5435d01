"""The sandbox: limits, enforced by the kernel, what a command that nobody approved can reach.

    sandbox.py    read this first: what the machine has, what commands share, one command in it
    reach.py      what a command may reach, compiled for bubblewrap, Landlock and Seatbelt
    layer.py      the throw-away copy of the folders of work, and what of it becomes real
    kernel.py     Landlock and seccomp: what the kernel enforces, set by `launcher.py`, and reports
    trial.py      finds out what the machine has, and proves it to a person

`kode.permissions` decides whether a command runs in it, and what becomes of its changes.
"""
