-- `status` counts items with problems and items with skipped parts. Few items have them.
CREATE INDEX seen_problem ON seen (source, why) WHERE why IS NOT NULL;
CREATE INDEX seen_skipped ON seen (source, skipped) WHERE skipped IS NOT NULL;
