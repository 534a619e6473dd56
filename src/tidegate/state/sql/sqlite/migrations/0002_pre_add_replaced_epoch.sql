-- Say in the journal since which epoch a part counts no more, so that garbage is found without
-- reading old manifests; and find the keys to forget without a scan.

ALTER TABLE tidegate_streaming_journal ADD COLUMN replaced_epoch INTEGER;

CREATE INDEX tidegate_streaming_state_forget_at
    ON tidegate_streaming_state (pipeline_name, operator, forget_at);
