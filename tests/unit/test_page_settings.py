"""The settings that the page shows under its sources."""

from typing import Any

import pytest

from hopsyncd.web.rendering import make_templates


@pytest.mark.parametrize(
    ("llm", "host", "shown"),
    [
        ({"model": "m", "endpoint": "llm.example"}, "llm.example", "m at llm.example"),
        (None, "llm.example", "llm.example"),  # for a user who may not see every source
        (None, None, "none"),
    ],
)
def test_the_host_that_gets_texts_is_named_to_every_user(
    llm: dict[str, str] | None, host: str | None, shown: str
) -> None:
    models = {"encoder_endpoint": None, "reranker_endpoint": None, "llm_endpoint": host}
    status: dict[str, Any] = {
        **{"llm": llm, "models": models, "sources": [], "store": {"role": "writer"}},
        **{"configuration": {"restart_needed": []}, "started": "2026-11-26T00:00:00Z"},
        **{"progress": None, "problems": [], "unavailable_readers": [], "degraded": []},
    }
    page = make_templates(base="").get_template("sources.html")
    context = page.new_context(
        {"status": status, "may": lambda right: False, "removing": "", "is_own_daemon": False}
    )
    html = "".join(page.blocks["content"](context))
    assert f"<dt>LLM</dt><dd>{shown}</dd>" in html
