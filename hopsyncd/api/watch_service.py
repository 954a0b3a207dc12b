"""The endpoints of watched questions: for admins, as what is told comes from all sources."""

import os
from collections.abc import Mapping
from pathlib import Path

from hopsyncd.answers.daemon_state import UnwatchAnswer, WatchAnswer, WatchesAnswer
from hopsyncd.api.access import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.requests import NoParameters, WatchDetails, WatchNumber, WatchRequest
from hopsyncd.api.status import StateService
from hopsyncd.api.watched_questions import WatchedQuestions, checked_program
from hopsyncd.errors import BadRequest, Forbidden


class WatchService(StateService):
    """Watches questions; `watched` compares and tells."""

    watched: WatchedQuestions

    @endpoint("POST", "/v1/watches", "admin")
    def watch(self, request: WatchRequest, caller: Caller) -> WatchAnswer:
        """Watch a question: record, and tell, when its answer or first passages change."""
        act: Mapping[str, object] | None = None
        if sum(map(bool, (request.exec, request.webhook, request.mcp))) > 1:
            raise BadRequest(
                "The question cannot be watched",
                "it names more than one of a program, a webhook and agents",
                "Watch it once for each",
            )
        if request.exec:
            if caller.credentials.uid != os.geteuid():
                raise Forbidden(
                    "The question cannot be watched",
                    "it names a program, which only the daemon's own user may have run",
                    "Leave the program out; `hopsyncd watches` shows what changed",
                )
            if not isinstance(self._database, Path):
                raise Forbidden(
                    "The question cannot be watched",
                    "it names a program, and other machines write to the same record",
                    "Leave the program out; `hopsyncd watches` shows what changed",
                )
            act = {"exec": checked_program(request.exec)}
        if request.webhook:
            act = {"webhook": request.webhook}
        if request.mcp:
            act = {"mcp": True}
        number = self.watched.add(request.question.strip(), act)
        return self._watch(number, 1)

    @endpoint("GET", "/v1/watches", "admin")
    def watches(self, request: NoParameters, caller: Caller) -> WatchesAnswer:
        """The watched questions."""
        return {"version": self._version, "watches": self.watched.listed()}

    @endpoint("GET", "/v1/watches/{id}", "admin")
    def watch_changes(self, request: WatchDetails, caller: Caller) -> WatchAnswer:
        """A watched question with its newest changes, each before and after."""
        return self._watch(request.id, request.limit)

    @endpoint("DELETE", "/v1/watches/{id}", "admin")
    def unwatch(self, request: WatchNumber, caller: Caller) -> UnwatchAnswer:
        """Watch a question no more, and forget its changes."""
        self.watched.remove(request.id)
        return {"id": request.id}

    def _watch(self, number: int, limit: int) -> WatchAnswer:
        watch, now, changes = self.watched.details(number, limit)
        return {"version": self._version, "watch": watch, "now": now, "changes": changes}

    def close(self) -> None:
        """End the threads and processes that work for it."""
        self.watched.stop()
        self.workers.close()
