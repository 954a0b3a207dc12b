"""The endpoint that reads the audit log, for the owner."""

from datetime import datetime

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.audit import AuditLog
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.requests import AuditRequest
from hopsyncd.errors import BadRequest
from hopsyncd.responses.daemon_state import AuditAnswer
from store.relative_time import parse_relative_moment


class AuditService:
    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    @endpoint("GET", "/v1/audit", "owner")
    def audit(self, request: AuditRequest, caller: Caller) -> AuditAnswer:
        """List recorded requests, newest first."""
        since = _parse_moment(request.since) if request.since else None
        entries, torn = self._audit.read(request.limit, since, request.user)
        return {
            **self._audit.describe_status(),
            "torn": torn,
            "entries": [
                {
                    "time": line["time"],
                    "action": line["action"],
                    "asked": line.get("asked") or {},
                    "status": line.get("status") or 0,
                    "sources": line.get("sources") or [],
                    "results": line.get("results"),
                    "user": line["user"],
                    "role": line.get("role") or "",
                    "transport": line.get("transport") or "",
                    "program": line.get("program"),
                    "address": line.get("address"),
                    "token": line.get("token"),
                }
                for line in entries
            ],
        }


def _parse_moment(text: str) -> datetime:
    try:
        named = parse_relative_moment(text, datetime.now())
        return (named or datetime.fromisoformat(text)).astimezone()
    except (ValueError, OverflowError) as error:
        raise BadRequest(
            "Cannot read the audit log",
            f"{text!r} is not a time",
            "Write a time like `2 days ago` or 2026-11-01T09:00",
        ) from error
