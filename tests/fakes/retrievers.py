"""The parts of langchain-core and llama-index-core that docs/reference/client.md uses."""

from types import ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict


class CallbackManagerForRetrieverRun:
    pass


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str | None = None
    page_content: str
    metadata: dict[str, Any] = {}


class LangChainRetriever(BaseModel):
    def invoke(self, query: str) -> list[Document]:
        manager = CallbackManagerForRetrieverRun()
        found: list[Document] = self._get_relevant_documents(query, run_manager=manager)  # type: ignore[attr-defined]
        return found


class QueryBundle(BaseModel):
    query_str: str


class TextNode(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id_: str
    text: str
    metadata: dict[str, Any] = {}


class NodeWithScore(BaseModel):
    node: TextNode
    score: float | None = None


class LlamaIndexRetriever:
    def __init__(self, callback_manager: object | None = None) -> None:
        self.callback_manager = callback_manager

    def retrieve(self, query: str) -> list[NodeWithScore]:
        found: list[NodeWithScore] = self._retrieve(QueryBundle(query_str=query))  # type: ignore[attr-defined]
        return found


def modules() -> dict[str, ModuleType]:
    """What to import them from."""
    return {
        **_modules(
            "langchain_core",
            callbacks={"CallbackManagerForRetrieverRun": CallbackManagerForRetrieverRun},
            documents={"Document": Document},
            retrievers={"BaseRetriever": LangChainRetriever},
        ),
        **_modules(
            "llama_index.core",
            retrievers={"BaseRetriever": LlamaIndexRetriever},
            schema={
                "NodeWithScore": NodeWithScore,
                "QueryBundle": QueryBundle,
                "TextNode": TextNode,
            },
        ),
        "llama_index": ModuleType("llama_index"),
    }


def _modules(name: str, **parts: dict[str, Any]) -> dict[str, ModuleType]:
    made = {name: ModuleType(name)}
    for part, values in parts.items():
        made[f"{name}.{part}"] = module = ModuleType(f"{name}.{part}")
        vars(module).update(values)
    return made
