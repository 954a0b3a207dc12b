-- Where the next listing of a source begins. Operational, not versioned.
-- cursor: only the source's connector can read it. Everything before it is indexed. NULL: the next
--   listing begins at the start and is complete.
-- listed_ms: the time of the last complete listing, in Unix milliseconds. NULL before the first.
-- settings: the source's settings when the cursor was made. With other settings, it is not used.
ALTER TABLE source_state ADD COLUMN cursor TEXT;
ALTER TABLE source_state ADD COLUMN listed_ms INTEGER;
ALTER TABLE source_state ADD COLUMN settings TEXT NOT NULL DEFAULT '';

-- The time at which a user paused the source, in Unix milliseconds. NULL if no user paused it.
ALTER TABLE source_state ADD COLUMN held_ms INTEGER;
