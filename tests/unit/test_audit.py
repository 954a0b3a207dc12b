"""The audit log: what it records, how long it keeps it, and what a full disk does to it."""

import json
import os
import resource
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.audit import (
    GAP,
    AuditLog,
    FoundSummary,
    select_recorded,
    summarize_answer,
)
from hopsyncd.api.requests import (
    AskRequest,
    DocumentRequest,
    FacetsRequest,
    NoteRequest,
    QueriesRequest,
    QueryRequest,
)
from hopsyncd.client.trust import Credentials
from hopsyncd.config.values import AuditConfig
from hopsyncd.retrieve.visible_sources import EVERYTHING

ANN = Caller("ann", "read", EVERYTHING, Credentials(holder="ann", token="t1", address="10.0.0.9"))
ROOT = Caller("root", "owner", EVERYTHING, Credentials(os.geteuid(), os.getpid()))
CANARY = "zyxwort"
DAY_S = 86_400


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def record(audit: AuditLog, name: str = "x", caller: Caller = ANN) -> None:
    audit.record(caller, "query", {"source": name}, 200, FoundSummary(("notes",), 3))


def age(file: Path, days: float) -> None:
    then_s = time.time() - days * DAY_S
    os.utime(file, (then_s, then_s))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process can become longer; what is written beyond is cut."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_says_who_asked_what_from_where_and_with_which_result(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(file)
    record(audit)
    record(audit, caller=ROOT)
    by_token, by_socket = lines_of(file)
    assert by_token.items() >= {
        "action": "query", "asked": {"source": "x"}, "status": 200, "sources": ["notes"],
        "results": 3, "user": "ann", "role": "read", "transport": "tcp", "token": "t1",
        "address": "10.0.0.9",
    }.items()  # fmt: skip
    assert (by_socket["transport"], by_socket["pid"]) == ("socket", os.getpid())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_each_day_has_its_file_and_old_ones_are_deleted(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(file, lambda: AuditConfig(keep_days=7))
    for days in (9, 3):
        record(audit, f"{days} days ago")
        age(file, days)
    record(audit, "today")
    assert [line["asked"]["source"] for line in lines_of(file)] == ["today"]
    assert len([*tmp_path.iterdir()]) == 3
    found, _ = AuditLog(file, lambda: AuditConfig(keep_days=7)).read(100)
    assert [line["asked"]["source"] for line in found] == ["today", "3 days ago"]
    assert len([*tmp_path.iterdir()]) == 2


def test_the_first_request_of_a_day_deletes_old_lines_of_an_idle_log(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    record(AuditLog(file))
    age(file, 100)
    AuditLog(file).purge_due()
    assert [*tmp_path.iterdir()] == []


def test_the_audit_log_is_bounded_and_reports_what_it_deletes_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = AuditLog(tmp_path / "audit.log", AuditConfig, 2000, 6000)
    for number in range(101):
        record(audit, str(number))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 10_000
    found, _ = audit.read(1000)
    kept = [int(line["asked"]["source"]) for line in found]
    assert kept == [*range(100, 100 - len(kept), -1)] and 5 < len(kept) < 100
    assert "deleted early" in capsys.readouterr().out


def test_a_torn_line_of_a_killed_process_costs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    record(AuditLog(file), "before")
    with file.open("a") as log:
        log.write('{"time": "2026-11-')
    audit = AuditLog(file)
    record(audit, "after")
    found, torn = audit.read(10)
    assert ([line["asked"]["source"] for line in found], torn) == (["after", "before"], 1)


@pytest.mark.parametrize("room", [0, 40, 200])
def test_a_full_disk_is_reported_and_the_log_later_counts_the_missing_lines(
    tmp_path: Path, room: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(file)
    record(audit, "first")
    with room_for(file.stat().st_size + room):
        for number in range(3):
            record(audit, f"lost {number}")
        status = audit.describe_status()
    assert status["lost"] == 3 and status["problem"]
    assert "the audit log was not written" in capsys.readouterr().out
    record(audit, "later")
    assert (audit.describe_status()["lost"], audit.describe_status()["problem"]) == (0, None)
    found, torn = audit.read(10)
    assert [line["action"] for line in found] == ["query", GAP, "query"]
    assert found[1]["asked"]["lines"] == 3
    assert [found[0]["asked"]["source"], found[2]["asked"]["source"]] == ["later", "first"]
    assert torn <= 1


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    other, file = tmp_path / "other", tmp_path / "audit.log"
    other.touch()
    file.symlink_to(other)
    audit = AuditLog(file)
    record(audit)
    assert audit.describe_status()["lost"] == 1 and other.read_text() == ""


def test_the_audit_log_can_be_read_by_user_and_time(tmp_path: Path) -> None:
    from datetime import datetime, timedelta

    audit = AuditLog(tmp_path / "audit.log", AuditConfig, 1000)
    for number in range(20):
        record(audit, str(number), ANN if number % 2 else ROOT)
    found, _ = audit.read(3, user="ann")
    assert [line["asked"]["source"] for line in found] == ["19", "17", "15"]
    now = datetime.now().astimezone()
    assert len(audit.read(100, since=now - timedelta(minutes=5))[0]) == 20
    assert audit.read(100, since=now + timedelta(minutes=5))[0] == []


@pytest.mark.parametrize(
    "request_",
    [
        QueryRequest(question=CANARY, filters=(f"tag:{CANARY}",), k=3),
        QueriesRequest(queries=(QueryRequest(question=CANARY),)),
        AskRequest.model_validate(
            {"question": CANARY, "thread": [{"question": CANARY, "answer": CANARY}]}
        ),
        FacetsRequest(filters=(CANARY,)),
    ],
)
def test_no_text_of_a_question_is_recorded_by_default(request_: BaseModel) -> None:
    assert CANARY not in json.dumps(select_recorded(request_, questions=False))


def test_questions_are_recorded_if_that_is_configured() -> None:
    asked = select_recorded(QueryRequest(question=CANARY, k=3), questions=True)
    assert asked == {"question": CANARY, "k": 3}
    named = DocumentRequest(source="notes", document="a.md")
    assert select_recorded(named, questions=False) == {"source": "notes", "document": "a.md"}


def test_the_text_of_a_note_is_never_recorded() -> None:
    note = NoteRequest(title="Ada", text=CANARY)
    assert note.model_dump(mode="json", exclude_unset=True) == {}


@pytest.mark.parametrize(
    ("answer", "sources", "results"),
    [
        ({"passages": [{"source": "a"}, {"source": "b", "also_in": [{"source": "c"}]}]}, "abc", 2),
        ({"citations": [{"source": "a"}], "passages": []}, "a", 1),
        ({"answers": [{"passages": [{"source": "a"}, {"source": "a"}]}, {"error": {}}]}, "a", 2),
        ({"passage": {"source": "a"}, "questions": {}}, "a", 1),
        ({"source": "a", "document": "b", "text": "c"}, "a", 1),
        ({"documents": 3, "facets": {"source": [{"value": "x"}]}}, "", None),
        ({"versions": [{}, {}]}, "", 2),
    ],
)
def test_an_answer_is_summarized_by_its_results_and_their_sources(
    answer: dict[str, Any], sources: str, results: int | None
) -> None:
    assert summarize_answer(answer) == FoundSummary(tuple(sources), results)
