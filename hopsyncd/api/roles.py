"""The rights of each role. Every request is checked against this table.

An endpoint declares the right that it needs (api/endpoints.py); a caller has one role.
"""

from collections.abc import Mapping
from typing import Literal

Right = Literal["health", "metrics", "read", "admin", "owner"]
Role = Literal["owner", "admin", "read", "metrics"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset({"health", "metrics", "read", "admin", "owner"}),
    "admin": frozenset({"health", "metrics", "read", "admin"}),
    "read": frozenset({"health", "read"}),
    "metrics": frozenset({"health", "metrics"}),
}
