"""What an operator sees of a running daemon: the doctor, the metrics, completion at the shell."""

import json
import signal
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from hopsyncd.cli.main import cli
from tests.e2e.daemon import Place, serving, source


@pytest.fixture
def place() -> Iterator[Place]:
    with serving("my notes", {"canary.md": "Ansgar Canary keeps the lighthouse.\n"}) as made:
        yield made


def levels(place: Place) -> tuple[int, dict[str, str]]:
    """The exit status of the doctor, and what it says of each check."""
    ran = place.run("doctor", "--json")
    found = json.loads(ran.stdout)
    assert found["healthy"] == (ran.returncode == 0)
    return ran.returncode, {finding["check"]: finding["level"] for finding in found["findings"]}


def test_doctor_distinguishes_a_healthy_an_outdated_and_a_killed_daemon(
    place: Place,
) -> None:
    status, found = levels(place)
    assert status == 0
    assert {level for check, level in found.items() if check != "disk"} == {"ok"}

    place.configure(source("my notes", place.notes) + "[index]\npassage_tokens = 90\n")
    place.post("/v1/reload", {})
    assert levels(place) == (0, found | {"configuration": "warn"})
    place.kill()
    assert levels(place) == (0, found | {"daemon": "warn"})


def test_metrics_count_the_work_and_contain_no_names(place: Place) -> None:
    for strategy in ("hop", "hop", "bm25"):
        place.query("Who keeps the lighthouse?", strategy=strategy)
    text = place.request("GET", "/v1/metrics").text
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["hopsyncd_query_seconds_count", "hop"] == 2
    assert found["hopsyncd_query_seconds_count", "bm25"] == 1
    assert found["hopsyncd_request_seconds_count", "2xx", "query"] == 3
    assert found["hopsyncd_sync_seconds_count",] >= 1
    assert found["hopsyncd_version",] == place.status()["version"]
    assert (found["hopsyncd_documents",], found["hopsyncd_passages",]) == (1, 1)
    assert found["hopsyncd_passages_generated_total",] == 1
    assert found["hopsyncd_sources", "ok"] == 1
    assert found["hopsyncd_connections",] >= 1
    assert found["hopsyncd_wal_bytes",] >= 0  # a gc has just emptied it, perhaps
    assert found["hopsyncd_process_resident_memory_bytes",] > 10_000_000
    for name in ("canary", "lighthouse", "notes"):
        assert name not in text.lower()


def completed(place: Place, line: str) -> list[str]:
    """What bash is offered after the line."""
    words = line.split(" ")
    place.variables |= {
        "_HOPSYNCD_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    ran = place.run()
    return [offered.partition(",")[2] for offered in ran.stdout.splitlines()]


def test_a_shell_completes_commands_sources_and_tags_and_waits_for_no_daemon(place: Place) -> None:
    place.post("/v1/tags", {"name": "before", "version": "1"})
    assert completed(place, "hopsyncd do") == ["doctor"]
    assert completed(place, "hopsyncd sync ") == ["my notes"]
    # A daemon that is not quick enough is passed over.
    place.until(lambda: completed(place, "hopsyncd diff be") == ["before"])
    place.until(lambda: completed(place, "hopsyncd query x --at ") == ["head", "before", "1"])

    assert place.process is not None
    place.process.send_signal(signal.SIGSTOP)
    assert completed(place, "hopsyncd diff ") == ["head"]
    place.variables.clear()
    status, found = levels(place)
    assert (status, found["daemon"]) == (1, "fail")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell])
    assert printed.exit_code == 0
    assert "_HOPSYNCD_COMPLETE" in printed.output
