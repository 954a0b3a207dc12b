"""The rooms of DESIGN section 3: who may import whom, and the examples in the docstrings."""

import ast
import doctest
import importlib
import sys
from collections.abc import Callable, Iterator, Set
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("hopsyncd", "store", "connectors")

# What a room may not import. `daemon.py` puts the parts together; cli and evaluation use it.
FORBIDDEN = {
    "store": ("hopsyncd", "connectors"),
    "connectors": ("hopsyncd", "store"),
    "hopsyncd/llm": ("hopsyncd.index", "hopsyncd.formats", "hopsyncd.ingest", "hopsyncd.retrieve",
                     "hopsyncd.retrieve.answering", "hopsyncd.api", "hopsyncd.cli", "hopsyncd.daemon",
                     "connectors"),
    "hopsyncd/text": ("hopsyncd.index", "hopsyncd.ingest", "hopsyncd.retrieve", "hopsyncd.api",
                      "hopsyncd.cli", "hopsyncd.daemon"),
    "hopsyncd/extraction": ("hopsyncd.index", "hopsyncd.ingest", "hopsyncd.retrieve", "hopsyncd.api",
                            "hopsyncd.cli", "hopsyncd.daemon", "connectors"),
    "hopsyncd/sync": ("hopsyncd.retrieve", "hopsyncd.api", "hopsyncd.cli", "hopsyncd.daemon"),
    "hopsyncd/query": ("hopsyncd.ingest", "hopsyncd.api", "hopsyncd.cli", "hopsyncd.daemon",
                       "connectors"),
    "hopsyncd/answering": ("hopsyncd.ingest", "hopsyncd.api", "hopsyncd.cli", "hopsyncd.daemon",
                           "connectors"),
    "hopsyncd/mcp": ("hopsyncd.index", "hopsyncd.ingest", "hopsyncd.retrieve", "hopsyncd.retrieve.answering",
                     "hopsyncd.api", "hopsyncd.cli", "hopsyncd.daemon", "hopsyncd.api.daemon_service",
                     "store", "connectors"),
    "hopsyncd/doctor": ("hopsyncd.ingest", "hopsyncd.retrieve", "hopsyncd.cli", "hopsyncd.daemon"),
    # The types of answers are imported when one is checked, and the rest of serve is not.
    "hopsyncd/client": ("hopsyncd.index", "hopsyncd.formats", "hopsyncd.models.llm", "hopsyncd.ingest",
                        "hopsyncd.retrieve", "hopsyncd.retrieve.answering", "hopsyncd.cli", "hopsyncd.daemon",
                        "hopsyncd.api.daemon_service", "store", "connectors"),
    "hopsyncd/serve": ("hopsyncd.ingest", "hopsyncd.formats", "hopsyncd.cli"),
}  # fmt: skip


def modules(room: str) -> list[Path]:
    found = sorted((ROOT / room).rglob("*.py"))
    assert found, f"{room} has no modules"
    return found


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions; `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_not_import_what_is_above_or_beside_it(room: str) -> None:
    wrong = [
        f"{name_of(file)} imports {module}"
        for file in modules(room)
        for module in imports(file)
        if any(is_in(module, package) for package in FORBIDDEN[room])
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    files = {name_of(file): file for package in OURS for file in modules(package)}
    needs = {
        name: {of for of in map(_longest(files.keys()), imports(file)) if of not in ("", name)}
        for name, file in files.items()
    }
    tuple(TopologicalSorter(needs).static_order())  # raises CycleError, which names the circle


def _longest(names: Set[str]) -> Callable[[str], str]:
    """From what is imported, a module or a name in one, to that module; "" for none of ours."""
    return lambda module: next((m for m in (module, module.rpartition(".")[0]) if m in names), "")


def test_the_graph_is_numpy_and_records_only() -> None:
    allowed = ("numpy", "hopsyncd.index", "store.records", *sys.stdlib_module_names)
    io = ("os", "pathlib", "time", "datetime", "random", "sqlite3", "threading", "socket")
    for file in modules("hopsyncd/graph"):
        for module in imports(file):
            assert any(is_in(module, package) for package in allowed), f"{file}: {module}"
            assert not any(is_in(module, package) for package in io), f"{file}: {module}"


def test_the_text_knows_of_the_store_its_records_only() -> None:
    used = {m for file in modules("hopsyncd/text") for m in imports(file) if is_in(m, "store")}
    assert used
    assert all(is_in(module, "store.records") for module in used)


def test_the_text_knows_of_the_connectors_their_tokenizer_only() -> None:
    used = {m for file in modules("hopsyncd/text") for m in imports(file) if is_in(m, "connectors")}
    assert used
    assert all(is_in(module, "connectors.html_tokens") for module in used)


def test_only_the_store_speaks_sql() -> None:
    drivers = ("sqlite3", "pysqlite3", "sqlite_vec", "sqlite_utils")
    # It reads other people's databases, and ours least of all.
    elsewhere = ROOT / "connectors/sqlite_rows.py"
    for room in ("hopsyncd", "connectors"):
        for file in set(modules(room)) - {elsewhere}:
            assert not any(is_in(m, driver) for m in imports(file) for driver in drivers), file


def _documented() -> list[str]:
    """The modules with examples, which `grep` can tell without importing them."""
    files = [file for package in OURS for file in modules(package)]
    return [name_of(file) for file in files if ">>> " in file.read_text()]


@pytest.mark.parametrize("name", _documented())
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
