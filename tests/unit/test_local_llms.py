"""LLM servers on this machine are found by their lists of models."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.main import cli
from hopsyncd.config.configuration import Config
from hopsyncd.doctor import local_llms
from hopsyncd.doctor.examine import check_endpoint
from hopsyncd.doctor.local_llms import LocalLlm, find_local_llms


@contextmanager
def serve_on_loopback(body: bytes, status: int = 200, pause_s: float = 0.0) -> Iterator[int]:
    """Serve one reply for every GET, after `pause_s`, on a port of the system's choice."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(pause_s)
            with suppress(OSError):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep requests out of the output of tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def model_list(*names: str) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


def test_servers_that_list_models_are_found_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with ExitStack() as stack:
        ollama = stack.enter_context(
            serve_on_loopback(model_list("nomic-embed-text", "llama3.2:3b", "qwen3:8b"))
        )
        studio = stack.enter_context(serve_on_loopback(model_list("gemma-3")))
        found = find_local_llms({"Ollama": ollama, "LM Studio": studio})
    assert found == [
        LocalLlm("Ollama", f"http://127.0.0.1:{ollama}/v1", "llama3.2:3b"),
        LocalLlm("LM Studio", f"http://127.0.0.1:{studio}/v1", "gemma-3"),
    ]
    assert found[0].settings == (
        f'base_url = "http://127.0.0.1:{ollama}/v1"',
        'model = "llama3.2:3b"',
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>", 200),
        (b"{}", 200),
        (b'{"data": [{"id": 7}]}', 200),
        (model_list(), 200),
        (model_list("nomic-embed-text"), 200),
        (model_list('a" \nquestions = "both'), 200),
        (b'{"error": "no"}', 404),
        (b"[" * 2_000_000, 200),
    ],
)
def test_other_programs_on_the_ports_are_ignored(body: bytes, status: int) -> None:
    with serve_on_loopback(body, status) as port:
        assert find_local_llms({"llama.cpp": port}) == []


def test_a_server_that_does_not_answer_delays_nobody() -> None:
    with serve_on_loopback(model_list("slow"), pause_s=5.0) as port:
        start_s = time.monotonic()
        assert find_local_llms({"Ollama": port, "LM Studio": port}) == []
        assert time.monotonic() - start_s < 3


def test_init_and_doctor_show_the_two_lines_and_configure_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    with serve_on_loopback(model_list("llama3.2:3b")) as port:
        monkeypatch.setattr(local_llms, "USUAL_PORTS", {"Ollama": port})
        shown = CliRunner().invoke(cli, ["--config", str(path), "init"])
        findings = list(check_endpoint(Config()))
    lines = f'base_url = "http://127.0.0.1:{port}/v1"', 'model = "llama3.2:3b"'
    assert shown.exit_code == 0
    assert "Ollama runs on this machine" in shown.output
    assert all(f"  {line}\n" in shown.output for line in lines)
    assert 'base_url = ""' in path.read_text(encoding="utf-8")
    assert [finding.check for finding in findings] == ["llm", "local llm"]
    assert all(line in findings[1].detail for line in lines)
