"""One daemon with the real models for most tests, and places of their own for the others."""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Place, new_place, source

FILMS = {
    "films/bronze-door.md": "# The Bronze Door\n\nThe Bronze Door is a film that Mira Kaltenbrunn "
    "directed. It lasts four hours.\n",
    "people/kaltenbrunn.md": "# Mira Kaltenbrunn\n\nMira Kaltenbrunn grew up in the village of "
    "Ostrava Vale. She learned to paint before she made films.\n",
    "places/ostrava-vale.md": "# Ostrava Vale\n\nOstrava Vale has a glass furnace. "
    "It burns day and night.\n",
    "people/lindqvist.md": "# Tove Lindqvist\n\nTove Lindqvist repairs clocks in Bergen. "
    "The tower clock of Bergen is her work.\n",
    "places/bergen.md": "# Bergen\n\nBergen has a harbour and much rain. "
    "Ships from Lisbon unload there.\n",
}
FILMS |= {
    f"films/{title.lower()}.md": f"# {title}\n\n{title} is a film about a {trade} who moves to "
    f"{town}. The critics of {town} praised it.\n"
    for title, trade, town in [
        ("Harrowgate", "baker", "Lisbon"),
        ("Nightjar", "sailor", "Cork"),
        ("Saltmarsh", "doctor", "Riga"),
        ("Tinderbox", "thief", "Graz"),
        ("Undertow", "diver", "Split"),
        ("Vesper", "nun", "Gent"),
        ("Windfall", "farmer", "Turku"),
    ]
}


@pytest.fixture
def place() -> Iterator[Place]:
    """A home where nothing is configured and nothing runs."""
    with new_place() as made:
        yield made


@pytest.fixture(scope="session")
def daemon() -> Iterator[Place]:
    """A running daemon; every test keeps to a folder of its own in `notes`.

    Its data lies inside the watched folder. The source `away` is for the test that takes it away.
    """
    with new_place() as made:
        for path, text in FILMS.items():
            made.write(path, text)
        (made.base / "away").mkdir()
        (made.base / "away/kept.md").write_text("The lighthouse keeper is called Ansgar Nyborg.\n")
        made.configure(
            f'[daemon]\ndata_dir = "{made.notes}/own"\n[watch]\ndebounce_ms = 100\n'
            + source("notes", made.notes)
            + source("away", made.base / "away")
        )
        made.start()
        made.sync()
        yield made
