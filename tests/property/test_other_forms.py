"""Other forms of words are found as after a rebuild, and by what may be seen alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.rebuilt import Step, check_answers, steps_of, texts_of

QUESTIONS = (
    "EST boats",
    "Enterprise Support Team",
    "Who leads the EST?",
    "kube boats",
    "zilla",
    "Eastern Standard boats",
)
_text = texts_of(
    [
        "The Enterprise Support Team (EST) has boats.",
        "EST (Eastern Standard Time) is the time of the boats.",
        "Ask the Enterprise Support Team for boats.",
        "Ask EST for oars.",
        "Boats keep Eastern Standard Time.",
        "The Kubernetes boats are blue.",
    ]
) | st.sampled_from(
    [
        "---\naliases: [kube]\n---\n# Kubernetes\n\nIt is blue.\n",
        "---\naliases: [zilla, boats]\n---\nIt is blue.\n",
        "Zilla keeps boats.\n",
    ]
)


@settings(max_examples=settings().max_examples // 2)
@given(steps_of(["a.md", "Kubernetes.md", "Eastern Standard.md"], _text))
def test_other_forms_are_found_as_after_a_rebuild_and_by_what_may_be_seen(
    steps: list[Step],
) -> None:
    check_answers(QUESTIONS, "# First\n\nEST has oars and boats.", steps)
