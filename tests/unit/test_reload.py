"""What of a changed configuration holds at once."""

from pathlib import Path

import pytest

from hopsyncd.config.configuration import Config, check_config
from hopsyncd.config.edit import compare_configs
from tests.e2e.daemon import source

HELD = check_config(Path("/x/config.toml"), source("notes", Path("/n")) + source("b", Path("/b")))
KEYS = [
    (section, key)
    for section in Config.model_fields
    if section != "sources"
    for key in type(getattr(HELD, section)).model_fields
]


@pytest.mark.parametrize(("section", "key"), KEYS, ids=[".".join(key) for key in KEYS])
def test_a_changed_key_holds_at_once_or_is_named_until_it_does(section: str, key: str) -> None:
    other = object()
    changed = getattr(HELD, section).model_copy(update={key: other})
    wanted = HELD.model_copy(update={section: changed})
    found = compare_configs(HELD, wanted)
    holds = getattr(getattr(found.config, section), key) is other
    assert (found.taken, found.waiting) == (
        ((f"{section}.{key}",), ()) if holds else ((), (f"{section}.{key}",))
    )
    assert holds == (
        section in ("query", "watch", "schedule", "retention", "backup", "audit")
        or (section, key)
        in (("daemon", "log_level"), ("access", "admins"), ("access", "backup_dir"))
    )
    again = compare_configs(found.config, wanted)
    assert (again.taken, again.waiting) == ((), found.waiting), "it is named until the next start"


def test_changed_models_hold_once_they_are_loaded() -> None:
    models = HELD.models.model_copy(update={"encoder": "/models/other"})
    llm = HELD.llm.model_copy(update={"model": "other"})
    wanted = HELD.model_copy(update={"models": models, "llm": llm})
    keys = ("models.encoder", "llm.model")
    found = compare_configs(HELD, wanted)
    assert (set(found.taken), set(found.waiting)) == (set(), set(keys))
    found = compare_configs(HELD, wanted, with_models=True)
    assert (set(found.taken), found.waiting) == (set(keys), ())
    assert (found.config.models, found.config.llm) == (models, llm)


def test_sources_are_compared_by_name_and_not_by_order() -> None:
    text = source("c", Path("/c")) + source("notes", Path("/n"), "ignore = ['x']")
    found = compare_configs(HELD, check_config(Path("/x/config.toml"), text))
    assert (found.added, found.changed, found.removed) == (("c",), ("notes",), ("b",))

    turned = source("b", Path("/b")) + source("notes", Path("/n"))
    found = compare_configs(HELD, check_config(Path("/x/config.toml"), turned))
    assert (found.added, found.changed, found.removed, found.taken) == ((), (), (), ())
