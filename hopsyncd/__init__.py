"""hopsyncd keeps a multi-hop knowledge graph of your documents true while they change."""

__version__ = "0.1.0"
