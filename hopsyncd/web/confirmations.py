"""The sentences that confirm the actions of the page."""

DONE = {
    "sync": "Scanning {source}.",
    "accept": "{source} is accepted as it is now.",
    "pause": "{source} is paused. Results may be out of date.",
    "resume": "{source} is resumed, and is scanned now.",
    "add": "{source} is added. Its documents appear as they are read.",
    "remove": "{source} is removed. Older versions keep its documents.",
    "ignore": "{document} is ignored from now on.",
    "open": "{document} is opened.",
    "restore": "The documents are as in version {version}. They stay so until their files change.",
    "release": "Every document follows its file again.",
}
"""The sentence that confirms each action."""
