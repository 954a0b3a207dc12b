"""The models: the encoder for vectors, the language model for names, and the question makers."""
