"""Embeddings from any OpenAI-compatible endpoint."""
