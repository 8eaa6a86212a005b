"""Print docs/protocol.md: the APIs that the broker serves, with their versions, from its handlers.

    python tools/protocol_page.py > docs/protocol.md

A test compares the page with this output.
"""

import importlib

from fencepost.broker.dispatch import handlers

HEAD = """\
# The protocol, API by API

What ApiVersions announces comes from the handlers themselves (`src/fencepost/broker/handlers/`), and so does
this page: `python tools/protocol_page.py > docs/protocol.md`. APIs that are not listed (ACL changes,
quotas, the consumer protocol of KIP-848, share groups, telemetry, requests between brokers) are not announced.
If a client sends one anyway, the broker closes the connection and logs it.

| key | API | versions | what it does here |
| --- | --- | --- | --- |
"""


def page() -> str:
    rows = []
    for entry in handlers().values():
        doc = entry.function.__doc__ if entry.function else None
        if doc is None:
            doc = importlib.import_module(f"fencepost.broker.handlers.{entry.api.name}").__doc__ or ""
        summary = " ".join(doc.split("\n\n")[0].split()).partition(": ")[2]
        rows.append(f"| {entry.key} | {entry.api.name} | {entry.first}–{entry.last} | {summary} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
