"""All endpoints of a daemon: one service for each subject."""

from dataclasses import dataclass
from typing import Any

from hopsyncd.api.access import Caller
from hopsyncd.api.admin_service import AdminService
from hopsyncd.api.collection_service import CollectionService
from hopsyncd.api.endpoints import endpoint, endpoints_of, openapi_document
from hopsyncd.api.read_service import ReadService
from hopsyncd.api.requests import NoParameters
from hopsyncd.api.status_service import StatusService
from hopsyncd.api.watch_service import WatchService


class DescriptionService:
    """The endpoint that describes the others."""

    @endpoint("GET", "/v1/openapi.json", "read")
    def openapi(self, request: NoParameters, caller: Caller) -> dict[str, Any]:
        """The OpenAPI 3.1 document."""
        return openapi_document(ENDPOINTS)


@dataclass(frozen=True, slots=True)
class Services:
    """The services by name; an endpoint names the one that answers it."""

    reading: ReadService
    collection: CollectionService
    status: StatusService
    watches: WatchService
    administration: AdminService
    description: DescriptionService


ENDPOINTS = endpoints_of(Services)
