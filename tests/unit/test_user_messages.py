"""Messages about mistakes in configuration files, addresses and batches, and about progress."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from hopsyncd.api.failures import describe_bad_request
from hopsyncd.api.mcp.tools import _cut
from hopsyncd.api.requests import QueriesRequest
from hopsyncd.cli.add import _print_details, _print_removal
from hopsyncd.cli.main import cli
from hopsyncd.cli.maintain import _format_numbers
from hopsyncd.cli.output import print_understood
from hopsyncd.cli.progress import _sum_progress
from hopsyncd.cli.query import _print_chain
from hopsyncd.cli.show import _explain_removed
from hopsyncd.client.protocol import RequestFailed
from hopsyncd.config.configuration import load_config
from hopsyncd.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[mcp]\ninbox = 'a'\n\n[watch]\n\n[mcp]  # again\n", 6, "[mcp] is already at line 1."),
        ("[watch]\nenabled = true\n[mcp]\n[watch]\n", 4, "[watch] is already at line 1."),
        ("[watch]\nenabled = true\nenabled = false\n", 3, "`enabled` is already at line 2."),
        ("[mcp]\n[watch]\nenabled = true\n\nenabled = 1\n", 5, "`enabled` is already at line 3."),
    ],
)
def test_a_repeated_key_or_section_is_named_with_its_first_line(
    text: str, line: int, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    message = str(raised.value)
    assert message.startswith(f"{file}:{line}: {told}")
    assert "TOML" not in message


def test_an_address_that_others_can_reach_is_refused_in_words() -> None:
    ran = CliRunner().invoke(cli, ["mcp", "--http", "0.0.0.0:7719"])
    assert ran.exit_code == 2
    told = " ".join(ran.output.split())
    assert "0.0.0.0 is not a loopback address, so other machines could reach it." in told
    assert "Give an address such as 127.0.0.1:7719." in told


def test_an_empty_question_of_a_batch_is_named_by_its_place() -> None:
    with pytest.raises(ValidationError) as raised:
        QueriesRequest.model_validate({"queries": [{"question": "Who?"}, {"question": ""}]})
    error = describe_bad_request(raised.value, QueriesRequest)
    assert error.why == "queries, number 2, question: the field is empty"


@pytest.mark.parametrize("command", ["query", "ask", "watch"])
def test_an_empty_question_is_refused_with_what_to_type(command: str) -> None:
    ran = CliRunner().invoke(cli, [command, " "])
    assert ran.exit_code == 2
    assert "The question is empty. Type a question, or words to search for." in ran.output


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("", "path:law.md: 1 document, 2 passages\n"),
        ("gate", "searched for 'gate' in path:law.md: 1 document, 2 passages\n"),
    ],
)
def test_only_words_are_said_to_be_searched_for(
    question: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    understood = {
        "question": question, "words": [], "offered": [], "absent": [], "filter": "path:law.md",
        "offered_filter": "", "documents": 1, "passages": 2, "hint": None,
    }  # fmt: skip
    print_understood({"understood": understood})
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ("since:2026-03-09", "that changed in that period, add --since 2026-03-09\n"),
        ("created-before:2026-03", "dated in that period, add --created-before 2026-03\n"),
    ],
)
def test_an_offered_filter_tells_which_date_it_uses(
    offered: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    understood = {
        "question": "gate", "words": [], "offered": [], "absent": [], "filter": "",
        "offered_filter": offered, "documents": 1, "passages": 2, "hint": None,
    }  # fmt: skip
    print_understood({"understood": understood})
    assert capsys.readouterr().err == f"For only documents {told}"


def test_doctor_prints_several_mistakes_on_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("[watch]\nenable = true\n[mcp]\ninboxx = 'a'\n")
    ran = CliRunner().invoke(cli, ["doctor"])
    assert "\\n" not in ran.output
    lines = ran.output.splitlines()
    assert any("config.toml:2:" in line for line in lines)
    assert any("config.toml:4:" in line for line in lines)


def test_sources_that_are_synced_together_have_one_total() -> None:
    sources = {"notes": (0.5, 1000)}
    assert _sum_progress(sources) == ("notes: 1,000 documents", 500.0, 1000)
    sources |= {"mail": (0.0, 100), "git": (1.0, 50)}
    assert _sum_progress(sources) == ("3 sources: 1,150 documents", 550.0, 1150)


@pytest.mark.parametrize(("more", "told"), [([], True), (["--every", "1m"], False)])
def test_adding_a_mailbox_says_when_new_mail_is_found(
    more: list[str], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path))
    box = tmp_path / "box.mbox"
    box.write_text("From a@b Thu Jan  1 00:00:00 2026\nFrom: a@b\nSubject: hi\n\nhello\n")
    assert CliRunner().invoke(cli, ["init"]).exit_code == 0
    ran = CliRunner().invoke(cli, ["add", str(box), "--dry-run", *more])
    assert ran.exit_code == 0, ran.output
    assert ("is scanned every 5 minutes" in ran.output) is told


def test_a_mistyped_subcommand_of_backup_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(cli, ["backup", "lst"])
    assert ran.exit_code == 2 and "lst" in ran.output
    assert not [*tmp_path.iterdir()]


def test_gc_names_no_range_that_has_kept_versions() -> None:
    assert [_format_numbers(versions) for versions in ([], [3], [3, 4, 5])] == [
        "none",
        "3",
        "3 to 5",
    ]
    assert _format_numbers([3, 5, 6]) == "between 3 and 6"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (0, "Removed new with 0 documents (older versions keep them).\n"),
        (
            7,
            "Removed new with 0 documents (older versions keep them). The newest version is 7.\n",
        ),
    ],
)
def test_a_removal_without_a_version_names_none(
    version: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_removal(
        {
            **{"name": "new", "documents": 0, "version": version},
            **{"purged": False, "held_by": [], "erased": True},
        }
    )
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    ("watching", "problem", "told"),
    [
        (True, None, "file events:   working"),
        (True, "some fail. Wait", "file events:   some fail. Wait"),
        (False, None, ""),
    ],
)
def test_only_a_watched_source_has_working_file_events(
    watching: bool, problem: str | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = dict.fromkeys(
        ("problem", "hint", "pinned", "scanned", "next"),
    ) | {
        **{"name": "mail", "kind": "imap", "location": "x", "state": "ok", "documents": 1},
        **{"problems": 0, "watching": watching, "watch_problem": problem},
    }
    _print_details(source)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "events" in line]
    assert lines == ([told] if told else [])


@pytest.mark.parametrize(
    ("shortened", "wanted", "told"),
    [(1, 1, "1 text shortened, 0 left out."), (2, 5, "2 texts shortened, 3 left out.")],
)
def test_an_agent_is_told_what_was_cut(shortened: int, wanted: int, told: str) -> None:
    cut = _cut([{"shortened": True}] * shortened, wanted)["cut"]
    assert cut.startswith(f"To fit max_tokens: {told} `get` with an id")


def test_a_hop_within_a_document_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cited = [("01", "peat.pdf"), ("02", "peat.pdf"), ("03", "fire.pdf")]
    ends = {id: {"id": id, "heading": [], "document": document} for id, document in cited}
    hops = [
        {"from": ends[start], "to": ends[end], "asked_by": "both", "question": "What is said of A?"}
        for start, end in (("01", "02"), ("02", "03"))
    ]
    citations = [
        {"id": id, "number": number, "source": "notes"} for number, (id, _) in enumerate(cited, 1)
    ]
    _print_chain({"chain": hops, "citations": citations})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.strip() == "peat.pdf [2] shares a name with fire.pdf [3]: A"


@pytest.mark.parametrize(
    ("kept", "why", "hint"),
    [
        ([208, 207], "", "`hopsyncd show 'notes: tide.md' --at 208` prints its last kept text"),
        ([6, 4], "", "`hopsyncd show 'notes: tide.md' --at 6` prints its last kept text"),
        ([4, 3], ", and its last text was not kept", "`hopsyncd log` lists the versions"),
        ([], ", and its last text was not kept", "`hopsyncd log` lists the versions"),
    ],
)
def test_the_last_text_of_a_removed_document_is_read_at_a_kept_version(
    kept: list[int], why: str, hint: str
) -> None:
    class Daemon:
        """Has a document from version 5 to version 208."""

        def history(self, *_: str, limit: int) -> Any:
            return {"changes": [{"what": "removed", "version": 209}][:limit]}

        def log(self, limit: int, before: int) -> Any:
            rows: list[dict[str, Any]] = [
                {"version": number, "collected": None if number in kept else "2026-01-01T00:00"}
                for number in range(212, 0, -1)
            ]
            return {"versions": [row for row in rows if row["version"] < before][:limit]}

        def document(self, *_: str, at: str) -> Any:
            if int(at) not in kept or not 5 <= int(at) <= 208:
                raise RequestFailed(404, "not_found", "no such document", "")
            return {}

    daemon: Any = Daemon()
    removed = f"version 209 removed or renamed the document{why}"
    assert _explain_removed(daemon, [("notes", "tide.md")]) == (removed, hint)
