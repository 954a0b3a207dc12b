"""Finds LLM servers on this machine: Ollama, LM Studio and llama.cpp on their usual ports.

The list of models is requested from each port, over loopback and never through a proxy. No text of
the user is sent, and no configuration is changed.
"""

import asyncio
from dataclasses import dataclass

import httpx2
from pydantic import BaseModel, Field, ValidationError

from hopsyncd.models.llm.transport import make_bounded_http

USUAL_PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080}
_ANSWER_S = 1.0


class _Model(BaseModel):
    id: str = Field(min_length=1, max_length=200)


class _ModelList(BaseModel):
    """The reply to `GET /v1/models`, as the OpenAI API defines it."""

    data: list[_Model]


@dataclass(frozen=True, slots=True)
class LocalLlm:
    """An LLM server that answers.

    model: its first model that is not an embedding model.
    """

    program: str
    base_url: str
    model: str

    @property
    def settings(self) -> tuple[str, str]:
        """The two lines for [llm] with which hopsyncd uses the server."""
        return f'base_url = "{self.base_url}"', f'model = "{self.model}"'


def find_local_llms(ports: dict[str, int] | None = None) -> list[LocalLlm]:
    """Find the servers that answer within a second, in the order of `ports`."""
    return asyncio.run(_find(USUAL_PORTS if ports is None else ports))


async def _find(ports: dict[str, int]) -> list[LocalLlm]:
    async with make_bounded_http(use_proxies=False) as http:
        pending = [_ask(http, program, port) for program, port in ports.items()]
        return [server for server in await asyncio.gather(*pending) if server]


async def _ask(http: httpx2.AsyncClient, program: str, port: int) -> LocalLlm | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    try:
        async with asyncio.timeout(_ANSWER_S):
            response = await http.get(f"{base_url}/models")
        listed = _ModelList.model_validate_json(response.content)
    except (httpx2.HTTPError, TimeoutError, ValidationError):
        return None  # the port is free, or another program uses it
    model = next((model.id for model in listed.data if _is_usable(model.id)), None)
    return LocalLlm(program, base_url, model) if model else None


def _is_usable(model: str) -> bool:
    """Return whether a model can be used.

    Its name must fit into quotes and must not be the name of an embedding model.
    """
    return model.isprintable() and '"' not in model and "\\" not in model and "embed" not in model
