"""Write hopsyncd/client/calls.py and the reference in docs/api.md from hopsyncd/api/endpoints.py.

`python scripts/api_docs.py`, with `--check` to only say whether they are current.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from hopsyncd.answers.changed import Accepted
from hopsyncd.api.endpoints import ENDPOINTS, Endpoint
from hopsyncd.config import strategy

ROOT = Path(__file__).parents[1]
CALLS, REFERENCE = ROOT / "hopsyncd/client/calls.py", ROOT / "docs/api.md"
_BEGIN, _END = "<!-- reference -->\n", "<!-- end of the reference -->"
_ALIASES = {get_args(getattr(strategy, name)): name for name in ("Strategy", "Profile", "Reasoner")}
_HEAD = '''\
"""What can be asked of the daemon: one function for each endpoint makes the request of it.

Made by `python scripts/api_docs.py` from hopsyncd/api/endpoints.py: change that, not this file.
Options that are left out take the daemon's defaults. docs/api.md says what each of them means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hopsyncd.client.daemon_call import Call, awaited, awaited_stream, call, sent, streamed

if TYPE_CHECKING:
    from typing import Required, TypedDict

'''


def main() -> None:
    text = _formatted("".join(_calls()))
    page = REFERENCE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    whole = before + _BEGIN + "".join(_reference()) + _END + after
    if "--check" in sys.argv:
        old = [file for file, new in ((CALLS, text), (REFERENCE, whole)) if file.read_text() != new]
        sys.exit(
            f"not current: {', '.join(str(file.relative_to(ROOT)) for file in old)}" if old else 0
        )
    CALLS.write_text(text, encoding="utf-8")
    REFERENCE.write_text(whole, encoding="utf-8")


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    for step in (["check", "--quiet", "--fix-only", "--select", "I"], ["format", "--quiet"]):
        text = subprocess.run(
            [*ruff, *step, "--stdin-filename", str(CALLS), "-"],
            input=text, capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout  # fmt: skip
    return text


def _calls() -> Iterator[str]:
    yield _HEAD
    yield from _imports()
    yield from _typed_dicts()
    for one in ENDPOINTS:
        yield from _function(one, one.operation, one.answer, {})
        if one.may_accept:
            yield from _function(one, f"start_{one.operation}", "Accepted", {"wait": "False"})
    for name, send, stream in (
        ("BlockingMethods", "sent", "streamed"),
        ("AsynchronousMethods", "awaited", "awaited_stream"),
    ):
        yield f'class {name}:\n    """One method for each endpoint."""\n\n'
        # The streams first: within the class a name is its method once that is defined.
        yield from (
            f"    {one.operation}_events = {stream}({one.operation})\n"
            for one in ENDPOINTS
            if one.streams
        )
        for one in ENDPOINTS:
            yield f"    {one.operation} = {send}({one.operation})\n"
            if one.may_accept:
                yield f"    start_{one.operation} = {send}(start_{one.operation})\n"
        yield "\n\n"


def _imports() -> Iterator[str]:
    """The types of answers, each from the module that makes it."""
    wanted = defaultdict(set)
    for one in ENDPOINTS:
        if is_typeddict(one.answer):
            wanted[one.answer.__module__].add(one.answer.__name__)
    wanted[Accepted.__module__].add(Accepted.__name__)
    wanted[strategy.__name__].update(_ALIASES.values())
    for module, names in sorted(wanted.items()):
        yield f"    from {module} import {', '.join(sorted(names))}\n"
    yield "\n"


def _nested() -> dict[str, type[BaseModel]]:
    """The models that are fields of requests, as `Query` of QueryRequest."""
    found = {}
    for one in ENDPOINTS:
        for field in one.request.model_fields.values():
            for part in get_args(field.annotation):
                if isinstance(part, type) and issubclass(part, BaseModel):
                    found[part.__name__.removesuffix("Request")] = part
    return found


def _typed_dicts() -> Iterator[str]:
    for name, model in _nested().items():
        yield f'    class {name}(TypedDict, total=False):\n        """One of several."""\n\n'
        for field, info in model.model_fields.items():
            text = _type(info.annotation)
            yield f"        {field}: {f'Required[{text}]' if info.is_required() else text}\n"
        yield "\n\n"


def _function(one: Endpoint, name: str, answer: Any, fixed: dict[str, str]) -> Iterator[str]:
    fields = {
        field: info
        for field, info in one.request.model_fields.items()
        if not (one.may_accept and field == "wait")
    }
    asked = ", ".join(
        f"{field}: {_type(info.annotation)}{_default(info)}" for field, info in fields.items()
    )
    sent = [f'"{info.alias or field}": {_value(field, info)}' for field, info in fields.items()]
    sent += [f'"{field}": {value}' for field, value in fixed.items()]
    text = ", is_text=True" if answer is str else ""
    if (kind := _answer(answer)) not in ("str", "dict[str, Any]"):
        text = f', "{kind}"'
    yield f"def {name}({asked}) -> Call[{_answer(answer)}]:\n"
    yield (
        f'    """{one.summary}."""\n'
        if not fixed
        else f'    """{one.summary}; without waiting."""\n'
    )
    yield f'    return call("{one.method}", "{one.path}", {{{", ".join(sent)}}}{text})\n\n\n'


def _answer(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    return answer.__name__ if is_typeddict(answer) or answer is str else "dict[str, Any]"


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _ALIASES[parts]
    if origin is tuple:
        return f"Sequence[{_type(parts[0])}]"
    if parts and origin not in (None, Union) and not hasattr(annotation, "__or__"):
        return _type(parts[0])
    if NoneType in parts:
        (kind,) = (part for part in parts if part is not NoneType)
        return f"{_type(kind)} | None"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__.removesuffix("Request")
    if hasattr(annotation, "__metadata__"):
        return _type(parts[0])
    return str(annotation.__name__)


def _default(info: FieldInfo) -> str:
    return "" if info.is_required() else f" = {info.default!r}"


def _value(field: str, info: FieldInfo) -> str:
    return f"list({field})" if get_origin(info.annotation) is tuple else field


def _reference() -> Iterator[str]:
    yield "| request | right | fields | answer |\n|---|---|---|---|\n"
    for one in ENDPOINTS:
        schema = one.request.model_json_schema()
        fields = "; ".join(
            _field(name, field, schema) for name, field in schema.get("properties", {}).items()
        )
        request = f"{one.method} {one.path}: {one.summary}"
        yield f"| {request} | {one.right} | {fields} | {_keys(one)} |\n"


def _field(name: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    kind = field | kinds[0]
    text = f"`{name}`{_range(kind)}"
    if name in schema.get("required", ()):
        return f"{text}, required"
    default = field.get("default")
    return text if default in (None, []) else f"{text}, default {json.dumps(default)}"


def _range(kind: dict[str, Any]) -> str:
    if "enum" in kind:
        return ": " + ", ".join(f"`{value}`" for value in kind["enum"])
    if "maximum" in kind:
        return f": {kind['minimum']:,} to {kind['maximum']:,}"
    return {"array": ": a list", "boolean": ": true or false"}.get(kind.get("type", ""), "")


def _keys(one: Endpoint) -> str:
    if not is_typeddict(one.answer):
        return "text" if one.answer is str else "JSON"
    keys = ", ".join(f"`{key}`" for key in one.answer.__annotations__)
    return keys + ("; 202 `accepted`" if one.may_accept else "")


if __name__ == "__main__":
    main()
