"""Bytes to passages to triplets: extraction, chunking, keywords, questions, vectors."""
