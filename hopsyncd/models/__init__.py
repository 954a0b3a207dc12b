"""The models: the encoder for vectors, the spaCy model for names, and the question makers."""
