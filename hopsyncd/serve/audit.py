"""The record of what admins did, one JSON object a line."""

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.serve.peer import Peer

log = structlog.get_logger(__name__)

AUDIT_NAME = "audit.log"  # in the data_dir
_MAX_BYTES = 4 << 20  # then the file becomes audit.log.1, in place of an older one


class Audit:
    """Appends to a file that its owner alone may read; from any thread."""

    def __init__(self, file: Path, max_bytes: int = _MAX_BYTES) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def note(self, peer: Peer, action: str, asked: dict[str, Any], status: int) -> None:
        """Record one action and how it was answered. A full disk is logged, and keeps nobody back.

        `asked` are names, paths and versions: no endpoint for admins takes or gives text.
        """
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "asked": asked,
            "status": status,
            "user": peer.user,
            "uid": peer.uid,
            "pid": peer.pid,
            "program": peer.program,
        }
        try:
            with self._lock:
                self._append(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            log.error("the audit log was not written", file=str(self._file), why=error.strerror)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._file, flags, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(line)
            full = file.tell() >= self._max_bytes
        if full:
            self._file.replace(self._file.with_name(self._file.name + ".1"))
