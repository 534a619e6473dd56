-- find_pipeline --
-- Where the pipeline stands. No row: it was never opened.
SELECT token, epoch, incarnation, min_reader_version, plan, published_epoch, folded_epoch, folded_us
  FROM tidegate_streaming_pipeline
 WHERE pipeline_name = :pipeline;

-- create_pipeline --
-- A pipeline that nobody holds and that has not committed anything.
INSERT INTO tidegate_streaming_pipeline
       (pipeline_name, token, epoch, incarnation, state_version, min_reader_version,
        library_version, plan, published_epoch, folded_epoch, folded_us, created_at, updated_at)
VALUES (:pipeline, 0, 0, :incarnation, :state_version, :min_reader_version,
        :library_version, NULL, 0, 0, 0,
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

-- note_holder --
-- Nothing: who holds a pipeline stands in the file that is locked.
SELECT 1;

-- raise_token --
-- From here on no older holder can commit.
UPDATE tidegate_streaming_pipeline
   SET token = token + 1, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 WHERE pipeline_name = :pipeline;

-- advance_pipeline --
-- Move the pipeline one epoch on. No plan given: it stays. Versions never go back.
UPDATE tidegate_streaming_pipeline
   SET epoch = :epoch,
       plan = COALESCE(:plan, plan),
       state_version = MAX(state_version, :state_version),
       min_reader_version = MAX(min_reader_version, :min_reader_version),
       library_version = :library_version,
       updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 WHERE pipeline_name = :pipeline;

-- find_manifests --
-- Committed epochs whose output may not be out yet, and the last one, in order.
SELECT m.epoch, m.manifest
  FROM tidegate_streaming_manifest AS m
  JOIN tidegate_streaming_pipeline AS p ON p.pipeline_name = m.pipeline_name
 WHERE m.pipeline_name = :pipeline AND (m.epoch > p.published_epoch OR m.epoch = p.epoch)
 ORDER BY m.epoch;

-- add_manifest --
-- The epoch as it is committed.
INSERT INTO tidegate_streaming_manifest (pipeline_name, epoch, manifest, committed_at)
VALUES (:pipeline, :epoch, :manifest, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

-- find_parts --
-- The parts of state that are named, or were until a commit replaced them.
SELECT part_name, bytes, rows, checksum, replaced_epoch
  FROM tidegate_streaming_journal
 WHERE pipeline_name = :pipeline;

-- add_part --
-- A segment that a manifest names; it may be in the journal since one replaced it before.
INSERT INTO tidegate_streaming_journal
       (pipeline_name, part_name, operator, epoch, bytes, rows, checksum, first_group, end_group)
VALUES (:pipeline, :part, :operator, :epoch, :bytes, :rows, :checksum, :first_group, :end_group)
    ON CONFLICT (pipeline_name, part_name) DO UPDATE
   SET operator = excluded.operator,
       epoch = excluded.epoch,
       bytes = excluded.bytes,
       rows = excluded.rows,
       checksum = excluded.checksum,
       first_group = excluded.first_group,
       end_group = excluded.end_group,
       replaced_epoch = NULL;

-- replace_part --
-- A segment that the manifest of this epoch does not name any more.
UPDATE tidegate_streaming_journal
   SET replaced_epoch = :epoch
 WHERE pipeline_name = :pipeline AND part_name = :part;

-- forget_replaced_parts --
-- Drop segments that were replaced before the last commit.
DELETE FROM tidegate_streaming_journal
 WHERE pipeline_name = :pipeline AND replaced_epoch < :epoch;

-- put_offset --
-- How far a source has been read.
INSERT INTO tidegate_streaming_offsets
       (pipeline_name, source_id, offset_bytes, state_version, updated_at)
VALUES (:pipeline, :source, :offset, :state_version, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    ON CONFLICT (pipeline_name, source_id) DO UPDATE
   SET offset_bytes = excluded.offset_bytes,
       state_version = excluded.state_version,
       updated_at = excluded.updated_at;

-- find_sources --
-- The sources that have an offset.
SELECT source_id FROM tidegate_streaming_offsets WHERE pipeline_name = :pipeline;

-- drop_offset --
-- A source that the manifest does not know any more.
DELETE FROM tidegate_streaming_offsets WHERE pipeline_name = :pipeline AND source_id = :source;

-- next_place --
-- The place behind the last entry of a source's log.
SELECT COALESCE(MAX(place) + 1, 0)
  FROM tidegate_streaming_log
 WHERE pipeline_name = :pipeline AND source_id = :source;

-- add_log_entry --
-- One thing that a source has discovered.
INSERT INTO tidegate_streaming_log (pipeline_name, source_id, place, entry)
VALUES (:pipeline, :source, :place, :entry);

-- find_logs --
-- How many entries the log of each source has.
SELECT source_id, MAX(place) + 1 AS entries
  FROM tidegate_streaming_log
 WHERE pipeline_name = :pipeline
 GROUP BY source_id;

-- read_log --
-- Some of what a source has discovered, in order.
SELECT entry
  FROM tidegate_streaming_log
 WHERE pipeline_name = :pipeline AND source_id = :source
   AND place >= :first AND place < :end
 ORDER BY place;

-- mark_published --
-- The output of these epochs is out; one that is not committed cannot be.
UPDATE tidegate_streaming_pipeline
   SET published_epoch = MAX(published_epoch, MIN(:epoch, epoch)),
       updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 WHERE pipeline_name = :pipeline;

-- forget_published_manifests --
-- Drop epochs that are out, but the last.
DELETE FROM tidegate_streaming_manifest
 WHERE pipeline_name = :pipeline
   AND epoch < (SELECT epoch FROM tidegate_streaming_pipeline WHERE pipeline_name = :pipeline)
   AND epoch <= (SELECT published_epoch
                   FROM tidegate_streaming_pipeline WHERE pipeline_name = :pipeline);

-- put_key --
-- The state of a key, unless a later epoch has been folded already.
INSERT INTO tidegate_streaming_state
       (pipeline_name, operator, group_key, key_group, state_blob, state_version, as_of_epoch,
        forget_at, updated_at)
VALUES (:pipeline, :operator, :group_key, :key_group, :state_blob, :state_version, :as_of_epoch,
        :forget_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    ON CONFLICT (pipeline_name, operator, group_key) DO UPDATE
   SET key_group = excluded.key_group,
       state_blob = excluded.state_blob,
       state_version = excluded.state_version,
       as_of_epoch = excluded.as_of_epoch,
       forget_at = excluded.forget_at,
       updated_at = excluded.updated_at
 WHERE excluded.as_of_epoch >= as_of_epoch;

-- drop_key --
-- A key that has no state any more.
DELETE FROM tidegate_streaming_state
 WHERE pipeline_name = :pipeline AND operator = :operator AND group_key = :group_key
   AND as_of_epoch <= :as_of_epoch;

-- drop_forgotten_keys --
-- Some of the keys that the watermark has forgotten.
DELETE FROM tidegate_streaming_state
 WHERE rowid IN (SELECT rowid
                   FROM tidegate_streaming_state
                  WHERE pipeline_name = :pipeline AND operator = :operator
                    AND forget_at <= :watermark_us
                  LIMIT :at_most);

-- mark_folded --
-- As of which epoch the readable table is, and when that was.
UPDATE tidegate_streaming_pipeline
   SET folded_epoch = MAX(folded_epoch, :epoch),
       folded_us = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
       updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 WHERE pipeline_name = :pipeline;

-- begin_incarnation --
-- Everything anew, but epochs and token: they go on counting.
UPDATE tidegate_streaming_pipeline
   SET incarnation = :incarnation,
       plan = NULL,
       published_epoch = epoch,
       folded_epoch = 0,
       folded_us = 0,
       updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
 WHERE pipeline_name = :pipeline;

-- clear_manifests --
-- All epochs, published or not.
DELETE FROM tidegate_streaming_manifest WHERE pipeline_name = :pipeline;

-- clear_journal --
-- All segments; their files become garbage.
DELETE FROM tidegate_streaming_journal WHERE pipeline_name = :pipeline;

-- clear_offsets --
-- All sources begin anew.
DELETE FROM tidegate_streaming_offsets WHERE pipeline_name = :pipeline;

-- clear_logs --
-- What was discovered is discovered again.
DELETE FROM tidegate_streaming_log WHERE pipeline_name = :pipeline;

-- clear_state --
-- All keys.
DELETE FROM tidegate_streaming_state WHERE pipeline_name = :pipeline;

-- find_schema --
-- No row back: the database has none of the tables.
SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'tidegate_streaming_schema';

-- find_schema_version --
-- The newest migration that this database has seen.
SELECT MAX(version) FROM tidegate_streaming_schema;

-- add_schema_version --
-- A migration that this database has seen.
INSERT INTO tidegate_streaming_schema (version, applied_at)
VALUES (:version, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

-- inspect_names --
-- The pipelines of the folder.
SELECT pipeline_name AS pipeline FROM tidegate_streaming_pipeline ORDER BY pipeline_name;

-- inspect_committed --
-- Where a pipeline stands, with its last epoch; the manifest is NULL before the first.
SELECT p.pipeline_name AS pipeline, p.token, p.epoch, p.published_epoch, p.folded_epoch,
       p.incarnation, p.min_reader_version, p.library_version, p.plan, m.manifest,
       CAST((julianday('now') - julianday(m.committed_at)) * 86400000000 AS INTEGER) AS age_us,
       (SELECT COUNT(*) FROM tidegate_streaming_state AS s
         WHERE s.pipeline_name = p.pipeline_name) AS folded_keys
  FROM tidegate_streaming_pipeline AS p
  LEFT JOIN tidegate_streaming_manifest AS m
    ON m.pipeline_name = p.pipeline_name AND m.epoch = p.epoch
 WHERE p.pipeline_name = :pipeline;

-- inspect_keys --
-- The keys of a pipeline, with their state.
SELECT operator, group_key, key_group, state_blob, as_of_epoch, forget_at
  FROM tidegate_streaming_state
 WHERE pipeline_name = :pipeline
 ORDER BY operator, group_key;
