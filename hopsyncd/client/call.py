"""Describes requests to the daemon, and defines the methods with which both clients send them.

This module does not use the network.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from hopsyncd.responses.results import Event


Fields = ParamSpec("Fields")
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)
Blocks = TypeVar("Blocks")
Awaits = TypeVar("Awaits")


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer_co]):
    """A request whose answer is an `Answer_co`.

    answer: the name of the type in hopsyncd.responses that the answer must match. If the name is
    empty, the answer is not checked. is_text: whether the answer is plain text instead of JSON.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    is_text: bool = False
    answer: str = ""


def call(
    method: str, path: str, fields: Mapping[str, Any], answer: str = "", *, is_text: bool = False
) -> Call[Any]:
    """Create a call. Fields go into the path, the body of a POST, or the query string.

    Fields that are None are left out, so the daemon's defaults apply.

    >>> call("GET", "/v1/passages/{id}", {"id": "00e1", "at": "head"}).path
    '/v1/passages/00e1?at=head'
    """
    set_fields = {name: value for name, value in fields.items() if value is not None}
    for name in [name for name in set_fields if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(set_fields.pop(name)), safe=""))
    if method == "POST":
        return Call(method, path, set_fields, is_text, answer)
    query = urlencode({name: _encode_query_value(value) for name, value in set_fields.items()})
    return Call(method, f"{path}?{query}" if query else path, None, is_text, answer)


def _encode_query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Blocking(Protocol):
    """A client whose methods wait for the answer."""

    def send(self, call: Call[Answer]) -> Answer: ...

    def stream_events(self, call: Call[Any]) -> Generator[Event, None, None]: ...


class Asynchronous(Protocol):
    async def send(self, call: Call[Answer]) -> Answer: ...

    def stream_events(self, call: Call[Any]) -> AsyncGenerator[Event, None]: ...


class Method(Generic[Fields, Blocks, Awaits]):
    """A method of both clients. It creates a call, and passes it to the client's method `act`."""

    def __init__(self, make: Callable[Fields, Call[Any]], act: str) -> None:
        self._make, self._act = make, act

    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[Fields, Blocks]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: type) -> Callable[Fields, Awaits]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._make
        act = getattr(client, self._act)
        return wraps(self._make)(lambda *fields, **more: act(self._make(*fields, **more)))


def make_send_method(
    make: Callable[Fields, Call[Answer]],
) -> Method[Fields, Answer, Awaitable[Answer]]:
    return Method(make, "send")


def make_event_method(
    make: Callable[Fields, Call[Any]],
) -> Method[Fields, Generator[Event, None, None], AsyncGenerator[Event, None]]:
    """Create a client method that returns the events of the call's work."""
    return Method(make, "stream_events")
