"""The sentences with which the web interface confirms actions."""

DONE = {
    "sync": "Scanning {source}.",
    "accept": "Accepted the current files of {source}.",
    "pause": "Paused {source}. Results may be out of date.",
    "resume": "Resumed {source}. The source is being scanned.",
    "add": "Added {source}. Its documents appear as they are read.",
    "remove": "Removed {source}. Older versions keep its documents.",
    "ignore": "Ignoring {document} from now on.",
    "open": "Opened {document}.",
    "restore": "The documents are as in version {version} until their files change.",
    "release": "All documents are synced with their files again.",
}
"""The sentence that confirms each action."""
