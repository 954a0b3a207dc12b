"""What is drawn at random: documents, their paths, and what the daemon does about a change."""

from typing import Literal

from hypothesis import strategies as st

# Few words, so that the same passage, the same similarity and the same name come up often.
PARAGRAPHS = [
    "Rome is in Italy.",
    "Rome met Carthage. Carthage lost.",
    "Italy borders France.",
    "Paris is in France.",
    "France met Italy. Rome met Paris.",
    "Ada wrote X1 in 1843.",
    "X1 ran in Paris.",
    "Babbage met Ada. Ada met Rome.",
    "nothing of note",
    "...",
    "See [[b]], [Ada](../x/a.md) and [[Rome|the city]].",
    "[[Ada]] met [[#Paris]].",
]
HEADINGS = [
    "",
    "# Rome",
    "# Italy\n\n## Paris",
    "# Ada",
    "---\ntitle: Ada\naliases: [Rome]\ntags: b\n---",
]
PATHS = ["a.md", "b.md", "x/a.md", "x/b.md", "x/z/Rome.md", "y/a.md"]

documents = st.builds(
    lambda heading, paragraphs: "\n\n".join([heading, *paragraphs]).strip().encode(),
    st.sampled_from(HEADINGS),
    st.lists(st.sampled_from(PARAGRAPHS), max_size=6),
)
paths = st.sampled_from(PATHS)
# What the daemon does about a change: nothing, as when the watcher's events were lost; a sync of
# the first path touched, as when the event of the other was; one of the paths; one of everything.
Then = Literal["wait", "first", "hint", "all"]
then = st.sampled_from(["all", "all", "hint", "first", "wait"])
