-- A team's notes on PostgreSQL. `changes` is the truth and only grows; `notes` is what follows from
-- it. Who may see a row is decided by row-level security, by the role that logged in (session_user,
-- which SET ROLE does not change). Members read; they write through functions alone.

CREATE SCHEMA IF NOT EXISTS kode;
REVOKE ALL ON SCHEMA kode FROM PUBLIC;
GRANT USAGE ON SCHEMA kode TO PUBLIC;

CREATE TABLE IF NOT EXISTS kode.members (
    team text NOT NULL,
    person text NOT NULL,
    scope text NOT NULL DEFAULT '*',  -- '*': all of the team; else one project, as `project:NAME`
    PRIMARY KEY (team, person, scope)
);

CREATE TABLE IF NOT EXISTS kode.changes (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    push uuid NOT NULL,               -- made by the client, so that a change sent twice counts once
    team text NOT NULL,
    scope text NOT NULL,
    person text NOT NULL,
    host text NOT NULL,
    address inet,
    at timestamptz NOT NULL,
    change jsonb NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    UNIQUE (team, push)
);
CREATE INDEX IF NOT EXISTS changes_of_a_team ON kode.changes (team, seq);

CREATE TABLE IF NOT EXISTS kode.notes (
    team text NOT NULL,
    id text NOT NULL,
    scope text NOT NULL,
    note jsonb NOT NULL,              -- `person` and `host` in it are set here, not by the client
    gone boolean NOT NULL,
    seq bigint NOT NULL,              -- of the change that made it what it is
    PRIMARY KEY (team, id)
);

CREATE OR REPLACE FUNCTION kode.sees(p_team text, p_scope text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT 1 FROM kode.members m
        WHERE m.team = p_team AND m.person = session_user AND m.scope IN ('*', p_scope)
    )
$$;

ALTER TABLE kode.members ENABLE ROW LEVEL SECURITY;
ALTER TABLE kode.changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE kode.notes ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON kode.members;
DROP POLICY IF EXISTS seen ON kode.changes;
DROP POLICY IF EXISTS seen ON kode.notes;
CREATE POLICY own ON kode.members FOR SELECT USING (person = session_user);
CREATE POLICY seen ON kode.changes FOR SELECT USING (kode.sees(team, scope));
CREATE POLICY seen ON kode.notes FOR SELECT USING (kode.sees(team, scope));

-- One change of notes in one scope; returns its place in the order of the team's changes.
-- 40001: a note is not as `p_before` has it, so the client must look again.
CREATE OR REPLACE FUNCTION kode.append(
    p_team text, p_scope text, p_push uuid, p_host text, p_change jsonb, p_before jsonb,
    p_after jsonb
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_seq bigint;
    v_one jsonb;
    v_old kode.notes;
    v_known boolean;
BEGIN
    IF NOT kode.sees(p_team, p_scope) THEN
        RAISE EXCEPTION '% may not write % of the team %', session_user, p_scope, p_team
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Held to the end, so that changes become visible in the order of their numbers.
    PERFORM pg_advisory_xact_lock(hashtextextended('kode ' || p_team, 0));
    SELECT seq INTO v_seq FROM kode.changes WHERE team = p_team AND push = p_push;
    IF FOUND THEN
        RETURN v_seq;
    END IF;
    INSERT INTO kode.changes (push, team, scope, person, host, address, at, change, before, after)
    VALUES (p_push, p_team, p_scope, session_user, p_host, inet_client_addr(), clock_timestamp(),
            p_change, p_before, p_after)
    RETURNING seq INTO v_seq;

    FOR v_one IN SELECT jsonb_array_elements(p_before) LOOP
        SELECT * INTO v_old FROM kode.notes WHERE team = p_team AND id = v_one ->> 'id';
        IF NOT FOUND OR v_old.gone OR v_old.scope <> p_scope
            OR v_old.note - 'person' - 'host' <> v_one - 'person' - 'host' THEN
            RAISE EXCEPTION 'the note % was changed', v_one ->> 'id' USING ERRCODE = '40001';
        END IF;
        UPDATE kode.notes SET gone = true, seq = v_seq WHERE team = p_team AND id = v_old.id;
    END LOOP;

    FOR v_one IN SELECT jsonb_array_elements(p_after) LOOP
        SELECT * INTO v_old FROM kode.notes WHERE team = p_team AND id = v_one ->> 'id';
        v_known := FOUND;
        IF v_known AND NOT v_old.gone THEN
            RAISE EXCEPTION 'the note % is there', v_one ->> 'id' USING ERRCODE = '40001';
        END IF;
        IF v_known AND v_old.note ->> 'untrusted' = 'waits'
            AND v_one ->> 'untrusted' IS DISTINCT FROM 'waits'
            AND v_old.note ->> 'person' = session_user THEN
            RAISE EXCEPTION 'the note % came from outside in a session of %: somebody else approves it',
                v_old.id, session_user USING ERRCODE = 'insufficient_privilege';
        END IF;
        v_one := v_one || CASE
            WHEN v_known THEN jsonb_build_object(
                'person', v_old.note ->> 'person', 'host', v_old.note ->> 'host')
            ELSE jsonb_build_object('person', session_user, 'host', p_host)
        END;
        INSERT INTO kode.notes VALUES (p_team, v_one ->> 'id', p_scope, v_one, false, v_seq)
        ON CONFLICT (team, id) DO UPDATE
        SET scope = excluded.scope, note = excluded.note, gone = false, seq = excluded.seq;
    END LOOP;
    RETURN v_seq;
END
$$;

REVOKE ALL ON kode.members, kode.changes, kode.notes FROM PUBLIC;
GRANT SELECT ON kode.members, kode.changes, kode.notes TO PUBLIC;
REVOKE ALL ON FUNCTION kode.sees, kode.append FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kode.sees, kode.append TO PUBLIC;

-- Not even the owner rewrites what happened by a slip.
CREATE OR REPLACE FUNCTION kode.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the changes of a team only grow';
END
$$;
DROP TRIGGER IF EXISTS only_grows ON kode.changes;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON kode.changes
    FOR EACH STATEMENT EXECUTE FUNCTION kode.refuse();
