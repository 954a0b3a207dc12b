-- Words are looked up in the live index, which is built from the passages.
DROP TABLE passage_term;
DROP TABLE passage_text;
