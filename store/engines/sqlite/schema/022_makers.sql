-- Who made a watch, and with which rights it was last compared.
-- maker: the name of the user; NULL in databases of earlier schemas. login: how the maker is found
-- again: `token:ID`, `local:UID`, or `page`; NULL for the daemon's own user, who sees all. rights:
-- JSON with the names of all sources at the last comparison, and what was hidden; NULL if nothing was.
ALTER TABLE watch ADD COLUMN maker TEXT;
ALTER TABLE watch ADD COLUMN login TEXT;
ALTER TABLE watch ADD COLUMN rights TEXT;

-- number: the number of the change within its watch. `id` counts the changes of all watches, so it
-- would tell a user of changes in what they may not see.
ALTER TABLE telling ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE telling SET number = id;
