"""A daemon with an LLM endpoint says so; a daemon without one says that no passage leaves."""

import json

from tests.e2e.daemon import SMALL, new_place, source
from tests.fakes.endpoint import Endpoint, error
from tests.fakes.port import free_port


def test_the_status_names_the_endpoint_and_what_was_spent() -> None:
    with Endpoint(lambda _: error(401, "bad key")) as endpoint, new_place(SMALL) as place:
        place.write("a.md", "# Ada\n\nAda Lovelace wrote to Babbage.\n")
        place.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\nquestions = "off"\n'
            + source("notes", place.notes)
        )
        place.start()
        output = place.run("status")
        status = json.loads(place.run("status", "--json").stdout)
    host = endpoint.base_url.removeprefix("http://").removesuffix("/v1")
    assert f"passages and questions are sent to the LLM small at {host};" in output.stdout
    assert "today 0 of 20000 calls, 0 of 2000000 tokens" in output.stdout
    assert "leaves this machine" not in output.stdout
    assert (status["llm"]["endpoint"], status["models"]["llm_endpoint"]) == (host, host)
    assert endpoint.requests == []


def test_the_status_names_the_endpoint_to_a_user_who_sees_one_source() -> None:
    port = free_port()
    with Endpoint(lambda _: error(401, "bad key")) as endpoint, new_place(SMALL) as place:
        place.write("open/a.md", "# Ada\n\nAda Lovelace wrote to Babbage.\n")
        place.write("closed/b.md", "# Byron\n\nLord Byron wrote to Murray.\n")
        place.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\nquestions = "off"\n'
            f'[access]\nlisten = "127.0.0.1:{port}"\n'
            + source("open", place.notes / "open")
            + source("closed", place.notes / "closed")
        )
        place.start()
        place.sync()
        file = place.base / "token"
        made = place.run("token", "create", "--user", "ann", "--source", "open", "--out", str(file))
        assert made.returncode == 0, made.stderr
        server = ("--server", f"http://127.0.0.1:{port}", "--token-file", str(file))
        output = place.run("status", *server).stdout
        host = endpoint.base_url.removeprefix("http://").removesuffix("/v1")
        assert "closed" not in output and "leaves this machine" not in output
        assert f"passages and questions are sent to the LLM at {host}\n" in output
