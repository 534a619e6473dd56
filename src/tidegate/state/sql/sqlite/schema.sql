-- Tidegate's tables: the sum of the migrations, for a database that has none of them yet.
-- Times in columns named *_at are UTC as ISO 8601, but forget_at: that, as all *_us, is event
-- time or clock time in microseconds since 1970.

-- Which migrations this database has seen.
CREATE TABLE tidegate_streaming_schema (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
);

-- One row per pipeline. Whoever has the token may commit; the token only ever grows.
-- plan: what the state was computed by. min_reader_version: the least that a reader must know.
CREATE TABLE tidegate_streaming_pipeline (
    pipeline_name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    state_version INTEGER NOT NULL,
    min_reader_version INTEGER NOT NULL,
    library_version TEXT NOT NULL,
    plan TEXT,
    published_epoch INTEGER NOT NULL,
    folded_epoch INTEGER NOT NULL,
    folded_us INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

-- Committed epochs as JSON: the last one, and those whose output may not be out yet.
CREATE TABLE tidegate_streaming_manifest (
    pipeline_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    committed_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, epoch)
);

-- Committed segments of state, each a file in the folder of parts.
-- epoch: the first that named it. replaced_epoch: the first that did not any more.
CREATE TABLE tidegate_streaming_journal (
    pipeline_name TEXT NOT NULL,
    part_name TEXT NOT NULL,
    operator TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    first_group INTEGER NOT NULL,
    end_group INTEGER NOT NULL,
    replaced_epoch INTEGER,
    PRIMARY KEY (pipeline_name, part_name)
);

-- How far each source has been read, as JSON: what the last manifest says, for people to read.
CREATE TABLE tidegate_streaming_offsets (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    offset_bytes BLOB NOT NULL,
    state_version INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id)
);

-- What each source has discovered, in order; entries are added, never changed.
CREATE TABLE tidegate_streaming_log (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id, place)
);

-- State by key as of some epoch, as JSON, for people and tools to read. Nothing is recovered from it.
CREATE TABLE tidegate_streaming_state (
    pipeline_name TEXT NOT NULL,
    operator TEXT NOT NULL,
    group_key TEXT NOT NULL,
    key_group INTEGER NOT NULL,
    state_blob BLOB NOT NULL,
    state_version INTEGER NOT NULL,
    as_of_epoch INTEGER NOT NULL,
    forget_at INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, operator, group_key)
);

CREATE INDEX tidegate_streaming_state_forget_at
    ON tidegate_streaming_state (pipeline_name, operator, forget_at);
