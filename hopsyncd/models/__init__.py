"""Models for vectors, names and questions: the encoder, the language model, the question makers."""
