"""`kode fleet`: runs many tasks from a durable queue, and collects their changes.

command     the command line
tasks       reads tasks from a file
records     what a queue has on disk: settings, tasks, and a line per event
state       the status of every task, a pure function of those lines
queue       the queue's folder: leases tasks and records results, under a lock
worker      leases a task, creates its worktree, runs and checks it, records the result
trees       a worktree per task, and the task's changes as a patch
child       a task's `kode run` process, and its progress as read from its session
ray         workers on the nodes of a Ray cluster
collect     turns patches into branches or commits
report      the status and results of a queue
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
)
