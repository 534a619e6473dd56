-- Tidegate's tables: the sum of the migrations, for a schema that has none of them yet.
-- Columns named *_us and forget_at are microseconds since 1970, of event time or of a clock.
-- Names compare byte by byte (COLLATE "C"): fast, and the same on every system.

-- Which migrations this schema has seen.
CREATE TABLE tidegate_streaming_schema (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL
);

-- One row per pipeline. Whoever has the token may commit; the token only ever grows.
-- plan: what the state was computed by. min_reader_version: the least that a reader must know.
-- holder, session, held_at: who raised the token last, the name of its connections, and when.
CREATE TABLE tidegate_streaming_pipeline (
    pipeline_name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    epoch bigint NOT NULL,
    incarnation text NOT NULL,
    state_version integer NOT NULL,
    min_reader_version integer NOT NULL,
    library_version text NOT NULL,
    plan json,
    published_epoch bigint NOT NULL,
    folded_epoch bigint NOT NULL,
    folded_us bigint NOT NULL,
    holder text NOT NULL,
    session text NOT NULL,
    held_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

-- Committed epochs: the last one, and those whose output may not be out yet.
CREATE TABLE tidegate_streaming_manifest (
    pipeline_name text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    manifest json NOT NULL,
    committed_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline_name, epoch)
);

-- Staged parts: segments of state (Arrow IPC files) and rows for targets, in pieces where a part
-- is large; bytes, rows and checksum (CRC-32) are those of the whole part.
-- token, staged_epoch: under which token and for which epoch it was staged.
-- epoch: the first that named it as state; NULL: none did. It counts only while a manifest names it.
-- replaced_epoch: the first that did not any more.
CREATE TABLE tidegate_streaming_journal (
    pipeline_name text COLLATE "C" NOT NULL,
    part_name text COLLATE "C" NOT NULL,
    piece integer NOT NULL,
    token bigint NOT NULL,
    staged_epoch bigint NOT NULL,
    bytes bigint NOT NULL,
    rows bigint NOT NULL,
    checksum bigint NOT NULL,
    operator text COLLATE "C",
    epoch bigint,
    first_group integer,
    end_group integer,
    replaced_epoch bigint,
    staged_at timestamptz NOT NULL DEFAULT now(),
    blob bytea NOT NULL,
    PRIMARY KEY (pipeline_name, part_name, piece)
);

-- Numbers do not get much smaller by what the server can do, and it takes long.
ALTER TABLE tidegate_streaming_journal ALTER COLUMN blob SET STORAGE EXTERNAL;

-- How far each source has been read, as JSON: what the last manifest says, for people to read.
CREATE TABLE tidegate_streaming_offsets (
    pipeline_name text COLLATE "C" NOT NULL,
    source_id text COLLATE "C" NOT NULL,
    offset_bytes bytea NOT NULL,
    state_version integer NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline_name, source_id)
);

-- What each source has discovered, in order; entries are added, never changed.
CREATE TABLE tidegate_streaming_log (
    pipeline_name text COLLATE "C" NOT NULL,
    source_id text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    entry json NOT NULL,
    PRIMARY KEY (pipeline_name, source_id, place)
);

-- State by key as of some epoch, for people and tools to read. Nothing is recovered from it.
-- group_key: the key columns as JSON. state_blob: JSON as UTF-8, one object whose only member is
-- named after what the operator holds (windows, rows) and lists them.
CREATE TABLE tidegate_streaming_state (
    pipeline_name text COLLATE "C" NOT NULL,
    operator text COLLATE "C" NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    key_group integer NOT NULL,
    state_blob bytea NOT NULL,
    state_version integer NOT NULL,
    as_of_epoch bigint NOT NULL,
    forget_at bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline_name, operator, group_key)
);

CREATE INDEX tidegate_streaming_state_forget_at
    ON tidegate_streaming_state (pipeline_name, operator, forget_at);

-- JSON that tasks wrote, as a value of the database. Its text cannot hold a zero character,
-- which stands there as U+FFFD.
CREATE FUNCTION tidegate_streaming_json(written text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT regexp_replace(written, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb $$;

-- The readable state: a row for each window or waiting row of a key.
CREATE VIEW tidegate_streaming_state_readable AS
SELECT state.pipeline_name,
       state.operator,
       tidegate_streaming_json(state.group_key) AS group_key,
       kind.what,
       held.nth,
       held.item AS held,
       CASE WHEN abs(state.forget_at) < 200000000000000000
            THEN timestamptz 'epoch' + state.forget_at * interval '1 microsecond' END AS forget_at,
       state.as_of_epoch,
       state.updated_at
  FROM tidegate_streaming_state AS state
 CROSS JOIN LATERAL jsonb_each(
           tidegate_streaming_json(convert_from(state.state_blob, 'UTF8'))) AS kind (what, items)
 CROSS JOIN LATERAL jsonb_array_elements(kind.items) WITH ORDINALITY AS held (item, nth);
