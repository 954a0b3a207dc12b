-- Who created a watch, and what the user could see at the last comparison.
-- maker: the name of the user. NULL for watches from earlier schemas. login: identifies the user:
-- `token:ID`, `local:UID` or `page`. NULL for the daemon's own user, who sees everything. rights:
-- JSON with the names of all sources at the last comparison, and what was hidden. NULL if nothing
-- was hidden.
ALTER TABLE watch ADD COLUMN maker TEXT;
ALTER TABLE watch ADD COLUMN login TEXT;
ALTER TABLE watch ADD COLUMN rights TEXT;

-- number: the number of the change within its watch. `id` counts the changes of all watches, so it
-- would reveal changes that the user may not see.
ALTER TABLE telling ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE telling SET number = id;
