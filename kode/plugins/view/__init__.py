"""`kode view`: sessions, memory and costs in a browser, for this machine only.

    command   the command: a socket, the one-time link, the server
    access    access control: token, cookie, Host, Origin; the security headers of pages
    pages     an address → values → a template, which escapes any text of a session or a file
    session   a session's turns, calls and diffs, prepared for its page

Pages are built from disk at each request. They store and change nothing; there is no script.
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="view",
    summary="sessions, memory and costs in the browser",
    commands={
        "view": Command(
            run="kode.plugins.view.command:main",
            summary="see sessions, cost and memory in the browser",
        )
    },
)
