-- Words are looked up in the live index, which is made of the passages.
DROP TABLE passage_term;
DROP TABLE passage_text;
