"""Turns valid bytes into hostile ones: flipped, cut, repeated, spliced, with lengths that lie."""

import random

#: Limits of integers and varints.
INTERESTING = [
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\x7f\xff", b"\x80\x00", b"\xff\xff", b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff",
]  # fmt: skip


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        _once(rng, out, other)
    return bytes(out)


def _once(rng: random.Random, out: bytearray, other: bytes) -> None:
    at = rng.randrange(len(out) + 1)
    match rng.randrange(8):
        case 0 if at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(out):
            out[at] = rng.randrange(256)
        case 2:
            word = rng.choice(INTERESTING)
            out[at : at + len(word)] = word
        case 3:
            out[at:at] = rng.choice(INTERESTING)
        case 4:
            del out[at : at + rng.randrange(1, 9)]
        case 5:
            del out[at:]
        case 6:
            out[at:at] = out[at : at + rng.randrange(1, 30)] * rng.randrange(1, 4)
        case _:
            begin = rng.randrange(len(other) + 1)
            out[at : at + rng.randrange(30)] = other[begin : begin + rng.randrange(1, 30)]
