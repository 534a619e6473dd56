BEGIN TRANSACTION;
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
INSERT INTO "tidegate_streaming_journal" VALUES('clicks of the day','1-1-attempt1-first','window',1,1018,2,884080556,0,256);
INSERT INTO "tidegate_streaming_journal" VALUES('clicks of the day','1-2-attempt2-second','window',2,1026,2,3643433001,0,256);
INSERT INTO "tidegate_streaming_journal" VALUES('clicks of the day','1-3-attempt3-third','window',3,1018,2,593542905,0,256);
CREATE TABLE tidegate_streaming_log (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id, place)
);
INSERT INTO "tidegate_streaming_log" VALUES('clicks of the day','clicks',0,'{"path":"1.json"}');
INSERT INTO "tidegate_streaming_log" VALUES('clicks of the day','clicks',1,'{"path":"2.json"}');
INSERT INTO "tidegate_streaming_log" VALUES('clicks of the day','clicks',2,'{"path":"3.json"}');
CREATE TABLE tidegate_streaming_manifest (
    pipeline_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    committed_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, epoch)
);
INSERT INTO "tidegate_streaming_manifest" VALUES('clicks of the day',2,'{"state_version":1,"epoch":2,"offsets":{"clicks":{"place":2}},"watermarks":{"pipeline_us":-9223372036854775808},"state":{"window":{"shards":[[{"part":{"name":"1-1-attempt1-first","bytes":1018,"checksum":884080556,"rows":2},"first_group":0,"end_group":256},{"part":{"name":"1-2-attempt2-second","bytes":1026,"checksum":3643433001,"rows":2},"first_group":0,"end_group":256}]]}},"outputs":[{"operator":"window","channel":"main","kind":"sent","part":{"name":"1-2-attempt2-main-2","bytes":15,"checksum":3164998087,"rows":1},"in_target":false}],"discovered":{"clicks":[{"path":"2.json"}]},"counts":{"rows":2},"committed_us":1800000000000002}','2026-11-16T03:58:48.636Z');
INSERT INTO "tidegate_streaming_manifest" VALUES('clicks of the day',3,'{"state_version":1,"epoch":3,"offsets":{"clicks":{"place":3}},"watermarks":{"pipeline_us":-9223372036854775808},"state":{"window":{"shards":[[{"part":{"name":"1-2-attempt2-second","bytes":1026,"checksum":3643433001,"rows":2},"first_group":0,"end_group":256},{"part":{"name":"1-3-attempt3-third","bytes":1018,"checksum":593542905,"rows":2},"first_group":0,"end_group":256}]]}},"outputs":[{"operator":"window","channel":"main","kind":"sent","part":{"name":"1-3-attempt3-main-3","bytes":15,"checksum":3416340817,"rows":1},"in_target":false}],"discovered":{"clicks":[{"path":"3.json"}]},"counts":{"rows":3},"committed_us":1800000000000003}','2026-11-16T03:58:48.646Z');
CREATE TABLE tidegate_streaming_offsets (
    pipeline_name TEXT NOT NULL,
    source_id TEXT NOT NULL,
    offset_bytes BLOB NOT NULL,
    state_version INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (pipeline_name, source_id)
);
INSERT INTO "tidegate_streaming_offsets" VALUES('clicks of the day','clicks',X'7B22706C616365223A337D',1,'2026-11-16T03:58:48.646Z');
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
INSERT INTO "tidegate_streaming_pipeline" VALUES('clicks of the day',1,3,'553ed01b-8906-4f1c-b66a-b2c1f317fa76',1,1,'0.1.0','{"window":{"gap_ms":30000}}',1,3,1794801528949999,'2026-11-16T03:58:48.611Z','2026-11-16T03:58:48.950Z');
CREATE TABLE tidegate_streaming_schema (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
);
INSERT INTO "tidegate_streaming_schema" VALUES(1,'2026-11-16T03:58:48.601Z');
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
INSERT INTO "tidegate_streaming_state" VALUES('clicks of the day','window','{"user":"ann"}',7,X'7B2273657373696F6E73223A5B5D7D',1,3,1000000,'2026-11-16T03:58:48.945Z');
COMMIT;
