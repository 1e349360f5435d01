-- A database of version 1, as kode made it before the words of notes were read anew.
CREATE TABLE IF NOT EXISTS memory_notes (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('log', 'summary', 'rule', 'soul')),
    content TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    confidence REAL NOT NULL DEFAULT 1.0,
    stability TEXT NOT NULL CHECK (stability IN ('volatile', 'stable', 'permanent')),
    sensitivity TEXT NOT NULL CHECK (sensitivity IN ('normal', 'sensitive')),
    evidence TEXT NOT NULL DEFAULT '[]',
    job_id TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    superseded_by TEXT,
    untrusted TEXT NOT NULL DEFAULT '',
    degraded INTEGER NOT NULL DEFAULT 0,
    who TEXT NOT NULL,
    session TEXT,
    turn INTEGER
);
CREATE INDEX IF NOT EXISTS notes_newest ON memory_notes (user, kind, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_latest ON memory_notes (user, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_same ON memory_notes (user, substr(content, 1, 32))
    WHERE superseded_by IS NULL;
CREATE INDEX IF NOT EXISTS notes_expiry ON memory_notes (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS notes_session ON memory_notes (session) WHERE session IS NOT NULL;
CREATE TABLE IF NOT EXISTS note_terms (
    place INTEGER PRIMARY KEY, terms TEXT NOT NULL, length INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS note_vectors (
    place INTEGER PRIMARY KEY, space TEXT NOT NULL, vector BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS note_words USING fts5 (
    terms, content='note_terms', content_rowid='place',
    tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co' tokenchars '.'"
);
CREATE VIRTUAL TABLE IF NOT EXISTS note_holding USING fts5vocab (note_words, row);

INSERT INTO memory_notes (place, id, user, scope, kind, content, tags, stability, sensitivity, created_at, who)
VALUES
    (1, '00000000000000a1', 'default', 'user', 'soul', 'I am brief.', '[]', 'permanent', 'normal', '2026-01-01T00:00:00.000Z', 'user'),
    (2, '00000000000000a2', 'default', 'user', 'log', 'Prefers PostgreSQL with maxRetries', '["db"]', 'stable', 'normal', '2026-01-02T00:00:00.000Z', 'model'),
    (3, '00000000000000a3', 'default', 'user', 'rule', 'Deploys need a yes', '[]', 'stable', 'sensitive', '2026-01-03T00:00:00.000Z', 'user');
INSERT INTO note_terms VALUES (1, 'am brief', 2), (2, 'prefer postgr sql max retri db', 6), (3, 'deploy need', 2);
INSERT INTO note_words (rowid, terms) SELECT place, terms FROM note_terms;
INSERT INTO note_vectors VALUES (2, 'a paid model', x'0000803f00000000');
INSERT INTO meta VALUES ('texts', '3'), ('words', '10'), ('last_maintenance', '2026-01-03T00:00:00.000Z');
PRAGMA user_version = 1;
