"""The endpoints of watched questions.

Each watch belongs to the user who made it, and shows what that user may see.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.requests import (
    AllowWatchRequest,
    NoParameters,
    WatchDetails,
    WatchNumber,
    WatchRequest,
)
from hopsyncd.api.serving import DaemonParts
from hopsyncd.errors import BadRequest, Forbidden
from hopsyncd.responses.daemon_state import UnwatchAnswer, WatchAnswer, WatchesAnswer


class WatchService:
    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts

    @endpoint("POST", "/v1/watches", "write")
    def watch(self, request: WatchRequest, caller: Caller) -> WatchAnswer:
        """Watch a question, and report when its answer or first passages change."""
        if sum(map(bool, (request.exec, request.webhook, request.mcp))) > 1:
            raise BadRequest(
                "The question cannot be watched",
                "a watch can have only one of a program, a webhook and agents",
                "Add a separate watch for each",
            )
        program: Sequence[str] = ()
        if request.exec:
            self._require_own_record(
                caller,
                "The question cannot be watched",
                "Leave the program out; `hopsyncd watches` shows what changed",
            )
            program = resolve_program(request.exec)
        if request.webhook and not caller.may("admin"):
            raise Forbidden(
                "The question cannot be watched",
                "only admins may set a webhook, because the server calls it",
                "Leave out the webhook; `hopsyncd watches` shows what changed",
            )
        number = self._parts.watched.add(
            request.question.strip(), caller, program, request.webhook, request.mcp
        )
        return self._read_watch(number, 1, caller)

    @endpoint("POST", "/v1/watches/allow", "owner")
    def allow_watch(self, request: AllowWatchRequest, caller: Caller) -> WatchAnswer:
        """Turn on a watch's program or webhook that came with a copied or restored database."""
        if request.exec:
            self._require_own_record(
                caller,
                f"Watch {request.id} cannot be turned on",
                f"`hopsyncd watches {request.id}` shows its changes without the program",
            )
        action = {"exec": [*request.exec]} if request.exec else {"webhook": request.webhook}
        self._parts.watched.allow(request.id, action)
        return self._read_watch(request.id, 1, caller)

    def _require_own_record(self, caller: Caller, what: str, hint: str) -> None:
        """Raise Forbidden unless this caller may add programs to the watches of this database.

        `what` and `hint` are parts of the error.
        """
        why = None
        if caller.credentials.uid != os.geteuid():
            why = "only the user who runs the daemon may set a program"
        elif not isinstance(self._parts.state.config.database, Path):
            why = "no program may be set, because other machines write to the same database"
        if why:
            raise Forbidden(what, why, hint)

    @endpoint("GET", "/v1/watches", "write")
    def watches(self, request: NoParameters, caller: Caller) -> WatchesAnswer:
        """List your watched questions. An admin gets all users' questions."""
        watches = self._parts.watched.list_all(caller)
        return {"version": self._parts.state.version, "watches": watches}

    @endpoint("GET", "/v1/watches/{id}", "write")
    def watch_changes(self, request: WatchDetails, caller: Caller) -> WatchAnswer:
        """Return a watched question and its newest changes."""
        return self._read_watch(request.id, request.limit, caller)

    @endpoint("DELETE", "/v1/watches/{id}", "write")
    def unwatch(self, request: WatchNumber, caller: Caller) -> UnwatchAnswer:
        """Stop watching a question, and delete its changes."""
        self._parts.watched.remove(request.id, caller)
        return {"id": request.id}

    def _read_watch(self, number: int, limit: int, caller: Caller) -> WatchAnswer:
        watch, now, changes = self._parts.watched.read_details(number, limit, caller)
        version = self._parts.state.version
        return {"version": version, "watch": watch, "now": now, "changes": changes}


def resolve_program(arguments: Sequence[str]) -> list[str]:
    """Resolve the program to its absolute path, and return it with its arguments. Raises BadRequest
    if there is no such program."""
    program = shutil.which(arguments[0])
    if program is None:
        raise BadRequest(
            "The question cannot be watched",
            f"there is no program {arguments[0]!r}",
            "Give the absolute path of the program",
        )
    return [str(Path(program).absolute()), *arguments[1:]]
