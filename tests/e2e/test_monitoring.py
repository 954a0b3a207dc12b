"""examples/monitoring: each metric is in a real reply, and Prometheus can parse each expression."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hopsyncd.client import Client
from tests.e2e.daemon import GC_LATER, ROOT, SMALL, new_place, source
from tests.fakes.endpoint import Endpoint, Response

FOLDER = ROOT / "examples/monitoring"
NAME = re.compile(r"\bhopsyncd_\w+")
RULE = re.compile(r"^ +(?:- )?(alert|expr): (.+)$", re.MULTILINE)
# Functions and operators of PromQL that the examples may use, besides labels and numbers.
PROMQL = frozenset(
    "sum by rate histogram_quantile time vector and or le instance strategy status state purpose"
    " why job up".split()
)


def alerts() -> dict[str, str]:
    found = RULE.findall((FOLDER / "alerts.yml").read_text())
    names, texts = found[::2], found[1::2]
    assert {kind for kind, _ in names} == {"alert"} and {kind for kind, _ in texts} == {"expr"}
    return {name: text for (_, name), (_, text) in zip(names, texts, strict=True)}


def panels() -> dict[str, str]:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }


EXPRESSIONS = {**alerts(), **panels()}


@pytest.fixture(scope="module")
def samples() -> Iterator[dict[str, set[str]]]:
    """Every sample of a daemon that has an LLM and backups, with the labels that it can have."""
    with Endpoint(lambda _: Response(b"{}")) as endpoint, new_place(SMALL) as place:
        place.write("a.md", "Ansgar Nyborg keeps the lighthouse.\n")
        place.configure(
            f'[backup]\ndir = "{place.base}/b"\n{GC_LATER}'
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "m"\nquestions = "both"\n'
            + source("notes", place.notes)
        )
        place.start()
        place.sync()
        place.query("Who keeps the lighthouse?")
        found: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(Client(place.socket).metrics()):
            found.setdefault(family.name, set())
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
            if family.type == "counter":
                found.setdefault(f"{family.name}_total", set())
        yield found


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_each_metric_of_the_examples_is_exported_by_a_daemon(
    samples: dict[str, set[str]], title: str
) -> None:
    names = set(NAME.findall(EXPRESSIONS[title]))
    assert names or "up{" in EXPRESSIONS[title]
    assert names <= samples.keys()


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_each_word_of_an_expression_is_a_metric_a_label_or_a_function(title: str) -> None:
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\b\d[\w.]*', "", EXPRESSIONS[title])
    assert set(re.findall(r"[A-Za-z_]\w*", NAME.sub("", bare))) <= PROMQL
    for opening, closing in ("()", "{}", "[]"):
        assert EXPRESSIONS[title].count(opening) == EXPRESSIONS[title].count(closing)


def test_each_label_in_a_selector_is_one_of_its_metric(samples: dict[str, set[str]]) -> None:
    given = {"job", "instance"}  # by Prometheus
    for text in EXPRESSIONS.values():
        for name, selector in re.findall(r"(hopsyncd_\w+)\{([^}]*)\}", text):
            labels = set(re.findall(r"(\w+)\s*=", selector))
            assert labels <= samples[name] | given, name


def test_the_documented_metrics_are_those_of_a_daemon(samples: dict[str, set[str]]) -> None:
    page = (ROOT / "docs/operate.md").read_text()
    section = page.partition("### Metrics")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE):
        for name in re.findall(r"`(?:hopsyncd)?(_\w+)", row):
            full = f"hopsyncd{name}"
            assert any(sample.startswith(full) for sample in samples), full


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_prometheus_accepts_the_alerts_and_every_expression(tmp_path: Path) -> None:
    rules = "groups:\n- name: all\n  rules:\n"
    for number, text in enumerate(EXPRESSIONS.values()):
        filled = text.replace("$__rate_interval", "5m").replace("$job", "hopsyncd")
        rules += f"  - record: r{number}\n    expr: {json.dumps(filled)}\n"
    (tmp_path / "all.yml").write_text(rules)
    for file in (FOLDER / "alerts.yml", tmp_path / "all.yml"):
        ran = subprocess.run(
            ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
