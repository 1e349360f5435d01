"""`kode view`: sessions, memory, subagents and costs as web pages, for this machine only.

    serve          a socket, the one-time link, the server
    access         access control: token, cookie, Host, Origin; what a page may do
    pages          an address → values → a template
    session        one session, or one subagent: a page of the server, or a file
    transcript     its turns, with what was undone
    calls          its calls of tools, with their diffs
    spent          tokens and dollars: of a session over time, of all by day and project
    agents         the tree of subagents of a session
    remembered     memory: entries, history, what waits for approval
    render         templates; escapes any text of a session or a file

Pages are built from disk at each request. They store nothing and change only what a person
approves; there is no script.
"""
