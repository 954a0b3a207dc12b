"""What a support bundle keeps of a text: the words of our own source, and nothing else."""

from pathlib import Path

import pytest

from hopsyncd.doctor.redaction import Redactor
from hopsyncd.errors import ConfigError
from store.engines.sqlite.acknowledged import versions_lost_error


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the disk is full", "the disk is full"),
        ("the source is paused: the disk is full", "the source is paused: the disk is full"),
        ("scan Xanthippe", "scan …"),
        ("2026-11-26T13:13:39.726+00:00", "2026-11-26T13:13:39.726+00:00"),
        ("Xanthippe's will", "text-1"),
        ("", ""),
    ],
)
def test_redaction_keeps_only_hopsyncds_own_words(text: str, kept: str) -> None:
    assert Redactor().redact_text(text) == kept


def test_a_message_keeps_its_sentences_without_their_values(tmp_path: Path) -> None:
    error = versions_lost_error(tmp_path / "xanthippe.db", "version 57 was acknowledged")
    kept = Redactor().redact_text(str(error))
    assert "xanthippe" not in kept and str(tmp_path) not in kept
    assert "committed data is missing" in kept and "hopsyncd recover" in kept


def test_text_of_servers_and_documents_is_removed_from_messages() -> None:
    said = "Ask Xanthippe. The disk is full, she says: the vault of Cork"
    error = ConfigError(
        "Cannot read /home/xanthippe/c.toml", said, "Check the path and the permissions"
    )
    kept = Redactor().redact_text(str(error))
    assert not {"Xanthippe", "xanthippe", "vault", "Cork", "home"} & set(kept.split())
    assert "xanthippe" not in kept.lower() and "vault" not in kept


def test_the_same_text_has_the_same_number_and_numbers_stay() -> None:
    value = {"name": "notes", "passages": 7, "also": ["Xanthippe", "Cork", "Xanthippe"]}
    first, second = Redactor().redact_value(value), Redactor().redact_value(value)
    assert first == second
    assert first["passages"] == 7 and first["name"].startswith("text-")
    numbers = next(one for one in first.values() if isinstance(one, list))
    assert numbers[0] == numbers[2] != numbers[1]


def test_keys_that_may_name_user_data_are_replaced() -> None:
    assert "xanthippe" not in str(Redactor().redact_value({"xanthippe": 1, ".xanthippe": 2}))


def test_a_traceback_keeps_places_and_no_message() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/home/xanthippe/venv/lib/python3.11/'
        'site-packages/hopsyncd/daemon.py", line 12, in run\n    raise ValueError(path)\n'
        "ValueError: /home/xanthippe/will.md\n"
    )
    kept = Redactor().redact_traceback(trace)
    assert kept == "site-packages/hopsyncd/daemon.py:12 run"
