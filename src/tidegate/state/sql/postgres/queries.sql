-- find_pipeline --
-- Where the pipeline stands. No row: it was never opened.
SELECT token, epoch, incarnation, min_reader_version, plan::text AS plan, published_epoch,
       folded_epoch, folded_us
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = %(pipeline)s;

-- hold_pipeline --
-- As find_pipeline; nobody else commits until the end of this transaction.
SELECT token, epoch, incarnation, min_reader_version, plan::text AS plan, published_epoch,
       folded_epoch, folded_us
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = %(pipeline)s
   FOR NO KEY UPDATE;

-- take_pipeline --
-- As find_pipeline; nobody else commits, or folds, until the end of this transaction.
SELECT token, epoch, incarnation, min_reader_version, plan::text AS plan, published_epoch,
       folded_epoch, folded_us
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = %(pipeline)s
   FOR UPDATE;

-- share_pipeline --
-- As find_pipeline; nobody takes it over until the end of this transaction, but commits go on.
SELECT token, epoch, incarnation, min_reader_version, plan::text AS plan, published_epoch,
       folded_epoch, folded_us
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = %(pipeline)s
   FOR KEY SHARE;

-- create_pipeline --
-- A pipeline that nobody holds and that has not committed anything.
INSERT INTO tidegate_streaming_pipeline
       (pipeline_name, token, epoch, incarnation, state_version, min_reader_version,
        library_version, plan, published_epoch, folded_epoch, folded_us, holder, session, held_at,
        created_at, updated_at)
VALUES (%(pipeline)s, 0, 0, %(incarnation)s, %(state_version)s, %(min_reader_version)s,
        %(library_version)s, NULL, 0, 0, 0, '', '', now(), now(), now());

-- note_holder --
-- The same driver, with other connections: the token stays.
UPDATE tidegate_streaming_pipeline
   SET holder = %(holder)s, session = %(session)s, held_at = clock_timestamp()
 WHERE pipeline_name = %(pipeline)s;

-- raise_token --
-- From here on no older holder can commit.
UPDATE tidegate_streaming_pipeline
   SET token = token + 1,
       holder = %(holder)s,
       session = %(session)s,
       held_at = clock_timestamp(),
       updated_at = now()
 WHERE pipeline_name = %(pipeline)s;

-- advance_pipeline --
-- Move the pipeline one epoch on. No plan given: it stays. Versions never go back.
UPDATE tidegate_streaming_pipeline
   SET epoch = %(epoch)s,
       plan = coalesce(%(plan)s::json, plan),
       state_version = greatest(state_version, %(state_version)s),
       min_reader_version = greatest(min_reader_version, %(min_reader_version)s),
       library_version = %(library_version)s,
       updated_at = now()
 WHERE pipeline_name = %(pipeline)s;

-- find_manifests --
-- Committed epochs whose output may not be out yet, and the last one, in order.
SELECT m.epoch, m.manifest::text
  FROM tidegate_streaming_manifest AS m
  JOIN tidegate_streaming_pipeline AS p ON p.pipeline_name = m.pipeline_name
 WHERE m.pipeline_name = %(pipeline)s AND (m.epoch > p.published_epoch OR m.epoch = p.epoch)
 ORDER BY m.epoch;

-- add_manifest --
-- The epoch as it is committed.
INSERT INTO tidegate_streaming_manifest (pipeline_name, epoch, manifest, committed_at)
VALUES (%(pipeline)s, %(epoch)s, %(manifest)s::json, now());

-- find_parts --
-- The parts of state that are named, or were until a commit replaced them.
SELECT part_name, bytes, rows, checksum, replaced_epoch
  FROM tidegate_streaming_journal
 WHERE pipeline_name = %(pipeline)s AND piece = 0 AND epoch IS NOT NULL;

-- find_staged --
-- What is there of some parts; blobs are not read for it.
SELECT part_name, bytes, checksum, sum(octet_length(blob))::bigint
  FROM tidegate_streaming_journal
 WHERE pipeline_name = %(pipeline)s AND part_name = ANY(%(parts)s::text[])
 GROUP BY part_name, bytes, checksum;

-- add_part --
-- Segments that a manifest names; one may have been named before, until another replaced it.
UPDATE tidegate_streaming_journal AS journal
   SET operator = named.operator,
       epoch = named.epoch,
       first_group = named.first_group,
       end_group = named.end_group,
       replaced_epoch = NULL
  FROM unnest(%(pipeline)s::text[], %(part)s::text[], %(operator)s::text[], %(epoch)s::bigint[],
              %(first_group)s::integer[], %(end_group)s::integer[])
       AS named (pipeline_name, part_name, operator, epoch, first_group, end_group)
 WHERE journal.pipeline_name = named.pipeline_name AND journal.part_name = named.part_name;

-- replace_part --
-- Segments that the manifest of this epoch does not name any more.
UPDATE tidegate_streaming_journal AS journal
   SET replaced_epoch = gone.epoch
  FROM unnest(%(pipeline)s::text[], %(part)s::text[], %(epoch)s::bigint[])
       AS gone (pipeline_name, part_name, epoch)
 WHERE journal.pipeline_name = gone.pipeline_name AND journal.part_name = gone.part_name;

-- forget_replaced_parts --
-- Segments that were replaced before the last commit are as if never named.
UPDATE tidegate_streaming_journal
   SET operator = NULL, epoch = NULL, first_group = NULL, end_group = NULL, replaced_epoch = NULL
 WHERE pipeline_name = %(pipeline)s AND replaced_epoch < %(epoch)s;

-- drop_garbage --
-- Some of the parts that are not needed and were staged under an older token or up to this epoch.
WITH garbage AS (
    SELECT part_name
      FROM tidegate_streaming_journal
     WHERE pipeline_name = %(pipeline)s AND piece = 0
       AND (token < %(token)s OR staged_epoch <= %(epoch)s)
       AND part_name <> ALL(%(needed)s::text[])
     LIMIT %(at_most)s
), dropped AS (
    DELETE FROM tidegate_streaming_journal
     WHERE pipeline_name = %(pipeline)s AND part_name IN (SELECT part_name FROM garbage)
 RETURNING piece
)
SELECT count(*) FROM dropped WHERE piece = 0;

-- put_offset --
-- How far sources have been read.
INSERT INTO tidegate_streaming_offsets
       (pipeline_name, source_id, offset_bytes, state_version, updated_at)
SELECT pipeline_name, source_id, offset_bytes, state_version, now()
  FROM unnest(%(pipeline)s::text[], %(source)s::text[], %(offset)b::bytea[],
              %(state_version)s::integer[])
       AS given (pipeline_name, source_id, offset_bytes, state_version)
    ON CONFLICT (pipeline_name, source_id) DO UPDATE
   SET offset_bytes = excluded.offset_bytes,
       state_version = excluded.state_version,
       updated_at = excluded.updated_at;

-- find_sources --
-- The sources that have an offset.
SELECT source_id FROM tidegate_streaming_offsets WHERE pipeline_name = %(pipeline)s;

-- drop_offset --
-- Sources that the manifest does not know any more.
DELETE FROM tidegate_streaming_offsets
 WHERE (pipeline_name, source_id) IN (SELECT * FROM unnest(%(pipeline)s::text[], %(source)s::text[]));

-- next_place --
-- The place behind the last entry of a source's log.
SELECT coalesce(max(place) + 1, 0)
  FROM tidegate_streaming_log
 WHERE pipeline_name = %(pipeline)s AND source_id = %(source)s;

-- add_log_entry --
-- Things that a source has discovered.
INSERT INTO tidegate_streaming_log (pipeline_name, source_id, place, entry)
SELECT * FROM unnest(%(pipeline)s::text[], %(source)s::text[], %(place)s::bigint[],
                     %(entry)s::json[]);

-- find_logs --
-- How many entries the log of each source has.
SELECT source_id, max(place) + 1 AS entries
  FROM tidegate_streaming_log
 WHERE pipeline_name = %(pipeline)s
 GROUP BY source_id;

-- read_log --
-- Some of what a source has discovered, in order.
SELECT entry::text
  FROM tidegate_streaming_log
 WHERE pipeline_name = %(pipeline)s AND source_id = %(source)s
   AND place >= %(first)s AND place < %(end)s
 ORDER BY place;

-- mark_published --
-- The output of these epochs is out; one that is not committed cannot be.
UPDATE tidegate_streaming_pipeline
   SET published_epoch = greatest(published_epoch, least(%(epoch)s, epoch)), updated_at = now()
 WHERE pipeline_name = %(pipeline)s;

-- forget_published_manifests --
-- Drop epochs that are out, but the last.
DELETE FROM tidegate_streaming_manifest AS m
 USING tidegate_streaming_pipeline AS p
 WHERE m.pipeline_name = %(pipeline)s AND p.pipeline_name = %(pipeline)s
   AND m.epoch < p.epoch AND m.epoch <= p.published_epoch;

-- put_key --
-- The state of keys of one operator, unless a later epoch of them has been folded already.
INSERT INTO tidegate_streaming_state AS state
       (pipeline_name, operator, group_key, key_group, state_blob, state_version, as_of_epoch,
        forget_at, updated_at)
SELECT %(the_pipeline)s, %(the_operator)s, group_key, key_group, state_blob, %(the_state_version)s,
       %(the_as_of_epoch)s, forget_at, now()
  FROM unnest(%(group_key)b::text[], %(key_group)b::integer[], %(state_blob)b::bytea[],
              %(forget_at)b::bigint[])
       AS given (group_key, key_group, state_blob, forget_at)
    ON CONFLICT (pipeline_name, operator, group_key) DO UPDATE
   SET key_group = excluded.key_group,
       state_blob = excluded.state_blob,
       state_version = excluded.state_version,
       as_of_epoch = excluded.as_of_epoch,
       forget_at = excluded.forget_at,
       updated_at = excluded.updated_at
 WHERE excluded.as_of_epoch >= state.as_of_epoch;

-- drop_key --
-- Keys of one operator that have no state any more.
DELETE FROM tidegate_streaming_state
 WHERE pipeline_name = %(the_pipeline)s AND operator = %(the_operator)s
   AND group_key = ANY(%(group_key)b::text[]) AND as_of_epoch <= %(the_as_of_epoch)s;

-- drop_forgotten_keys --
-- Some of the keys that the watermark has forgotten.
DELETE FROM tidegate_streaming_state
 WHERE ctid = ANY(ARRAY(SELECT ctid
                          FROM tidegate_streaming_state
                         WHERE pipeline_name = %(pipeline)s AND operator = %(operator)s
                           AND forget_at <= %(watermark_us)s
                         LIMIT %(at_most)s));

-- mark_folded --
-- As of which epoch the readable table is, and when that was.
UPDATE tidegate_streaming_pipeline
   SET folded_epoch = greatest(folded_epoch, %(epoch)s),
       folded_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       updated_at = now()
 WHERE pipeline_name = %(pipeline)s;

-- begin_incarnation --
-- Everything anew, but epochs and token: they go on counting.
UPDATE tidegate_streaming_pipeline
   SET incarnation = %(incarnation)s,
       plan = NULL,
       published_epoch = epoch,
       folded_epoch = 0,
       folded_us = 0,
       updated_at = now()
 WHERE pipeline_name = %(pipeline)s;

-- clear_manifests --
-- All epochs, published or not.
DELETE FROM tidegate_streaming_manifest WHERE pipeline_name = %(pipeline)s;

-- clear_journal --
-- No segment is named any more: all become garbage.
UPDATE tidegate_streaming_journal
   SET operator = NULL, epoch = NULL, first_group = NULL, end_group = NULL, replaced_epoch = NULL
 WHERE pipeline_name = %(pipeline)s AND epoch IS NOT NULL;

-- clear_offsets --
-- All sources begin anew.
DELETE FROM tidegate_streaming_offsets WHERE pipeline_name = %(pipeline)s;

-- clear_logs --
-- What was discovered is discovered again.
DELETE FROM tidegate_streaming_log WHERE pipeline_name = %(pipeline)s;

-- clear_state --
-- All keys.
DELETE FROM tidegate_streaming_state WHERE pipeline_name = %(pipeline)s;

-- stage --
-- Parts of a task, in pieces.
COPY tidegate_streaming_journal
     (pipeline_name, part_name, piece, token, staged_epoch, bytes, rows, checksum, blob)
FROM STDIN (FORMAT BINARY);

-- fetch --
-- The bytes of some parts, piece by piece.
SELECT part_name, blob
  FROM tidegate_streaming_journal
 WHERE pipeline_name = %(pipeline)s AND part_name = ANY(%(parts)s::text[])
 ORDER BY part_name, piece;

-- find_server --
-- What the server is, and what it promises.
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS version_name,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('server_encoding') AS encoding,
       pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only,
       current_schema() AS schema;

-- find_schema --
-- No row back: the schema has none of the tables. (to_regclass may not see what others just made.)
SELECT c.relname
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = current_schema() AND c.relname = 'tidegate_streaming_schema';

-- find_current_schema --
-- The schema that names are looked up in; NULL where there is none, or none that the role may use.
SELECT current_schema();

-- find_namespace --
-- Whether there is a schema of this name, also if we may not use it.
SELECT nspname FROM pg_namespace WHERE nspname = %(schema)s;

-- find_schema_version --
-- The newest migration that this schema has seen.
SELECT max(version) FROM tidegate_streaming_schema;

-- add_schema_version --
-- A migration that this schema has seen.
INSERT INTO tidegate_streaming_schema (version, applied_at) VALUES (%(version)s, now());

-- wait_for_schema --
-- Whoever makes or changes the tables of a schema does it alone, until the end of the transaction.
SELECT pg_advisory_xact_lock(%(lock)s);

-- try_lease --
-- Whether the pipeline is ours now, until this connection ends or gives it back.
SELECT pg_try_advisory_lock(%(lock)s);

-- end_lease --
-- Let others have the pipeline.
SELECT pg_advisory_unlock(%(lock)s);

-- find_lease --
-- Whose connection holds the pipeline, and for how many seconds it has been silent: NULL if we
-- may not know. No row: nobody's.
SELECT activity.pid,
       activity.application_name AS session,
       extract(epoch FROM clock_timestamp() - activity.state_change)::float8 AS silent_s
  FROM pg_locks AS locks
  JOIN pg_stat_activity AS activity ON activity.pid = locks.pid
 WHERE locks.locktype = 'advisory' AND locks.granted AND locks.objsubid = 1
   AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (locks.classid::bigint << 32 | locks.objid::bigint) = %(lock)s;

-- find_holder --
-- Who raised the token last, by their own words, and since when.
SELECT holder, session, to_char(held_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = %(pipeline)s;

-- cut_connection --
-- End a connection, and with it what it holds.
SELECT pg_terminate_backend(%(backend)s);

-- end_transactions --
-- Cut the connections on which a driver that has lost the pipeline may hold locks in its sleep.
SELECT count(pg_terminate_backend(pid))
  FROM pg_stat_activity
 WHERE application_name = %(session)s AND state <> 'idle' AND pid <> pg_backend_pid()
   AND datname = current_database() AND usename = current_user;

-- inspect_names --
-- The pipelines of the schema.
SELECT pipeline_name AS pipeline FROM tidegate_streaming_pipeline ORDER BY pipeline_name;

-- inspect_committed --
-- Where a pipeline stands, with its last epoch; the manifest is NULL before the first.
SELECT p.pipeline_name AS pipeline, p.token, p.epoch, p.published_epoch, p.folded_epoch,
       p.incarnation, p.min_reader_version, p.library_version, p.plan::text AS plan, m.manifest::text AS manifest,
       (extract(epoch FROM clock_timestamp() - m.committed_at) * 1000000)::bigint AS age_us,
       (SELECT count(*) FROM tidegate_streaming_state AS s
         WHERE s.pipeline_name = p.pipeline_name) AS folded_keys
  FROM tidegate_streaming_pipeline AS p
  LEFT JOIN tidegate_streaming_manifest AS m
    ON m.pipeline_name = p.pipeline_name AND m.epoch = p.epoch
 WHERE p.pipeline_name = %(pipeline)s;

-- inspect_keys --
-- The keys of a pipeline, with their state.
SELECT operator, group_key, key_group, state_blob, as_of_epoch, forget_at
  FROM tidegate_streaming_state
 WHERE pipeline_name = %(pipeline)s
 ORDER BY operator, group_key;
