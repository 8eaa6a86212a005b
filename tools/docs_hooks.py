"""What mkdocs does to pages before it makes the site (`mkdocs.yml`).

Pages link to files of the repository that are not part of the site, so that they lead somewhere as plain files. In the
site such a link becomes its text and the file's path.
"""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def inside(found: re.Match[str]) -> str:
        text, path = found[1], found[2]
        target = (folder / path).resolve()
        if "://" in path or target.is_relative_to(docs):
            return found[0]
        where = target.relative_to(docs.parent).as_posix()
        return f"`{where}`" if where.endswith(text.strip("`")) else f"{text} (`{where}`)"

    parts = _BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(inside, part) for part in parts)
