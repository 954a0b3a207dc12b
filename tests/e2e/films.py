"""A small collection of films, people and places, whose documents name one another."""

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
