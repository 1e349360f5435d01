-- Vectors of a team's notes, where the server has pgvector in the schema @ext@. They say nothing that
-- the notes do not: all of this can be dropped, and members make the vectors again.

-- What may be compared: vectors of one team, model and number of dimensions. Each space has an index
-- of its own, so that a search passes over no other team's rows.
CREATE TABLE IF NOT EXISTS kode.spaces (
    space integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    model text NOT NULL CHECK (char_length(model) BETWEEN 1 AND 200),
    dims integer NOT NULL,
    UNIQUE (team, model, dims)
);

CREATE TABLE IF NOT EXISTS kode.vectors (
    id text NOT NULL,                 -- of the note
    space integer NOT NULL REFERENCES kode.spaces ON DELETE CASCADE,
    team text NOT NULL,
    scope text NOT NULL,
    digest text NOT NULL,             -- of the text that it stands for
    person text NOT NULL,             -- who sent it
    embedding @ext@.vector NOT NULL,
    PRIMARY KEY (id, space)
);

ALTER TABLE kode.spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE kode.vectors ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON kode.spaces;
DROP POLICY IF EXISTS seen ON kode.vectors;
CREATE POLICY seen ON kode.spaces FOR SELECT USING (EXISTS (
    SELECT 1 FROM kode.members m WHERE m.team = spaces.team AND m.person = session_user));
CREATE POLICY seen ON kode.vectors FOR SELECT USING (kode.sees(team, scope));

-- The SHA-256 of what a note says; null for one that wants no vector.
CREATE OR REPLACE FUNCTION kode.digest(p_note kode.notes) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(p_note.note ->> 'content', 'UTF8')), 'hex')
    WHERE NOT p_note.gone AND p_note.note ->> 'superseded_by' IS NULL
$$;

-- The number of a space, made with its index when its first vector comes.
CREATE OR REPLACE FUNCTION kode.space(p_team text, p_model text, p_dims integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_space integer;
BEGIN
    SELECT space INTO v_space FROM kode.spaces
    WHERE team = p_team AND model = p_model AND dims = p_dims;
    IF FOUND THEN
        RETURN v_space;
    END IF;
    -- One at a time: two that make an index and then insert would wait for each other.
    PERFORM pg_advisory_xact_lock(hashtextextended('kode spaces', 0));
    IF (SELECT count(*) FROM kode.spaces WHERE team = p_team) >= 8 THEN
        RAISE EXCEPTION 'the team % has vectors of 8 models; who owns the database deletes what is '
            'not used from kode.spaces', p_team USING ERRCODE = 'program_limit_exceeded';
    END IF;
    INSERT INTO kode.spaces (team, model, dims) VALUES (p_team, p_model, p_dims)
    ON CONFLICT DO NOTHING RETURNING space INTO v_space;
    IF NOT FOUND THEN
        RETURN kode.space(p_team, p_model, p_dims);
    END IF;
    IF p_dims <= 2000 THEN            -- an HNSW index has no more; without it all are compared
        EXECUTE format(
            'CREATE INDEX vectors_of_%s ON kode.vectors '
            'USING hnsw ((embedding::@ext@.vector(%s)) @ext@.vector_cosine_ops) WHERE space = %s',
            v_space, p_dims, v_space);
    END IF;
    RETURN v_space;
END
$$;

-- Keeps vectors that a member has made, each for a note they see that still says what it was made
-- from; others are passed over. The first that comes for a note stays. Returns how many were kept.
CREATE OR REPLACE FUNCTION kode.keep_vectors(
    p_team text, p_model text, p_dims integer, p_vectors jsonb
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_one jsonb;
    v_scope text;
    v_vector @ext@.vector;
    v_space integer;
    v_kept integer := 0;
BEGIN
    FOR v_one IN SELECT o FROM jsonb_array_elements(p_vectors) o ORDER BY o ->> 'id' LOOP
        -- Locked, so that none is kept for a note that is forgotten in this moment; one that is
        -- being changed is not waited for.
        SELECT n.scope INTO v_scope FROM kode.notes n
        WHERE n.team = p_team AND n.id = v_one ->> 'id' AND kode.sees(n.team, n.scope)
            AND kode.digest(n) = v_one ->> 'digest'
        FOR SHARE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_vector := (v_one ->> 'vector')::@ext@.vector;  -- which refuses what is not finite
        IF @ext@.vector_dims(v_vector) <> p_dims OR @ext@.vector_norm(v_vector) = 0 THEN
            RAISE EXCEPTION 'the vector of the note % has no direction in % dimensions',
                v_one ->> 'id', p_dims USING ERRCODE = 'data_exception';
        END IF;
        v_space := coalesce(v_space, kode.space(p_team, p_model, p_dims));
        INSERT INTO kode.vectors
        VALUES (v_one ->> 'id', v_space, p_team, v_scope, v_one ->> 'digest', session_user, v_vector)
        ON CONFLICT DO NOTHING;
        v_kept := v_kept + 1;
    END LOOP;
    RETURN v_kept;
END
$$;

-- The notes after `p_after` that have no vector of this model, as far as the caller sees them. Not
-- under row-level security, which would look at who asks once for each note.
CREATE OR REPLACE FUNCTION kode.lacking(
    p_team text, p_model text, p_dims integer, p_after text, p_most integer
) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH lacking AS MATERIALIZED (
        SELECT n.id, n.scope FROM kode.notes n
        WHERE n.team = p_team AND n.id > p_after AND NOT n.gone
            AND n.note ->> 'superseded_by' IS NULL AND NOT EXISTS (
                SELECT 1 FROM kode.vectors v JOIN kode.spaces s USING (space)
                WHERE v.id = n.id AND s.team = p_team AND s.model = p_model AND s.dims = p_dims)
    )
    SELECT id FROM lacking WHERE kode.sees(p_team, scope) ORDER BY id LIMIT p_most
$$;

-- The notes nearest to a vector, by cosine, under row-level security: of all projects, or of this
-- one and of none.
CREATE OR REPLACE FUNCTION kode.nearest(
    p_team text, p_model text, p_vector text, p_project text, p_most integer
) RETURNS TABLE (id text, cosine double precision)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_dims integer := @ext@.vector_dims(p_vector::@ext@.vector);
    v_space integer;
BEGIN
    SELECT s.space INTO v_space FROM kode.spaces s
    WHERE s.team = p_team AND s.model = p_model AND s.dims = v_dims;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('hnsw.ef_search', '200', true);
    IF current_setting('hnsw.iterative_scan', true) IS NOT NULL THEN  -- pgvector 0.8
        PERFORM set_config('hnsw.iterative_scan', 'strict_order', true);
    END IF;
    -- Numbers stand in the text, or the index of the space would not be found to fit.
    RETURN QUERY EXECUTE format(
        'SELECT v.id, 1 - (v.embedding::@ext@.vector(%1$s) OPERATOR(@ext@.<=>) $1::@ext@.vector(%1$s)) '
        'FROM kode.vectors v WHERE v.space = %2$s '
        'AND ($2 IS NULL OR v.scope = $2 OR left(v.scope, 8) <> ''project:'') '
        'ORDER BY v.embedding::@ext@.vector(%1$s) OPERATOR(@ext@.<=>) $1::@ext@.vector(%1$s) LIMIT $3',
        v_dims, v_space) USING p_vector, p_project, least(p_most, 500);
END
$$;

REVOKE ALL ON kode.spaces, kode.vectors FROM PUBLIC;
GRANT SELECT ON kode.spaces, kode.vectors TO PUBLIC;
REVOKE ALL ON FUNCTION kode.digest, kode.space, kode.keep_vectors, kode.lacking, kode.nearest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kode.keep_vectors, kode.lacking, kode.nearest TO PUBLIC;

-- A note that is forgotten, replaced or says something else has no vector; looked at when the change
-- is whole, since it takes a note away before it puts it back.
CREATE OR REPLACE FUNCTION kode.drop_vectors() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('kode.vectors') IS NULL THEN  -- dropped: notes are changed all the same
        RETURN NULL;
    END IF;
    DELETE FROM kode.vectors v WHERE v.team = OLD.team AND v.id = OLD.id AND NOT EXISTS (
        SELECT 1 FROM kode.notes n WHERE n.team = v.team AND n.id = v.id AND n.scope = v.scope
            AND kode.digest(n) = v.digest);
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS without_vector ON kode.notes;
CREATE CONSTRAINT TRIGGER without_vector AFTER UPDATE OR DELETE ON kode.notes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kode.drop_vectors();
