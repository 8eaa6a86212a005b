"""Generated purchases: the n-th purchase of a seed is always the same.

Pure, and by the column: numbers come from a hash of seed and purchase id, so any range can be generated on its own. A
user always has the same name, a product the same price.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

FIRST_ID = 1
USERS = 20_000
PRODUCTS = 500
QUANTITY_MAX = 5
CENTS_MIN, CENTS_MAX = 99, 29_999

FIRST_NAMES = (
    "Ada", "Amir", "Anna", "Björn", "Chidi", "Claire", "Diego", "Elif", "Emma", "Fatima", "Grace", "Hana", "Ivan",
    "Jan", "Jürgen", "Kofi", "Łukasz", "Małgorzata", "Mei", "Nadia", "Noor", "Olga", "Paweł", "Priya", "Rosa", "Søren",
    "Tomás", "Wei", "Yuki", "Zoë",
)  # fmt: skip
LAST_NAMES = (
    "Adeyemi", "Andersson", "Brown", "Chen", "da Silva", "Dąbrowska", "Fernández", "García", "Haddad", "Ito", "Ivanova",
    "Jansen", "Kamiński", "Kaya", "Kim", "Kowalska", "Lewandowski", "Mensah", "Müller", "Nguyen", "Nowak", "O'Neill",
    "Okafor", "Patel", "Rossi", "Sato", "Schmidt", "Silva", "Wiśniewska", "Zając",
)  # fmt: skip

Longs = npt.NDArray[np.uint64]


def purchase_rows(seed: int, first: int, count: int) -> Any:
    """The purchases `first` to `first + count - 1` as a RecordBatch of `key` (the user) and `value` (JSON)."""
    ids = np.arange(first, first + count, dtype=np.uint64)
    users = 1 + _hash(ids, seed, 1) % np.uint64(USERS)
    products = 1 + _hash(ids, seed, 2) % np.uint64(PRODUCTS)
    quantities = 1 + _hash(ids, seed, 3) % np.uint64(QUANTITY_MAX)
    cents = quantities * (CENTS_MIN + _hash(products, seed, 4) % np.uint64(CENTS_MAX - CENTS_MIN + 1))
    keys = _text(users)
    values = pc.binary_join_element_wise(
        '{"purchaseId":', _text(ids), ',"userId":', keys, ',"userFullName":"', _names(users), '","productId":',
        _text(products), ',"quantity":', _text(quantities), ',"totalPrice":', _text(cents // np.uint64(100)), ".",
        pc.utf8_lpad(_text(cents % np.uint64(100)), 2, "0"), "}", "",
    )  # fmt: skip
    return pa.RecordBatch.from_arrays([keys, values], ["key", "value"])


def _names(users: Longs) -> Any:
    firsts, lasts = _pick(FIRST_NAMES, users), _pick(LAST_NAMES, users // np.uint64(len(FIRST_NAMES)))
    return pc.binary_join_element_wise(firsts, lasts, " ")


def _pick(words: Sequence[str], numbers: Longs) -> Any:
    return pa.array(words).take(pa.array(numbers % np.uint64(len(words))))


def _text(numbers: Longs) -> Any:
    return pa.array(numbers).cast(pa.string())


def _hash(numbers: Longs, seed: int, purpose: int) -> Longs:
    """SplitMix64's finish, on a state of its own for each purpose."""
    state = np.uint64((seed * 0x9E3779B97F4A7C15 + purpose * 0xD1B54A32D192ED03) % (1 << 64))
    mixed: Longs = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + state
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
