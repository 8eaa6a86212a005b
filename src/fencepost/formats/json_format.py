"""JSON, as Spark's `from_json` reads and its `to_json` writes it. Each direction is loaded when it is first needed."""

from typing import Any

from fencepost.formats.format import Decoder, Encoder


class JsonFormat:
    def decoder(self, wanted: Any) -> Decoder:
        from fencepost.formats.json_decode import decoder

        return decoder(wanted)

    def encoder(self, given: Any) -> Encoder:
        from fencepost.formats.json_encode import encoder

        return encoder(given)


JSON = JsonFormat()
