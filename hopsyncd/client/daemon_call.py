"""A request to the daemon, and how a function that makes one becomes a client's method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from hopsyncd.answers.found import Event

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer_co]):
    """A request whose answer is an `Answer_co`, checked to be one where `answer` names the type.

    `is_text`: the answer is text as it is, else JSON.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    is_text: bool = False
    answer: str = ""


def call(
    method: str, path: str, fields: Mapping[str, Any], answer: str = "", *, is_text: bool = False
) -> Call[Any]:
    """Put the fields where they belong: in the path, in the body of a POST, or after a `?`.

    A field that is None is left out: the daemon's default holds.

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
    make: Callable[Asked, Call[Answer]],
) -> Callable[Concatenate[Blocking, Asked], Answer]:
    """A method that sends the call and gives its answer."""

    @wraps(make)
    def method(self: Blocking, /, *asked: Asked.args, **more: Asked.kwargs) -> Answer:
        return self.send(make(*asked, **more))

    return method


def streamed(
    make: Callable[Asked, Call[Any]],
) -> Callable[Concatenate[Blocking, Asked], Iterator[Event]]:
    """A method that sends the call and gives its events."""

    @wraps(make)
    def method(self: Blocking, /, *asked: Asked.args, **more: Asked.kwargs) -> Iterator[Event]:
        return self.events(make(*asked, **more))

    return method


def awaited(
    make: Callable[Asked, Call[Answer]],
) -> Callable[Concatenate[Asynchronous, Asked], Awaitable[Answer]]:
    """As `sent`, to be awaited."""

    @wraps(make)
    async def method(self: Asynchronous, /, *asked: Asked.args, **more: Asked.kwargs) -> Answer:
        return await self.send(make(*asked, **more))

    return method


def awaited_stream(
    make: Callable[Asked, Call[Any]],
) -> Callable[Concatenate[Asynchronous, Asked], AsyncIterator[Event]]:
    """As `streamed`, for `async for`."""

    @wraps(make)
    def method(
        self: Asynchronous, /, *asked: Asked.args, **more: Asked.kwargs
    ) -> AsyncIterator[Event]:
        return self.events(make(*asked, **more))

    return method
