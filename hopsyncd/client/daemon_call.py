"""A request to the daemon, and decorators that make client methods of functions that build one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from hopsyncd.answers.found import Event

Fields = ParamSpec("Fields")
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer_co]):
    """A request whose answer is an `Answer_co`.

    `answer` names its type in hopsyncd.answers, if it is to be checked. `is_text`: it is not JSON.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    is_text: bool = False
    answer: str = ""


def call(
    method: str, path: str, fields: Mapping[str, Any], answer: str = "", *, is_text: bool = False
) -> Call[Any]:
    """A call with each field in its place: in the path, the body of a POST, or the query string.

    A field that is None is left out, so that the daemon's default applies.

    >>> call("GET", "/v1/passages/{id}", {"id": "00e1", "at": "head"}).path
    '/v1/passages/00e1?at=head'
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name in [one for one in given if f"{{{one}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    if method == "POST":
        return Call(method, path, given, is_text, answer)
    return Call(method, f"{path}?{urlencode(given)}" if given else path, None, is_text, answer)


class Blocking(Protocol):
    """A client that waits."""

    def send(self, call: Call[Answer]) -> Answer: ...

    def events(self, call: Call[Any]) -> Iterator[Event]: ...


class Asynchronous(Protocol):
    """A client for asyncio."""

    async def send(self, call: Call[Answer]) -> Answer: ...

    def events(self, call: Call[Any]) -> AsyncIterator[Event]: ...


def sent(
    make: Callable[Fields, Call[Answer]],
) -> Callable[Concatenate[Blocking, Fields], Answer]:
    """A method that sends the call and returns its answer."""

    @wraps(make)
    def method(self: Blocking, /, *fields: Fields.args, **more: Fields.kwargs) -> Answer:
        return self.send(make(*fields, **more))

    return method


def streamed(
    make: Callable[Fields, Call[Any]],
) -> Callable[Concatenate[Blocking, Fields], Iterator[Event]]:
    """A method that sends the call and returns its events."""

    @wraps(make)
    def method(self: Blocking, /, *fields: Fields.args, **more: Fields.kwargs) -> Iterator[Event]:
        return self.events(make(*fields, **more))

    return method


def awaited(
    make: Callable[Fields, Call[Answer]],
) -> Callable[Concatenate[Asynchronous, Fields], Awaitable[Answer]]:
    """As `sent`, for a client for asyncio."""

    @wraps(make)
    async def method(self: Asynchronous, /, *fields: Fields.args, **more: Fields.kwargs) -> Answer:
        return await self.send(make(*fields, **more))

    return method


def awaited_stream(
    make: Callable[Fields, Call[Any]],
) -> Callable[Concatenate[Asynchronous, Fields], AsyncIterator[Event]]:
    """As `streamed`, for `async for`."""

    @wraps(make)
    def method(
        self: Asynchronous, /, *fields: Fields.args, **more: Fields.kwargs
    ) -> AsyncIterator[Event]:
        return self.events(make(*fields, **more))

    return method
