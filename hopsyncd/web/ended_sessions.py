"""The file by which `hopsyncd token revoke --user` ends a user's sessions in the web interface.

The file is beside the token file, so all daemons that share the tokens end the sessions. For each
user, it has the time of the last command. Sessions that began before that time have ended.
"""

import json
import time
from pathlib import Path

import structlog
from pydantic import TypeAdapter, ValidationError

from hopsyncd.config.configuration import Config
from hopsyncd.config.secret_file import hold_lock_of, replace_private

log = structlog.get_logger(__name__)

FILE_NAME = "ended-sessions.json"
_KEPT_S = 7 * 86_400.0  # longer than any session
_FILE = TypeAdapter(dict[str, float])
_EVERYBODY = ""


class EndedSessions:
    """Reads and writes the Unix time at which each user's sessions were last ended.

    When another process changes the file, the file is reloaded.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state: object = None
        self._times: dict[str, float] = {}

    @classmethod
    def from_config(cls, config: Config) -> "EndedSessions":
        tokens = config.access.token_file
        return cls((tokens.parent if tokens else config.daemon.data_dir) / FILE_NAME)

    def has_ended(self, user: str, began_s: float) -> bool:
        """Return whether a session that the user began at Unix time `began_s` has been ended."""
        self._follow()
        return began_s <= max(self._times.get(user, 0.0), self._times.get(_EVERYBODY, 0.0))

    def end(self, user: str) -> None:
        """End all sessions of a user. Raises ConfigError if the file cannot be written.

        Locks the file, so several processes may call this method at the same time.
        """
        with hold_lock_of(self._file, str(self._file)):
            self._follow()
            now_s = time.time()
            times = {name: at_s for name, at_s in self._times.items() if now_s - at_s < _KEPT_S}
            replace_private(self._file, json.dumps({**times, user: now_s}))

    def _follow(self) -> None:
        """Reload the file if it has changed.

        If the file is damaged, all sessions that began before its last change have ended.
        """
        try:
            status = self._file.stat()
        except OSError:
            self._state, self._times = None, {}
            return
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        if state == self._state:
            return
        try:
            self._times = _FILE.validate_json(self._file.read_bytes())
        except (OSError, ValidationError) as error:
            log.error("all sessions were ended", file=str(self._file), why=str(error))
            self._times = {_EVERYBODY: status.st_mtime}
        self._state = state
