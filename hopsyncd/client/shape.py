"""Whether an answer has the fields that its type in hopsyncd.answers names."""

from __future__ import annotations

from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from hopsyncd.answers import changed, daemon_state, found


def misfit(name: str, answer: object) -> str | None:
    """What of an answer is not as the type of that name says; None if all is.

    More than that is welcome: the daemon may be newer than the client.
    """
    modules = (found, changed, daemon_state)
    (wanted,) = {getattr(one, name) for one in modules if hasattr(one, name)}
    return _misfit(wanted, answer, "the answer")


def _misfit(wanted: Any, value: object, where: str) -> str | None:
    origin, inner = get_origin(wanted), get_args(wanted)
    if is_typeddict(wanted):
        return _misfit_fields(wanted, value, where)
    if origin in (Union, UnionType):
        found = [_misfit(one, value, where) for one in inner]
        return None if None in found else found[0]
    if origin is list and isinstance(value, list):
        parts = ((inner[0], one, f"{where}[{at}]") for at, one in enumerate(value))
    elif origin is dict and isinstance(value, dict):
        parts = ((inner[1], one, f"{where}.{key}") for key, one in value.items())
    else:
        return None if _is_plain(wanted, value) else f"{where} is {_SHORT.get(type(value))}"
    return next((why for part in parts if (why := _misfit(*part))), None)


def _misfit_fields(wanted: Any, value: object, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is {_SHORT.get(type(value))}"
    for key, type_ in _hints(wanted).items():
        if key in value:
            if why := _misfit(type_, value[key], f"{where}.{key}"):
                return why
        elif key in wanted.__required_keys__:
            return f"{where} has no {key!r}"
    return None


def _is_plain(wanted: Any, value: object) -> bool:
    if wanted is Any:
        return True
    if get_origin(wanted) is Literal:  # a newer daemon may know more words
        return type(value) in {type(one) for one in get_args(wanted)}
    if wanted is float:
        return type(value) in (int, float)
    return type(value) is (NoneType if wanted is None else wanted)


_hints = lru_cache(get_type_hints)
_SHORT = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}
