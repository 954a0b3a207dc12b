"""Whether the answers may be behind the documents, and why."""

from collections.abc import Callable

from hopsyncd.api.serving import Serving
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.sync_worker import SyncWorker
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.exceptions import DatabaseGone


class Freshness:
    """`require_database` raises DatabaseGone if the file of the record is gone."""

    def __init__(
        self,
        serving: Serving,
        worker: SyncWorker,
        follower: Follower | None,
        require_database: Callable[[], None],
    ) -> None:
        self._serving = serving
        self._worker = worker
        self._follower = follower
        self.require_database = require_database

    @property
    def is_behind(self) -> bool:
        """Whether changes that were noticed are not served yet."""
        return self._worker.pending

    def reasons(self, acl: Acl = EVERYTHING, was_behind: bool = False) -> list[str]:
        """Why an answer may be behind the documents; empty if no reason is known.

        `was_behind`: `is_behind` when the answer was begun. Hidden sources leave no trace in it.
        """
        state, reasons = self._serving.state, []
        if not state.config.sources:
            reasons.append("no source is configured: `hopsyncd add` adds one")
        elif state.engine.head is None:
            reasons.append("nothing is indexed yet: the first sync is not finished")
        if self._follower and (lost := self._follower.trouble):
            why = "" if acl.visible is not None else f": {lost}"
            reasons.append(f"the database server is away, so results may be out of date{why}")
        elif error := self.error():
            why = "" if acl.visible is not None else f": {error}"
            waits = self._worker.waits_for_encoder
            what = "indexing waits for the encoder" if waits else "the last sync failed"
            reasons.append(f"{what}{why}")
        elif (was_behind or self.is_behind) and state.engine.head is not None:
            reasons.append("changes are being indexed")
        reasons += [
            f"source {name} is paused: {why}"
            for name, why in self._worker.paused.items()
            if acl.shows(name)
        ]
        return reasons

    def error(self) -> str | None:
        """Why the last sync failed, or why the next one will."""
        try:
            self.require_database()
        except DatabaseGone as error:
            return str(error)
        if self._follower and (self._follower.is_following or self._follower.trouble):
            return self._follower.trouble
        return self._worker.error
