"""`kode fleet`: runs many tasks from a durable queue, and collects their changes.

    command     parses the command line; `ray_flags`: the flags for a Ray cluster
    lines       output for people and programs
    records     the JSON lines of a queue
    state       the status of every task, a pure function of those lines
    queue       the queue's folder: leases tasks and records results, under a lock
    folders     where queues and worktrees are kept
    owner       signs queues, and runs another home's tasks only in a mode the person chose
    tasks       reads tasks from a file, or makes them from a template and repositories
    trees       a worktree per task, and the task's changes as a patch
    child       a task's `kode run` process, and its progress as read from its session
    worker      leases a task, creates its worktree, runs and checks it, records the result
    executors   where workers run: in this process, or elsewhere
    ray         on the nodes of a Ray cluster
    collect     turns patches into text, branches or commits
    report      the status and results of a queue
    pages       the pages of `kode view`

Each task is a `kode run` process with a session of its own. This plug-in starts processes and reads
sessions; it runs no turn itself.
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="fleet",
    summary="many tasks from a durable queue",
    commands={
        "fleet": Command(
            run="kode.plugins.fleet.command:main",
            summary="run many tasks from a durable queue and collect the changes",
        )
    },
    pages="kode.plugins.fleet.pages:PAGES",
)
