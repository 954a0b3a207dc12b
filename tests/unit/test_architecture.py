"""The rooms of docs/ARCHITECTURE.md: who may import whom, and the examples in the docstrings."""

import ast
import doctest
import importlib
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("hopsyncd", "store", "connectors")
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60

# Each room may import those before it, and none after it.
ORDER = (
    "store",
    "connectors",
    "hopsyncd.errors",
    "hopsyncd.printable",
    "hopsyncd.child_process",
    "hopsyncd.display",
    "hopsyncd.log_limits",
    "hopsyncd.logs",
    "hopsyncd.responses",
    "hopsyncd.config",
    "hopsyncd.text",
    "hopsyncd.formats",
    "hopsyncd.models",
    "hopsyncd.index",
    "hopsyncd.ingest",
    "hopsyncd.retrieve",
    "hopsyncd.client",
    "hopsyncd.api",
    "hopsyncd.web",
    "hopsyncd.evaluation",
    "hopsyncd.doctor",
    "hopsyncd.daemon",
    "hopsyncd.cli",
    "hopsyncd.__main__",
)
# Beyond the order: rooms that do not know each other.
STRANGERS = {
    "connectors": ("store",),
    "hopsyncd.formats": ("hopsyncd.config", "store.engines"),
    "hopsyncd.index": ("hopsyncd", "connectors", "store.engines"),
    "hopsyncd.retrieve": ("hopsyncd.ingest", "connectors"),
    "hopsyncd.client": ("hopsyncd.ingest", "hopsyncd.retrieve", "hopsyncd.models", "store"),
    # The page knows what the client is told, so that it cannot show more than its user may see.
    "hopsyncd.web": ("hopsyncd.api", "hopsyncd.ingest", "hopsyncd.retrieve", "store"),
    "hopsyncd.doctor": ("hopsyncd.retrieve",),
}
# Modules of the store that may import an engine: they open databases, or look at their files.
ENGINE_USERS = ("check", "copying", "ledger", "open_database", "restoring", "search", "space")
LOOSE = {
    *("__init__", "__main__", "child_process", "daemon", "display", "errors", "log_limits"),
    *("logs", "printable"),
}


def modules(room: str) -> list[Path]:
    found = sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
    assert found, f"{room} has no modules"
    return found


FILES = [file for package in OURS for file in modules(package)]


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in FILES}


def imports(file: Path) -> Iterator[str]:
    """What a file imports, also inside functions and for types; `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def room_of(module: str) -> str | None:
    return next((room for room in ORDER if is_in(module, room)), None)


def module_of(imported: str) -> str:
    """The module that an imported name is in, or is."""
    return imported if imported in MODULES else imported.rpartition(".")[0]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_is_below_it(name: str) -> None:
    room = room_of(name)
    if room is None:
        assert name == "hopsyncd"
        return
    for imported in imports(MODULES[name]):
        below = room_of(imported)
        assert below is None or ORDER.index(below) <= ORDER.index(room), f"imports {imported}"
        strange = [p for p in STRANGERS.get(room, ()) if is_in(imported, p)]
        assert not strange or is_in(imported, room), f"imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        name: {module_of(imported) for imported in imports(file)} - {name}
        for name, file in MODULES.items()
    }
    TopologicalSorter(graph).prepare()


def test_the_index_is_numpy_and_records_only() -> None:
    products = ("numpy", "numkong", "onnxruntime")
    allowed = (
        *products,
        "hopsyncd.index",
        "store.records",
        "store.visibility",
        *sys.stdlib_module_names,
    )
    io = ("os", "pathlib", "time", "datetime", "random", "sqlite3", "threading", "socket")
    when = ROOT / "hopsyncd/index/throttle.py"  # decides when something is computed, not what
    for file in {*modules("hopsyncd/index")} - {when}:
        for module in imports(file):
            assert any(is_in(module, package) for package in allowed), f"{file}: {module}"
            assert not any(is_in(module, package) for package in io), f"{file}: {module}"


def test_only_the_store_contains_sql() -> None:
    drivers = ("sqlite3", "pysqlite3", "sqlite_vec", "sqlite_utils")
    # It reads other people's databases, and never ours.
    elsewhere = {ROOT / "connectors/sqlite_rows.py"}
    for file in {*modules("hopsyncd"), *modules("connectors")} - elsewhere:
        assert not any(is_in(m, driver) for m in imports(file) for driver in drivers), file


def test_the_engines_are_known_only_where_the_record_is_opened_or_its_files_matter() -> None:
    allowed = {f"store.{name}" for name in ENGINE_USERS}
    for name, file in MODULES.items():
        if name not in allowed and not is_in(name, "store.engines"):
            assert not [m for m in imports(file) if is_in(m, "store.engines")], name


@pytest.mark.parametrize("room", ["formats", "index"])
def test_formats_and_the_index_know_only_the_records_of_the_store(room: str) -> None:
    for file in modules(f"hopsyncd/{room}"):
        known = {module_of(m) for m in imports(file) if is_in(m, "store")}
        assert known <= {"store.records", "store.visibility"}, file


def test_the_package_root_has_only_the_expected_modules() -> None:
    assert {file.stem for file in (ROOT / "hopsyncd").glob("*.py")} == LOOSE


@pytest.mark.parametrize("name", MODULES)
def test_modules_and_functions_keep_their_length_limits(name: str) -> None:
    text = MODULES[name].read_text()
    assert text.count("\n") <= MAX_MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, node.name


def _documented() -> list[str]:
    """The modules with examples, which `grep` can tell without importing them."""
    return [name for name, file in MODULES.items() if ">>> " in file.read_text()]


@pytest.mark.parametrize("name", _documented())
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
