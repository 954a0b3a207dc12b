-- Where the next listing of a source can begin: operational, not versioned.
-- cursor: opaque outside of the source's connector; all that it covers is indexed. NULL: at the
--   beginning, so that everything is listed.
-- listed_ms: Unix milliseconds of the last listing of everything, NULL before the first.
-- settings: how the source was configured when the cursor was made; with others it holds no more.
ALTER TABLE source_state ADD COLUMN cursor TEXT;
ALTER TABLE source_state ADD COLUMN listed_ms INTEGER;
ALTER TABLE source_state ADD COLUMN settings TEXT NOT NULL DEFAULT '';

-- When the user paused the source, in Unix milliseconds; NULL: it is not paused by hand.
ALTER TABLE source_state ADD COLUMN held_ms INTEGER;
