"""Transactions on the record."""

from store.engines.sqlite.acknowledged import rewrites
from store.engines.sqlite.database import confirm, disk_failures, snapshot, transaction
from store.engines.sqlite.presence import refuse_gone

__all__ = ["confirm", "disk_failures", "refuse_gone", "rewrites", "snapshot", "transaction"]
