"""A store with a past: edits, a copy, deletions, a restore, and more matches than edges."""

from store.open_database import Database
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NAMES = ("Rome", "Paris", "Oslo", "Cairo", "Lima", "Kyoto", "Quito", "Delhi")


def page(name: str, *others: str) -> bytes:
    """A page about a city that mentions others."""
    lines = "".join(f"{name} trades with {other} by sea and by air.\n\n" for other in others)
    return f"# {name}\n\n{name} lies on a river that Caesar crossed.\n\n{lines}".encode()


def lived(path: Database) -> Stack:
    """Six versions over the sources of MemoryConnector; 4 is a restore of 1."""
    around = [*NAMES, *NAMES]
    pages = {
        f"{name.lower()}.md": page(name, around[index + 1], around[index + 3])
        for index, name in enumerate(NAMES)
    }
    files = MemoryConnector(pages)
    stack = Stack(path, files, budget_factor=0.1)
    stack.sync()
    files.put("rome.md", page("Rome", "Oslo", "Lima"))
    files.remove("paris.md")
    stack.sync()
    files.put("copy.md", files.files["rome.md"])
    files.remove("lima.md")
    stack.sync()
    stack.restore(1)
    files.put("oslo.md", page("Oslo", "Delhi", "Rome") + b"Oslo was Kristiania.\n")
    stack.sync()
    files.put("sofia.md", page("Sofia", "Cairo", "Quito"))
    stack.sync()
    assert stack.head.id == 6 and stack.head.edge_threshold is not None
    return stack
