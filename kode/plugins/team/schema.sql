-- A team's notes on PostgreSQL: the lines of its members' logs, which only grow. Who may see a line is
-- decided by row-level security, by the role that logged in (session_user, which SET ROLE does not
-- change). Members read; they write through one function, which records who they are.

BEGIN;
CREATE SCHEMA IF NOT EXISTS kode;
REVOKE ALL ON SCHEMA kode FROM PUBLIC;
GRANT USAGE ON SCHEMA kode TO PUBLIC;

CREATE TABLE IF NOT EXISTS kode.members (
    team text NOT NULL,
    person text NOT NULL,
    scope text NOT NULL DEFAULT '*',  -- '*': all of the team; else the name of one project
    PRIMARY KEY (team, person, scope)
);

CREATE TABLE IF NOT EXISTS kode.lines (
    team text NOT NULL,
    id text NOT NULL CHECK (octet_length(id) <= 40),  -- so that a line that is sent twice counts once
    seq bigint GENERATED ALWAYS AS IDENTITY,
    scope text NOT NULL,
    person text NOT NULL,
    host text NOT NULL CHECK (octet_length(host) <= 240),
    at timestamptz NOT NULL,
    line text NOT NULL CHECK (octet_length(line) <= 200000),
    PRIMARY KEY (team, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS lines_in_order ON kode.lines (team, seq);

CREATE OR REPLACE FUNCTION kode.sees(p_team text, p_scope text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT 1 FROM kode.members m
        WHERE m.team = p_team AND m.person = session_user AND m.scope IN ('*', p_scope)
    )
$$;

ALTER TABLE kode.members ENABLE ROW LEVEL SECURITY;
ALTER TABLE kode.lines ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON kode.members;
DROP POLICY IF EXISTS seen ON kode.lines;
CREATE POLICY own ON kode.members FOR SELECT USING (person = session_user);
CREATE POLICY seen ON kode.lines FOR SELECT USING (kode.sees(team, scope));

CREATE OR REPLACE FUNCTION kode.add_line(
    p_team text, p_id text, p_scope text, p_host text, p_line text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT kode.sees(p_team, p_scope) THEN
        RAISE EXCEPTION '% may not write % of the team %', session_user, p_scope, p_team
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Held to the end, so that lines become visible in the order of their numbers.
    PERFORM pg_advisory_xact_lock(hashtextextended('kode ' || p_team, 0));
    INSERT INTO kode.lines (team, id, scope, person, host, at, line)
    VALUES (p_team, p_id, p_scope, session_user, p_host, clock_timestamp(), p_line)
    ON CONFLICT DO NOTHING;
END
$$;

REVOKE ALL ON kode.members, kode.lines FROM PUBLIC;
GRANT SELECT ON kode.members, kode.lines TO PUBLIC;
REVOKE ALL ON FUNCTION kode.sees, kode.add_line FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kode.sees, kode.add_line TO PUBLIC;

-- Not even the owner rewrites what happened by a slip.
CREATE OR REPLACE FUNCTION kode.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the lines of a team only grow';
END
$$;
DROP TRIGGER IF EXISTS only_grows ON kode.lines;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON kode.lines
    FOR EACH STATEMENT EXECUTE FUNCTION kode.refuse();
COMMIT;
