"""A short run of the fuzz targets, the same every time. `make fuzz` runs longer, with a new seed."""

import pytest

from fencepost.errors import Malformed
from tests.fuzz import decoders
from tests.fuzz.targets import Target

ROUNDS = 500


@pytest.mark.parametrize("name", decoders.targets())
def test_hostile_bytes_are_understood_or_malformed(name):
    result = decoders.run([decoders.targets()[name]], seed=1, rounds=ROUNDS)
    assert not result.failures, "\n".join(map(str, result.failures))
    assert result.runs == ROUNDS
    assert result.understood[name], "no input was valid: the seeds of this target are stale"


def test_a_decoder_that_raises_anything_else_is_caught_with_a_command_that_repeats_it():
    def decode(data: bytes) -> None:
        if data == b"boom":
            raise KeyError("x")
        raise Malformed("no")

    result = decoders.run([Target("broken", decode, lambda rng: iter([b"fine", b"boom"]))], seed=1, rounds=10)
    (failure,) = result.failures
    assert "KeyError" in str(failure)
    assert f"--replay broken {b'boom'.hex()}" in str(failure)
