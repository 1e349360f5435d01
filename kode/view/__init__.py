"""`kode view`: sessions, memory, subagents and costs as pages of a browser, on this machine alone.

    serve          a socket, the one-time link, the server
    access         who may look: token, cookie, Host, Origin; what a page may do
    pages          an address → values → a template
    session        one session, or one subagent: a page of the server, or a file
    transcript     its turns: what was said, what was undone
    calls          its calls of tools, with their diffs
    spent          tokens and dollars: of a session over time, of all by day and project
    agents         the tree of subagents of a session
    remembered     memory: entries, history, what waits for approval
    plots          figures as lines and bars
    render         templates; any text of a session or a file becomes text on a page, and no more

Pages are read from what is on disk at each request. Nothing is kept here and nothing is changed but
what a person approves; there is no script.
"""
