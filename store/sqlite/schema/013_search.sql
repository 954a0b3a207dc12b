-- Searches ask the live index, which is made of passages and question sets.
DROP TABLE passage_term;
DROP TABLE passage_text;
