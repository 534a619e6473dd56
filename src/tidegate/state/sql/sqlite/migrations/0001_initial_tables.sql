-- The tables as they were first.

CREATE TABLE tidegate_streaming_schema (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
);

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

CREATE TABLE tidegate_streaming_manifest (
    pipeline_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    committed_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, epoch)
);

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
    PRIMARY KEY (pipeline_name, part_name)
);

CREATE TABLE tidegate_streaming_offsets (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    offset_bytes BLOB NOT NULL,
    state_version INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id)
);

CREATE TABLE tidegate_streaming_log (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id, place)
);

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
