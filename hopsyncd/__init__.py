"""Local search that connects facts across your documents and stays current while you edit."""

__version__ = "0.3.0"
