"""Notes that a team shares through PostgreSQL; each member works on a copy of their own.

address    where a team's notes are, and what a project is called there
server     the one door to psycopg: what is asked of the server (its tables: schema.sql)
rebase     a change made from what colleagues have changed since: both sides are kept
vectors    the vectors of notes: taken over, sent, and searched on the server (tables: vectors.sql)
exchange   what is queued, sent and received
sessions   the list of sessions that members share: a line each
member     the copy of a session: brought up to date, what arrived, who may approve
"""
