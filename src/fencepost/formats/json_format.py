"""JSON, as Spark's `from_json` reads and its `to_json` writes it. Each direction is loaded when it is first needed."""

from dataclasses import dataclass
from typing import Any

from fencepost.formats.format import Decoder, Encoder


@dataclass(frozen=True, slots=True)
class JsonFormat:
    strict: bool  #: read only what the standard calls JSON, and only strings for text

    def decoder(self, wanted: Any) -> Decoder:
        from fencepost.formats.json_decode import decoder

        return decoder(wanted, strict=self.strict)

    def encoder(self, given: Any) -> Encoder:
        from fencepost.formats.json_encode import encoder

        return encoder(given)


JSON = JsonFormat(strict=False)
STRICT_JSON = JsonFormat(strict=True)
