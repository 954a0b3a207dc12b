"""Types of the API responses with pictures: the map of the collection, and pages of PDFs."""

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


class MapGroup(TypedDict):
    """A group of similar documents, as a disc around x, y. `names` has names that are frequent in
    the group."""

    names: list[str]
    documents: int
    x: float
    y: float
    radius: float


class MapDocuments(TypedDict):
    """The documents of a map; each list has a value for every document.

    `source` is a position in the map's `sources`, and `group` a position in its `groups`. `passage`
    is the first passage of the document. `modified` is a day, or null. `rank` is 0 for the document
    that is most similar to the rest of its group.
    """

    x: list[float]
    y: list[float]
    group: list[int]
    rank: list[int]
    source: list[int]
    document: list[str]
    title: list[str | None]
    passage: list[str]
    modified: list[str | None]


class MapJoints(TypedDict):
    """Connected documents, as pairs of positions. `link` is true if one document links to the
    other; otherwise passages of one document answer questions of the other."""

    start: list[int]
    end: list[int]
    link: list[bool]


class MapAnswer(TypedDict):
    """A map of the documents. `total` counts all documents. At most 20,000 are on the map."""

    version: int
    degraded: list[str]
    total: int
    spacing: float
    sources: list[str]
    groups: list[MapGroup]
    documents: MapDocuments
    joints: MapJoints


class PageImageAnswer(TypedDict):
    """A page of a PDF as a picture, and the places of a passage on it.

    `picture` is a PNG in base64. `boxes` are left, top, right and bottom in pixels of the picture.
    There are no boxes if the passage is not found on the page. `pages` counts the pages of the
    document, and `last` is the last page of the passage.
    """

    version: int
    source: str
    document: str
    page: int
    last: int
    pages: int
    width: int
    height: int
    boxes: list[list[int]]
    picture: str
