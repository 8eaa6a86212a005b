"""Machine code for the loops over records: numba compiles it at first use and caches it on disk.

The kernels are in modules named `*_kernels`. No module imports them at the top: importing numba takes half
a second, and compiling a kernel takes some seconds, once per machine. `load` logs if it took long. If no cache
directory is writable (`NUMBA_CACHE_DIR` names one), every process compiles again.

Invariant: while one process compiles a module, others that load it wait, and do not compile it as well.
"""

import contextlib
import fcntl
import functools
import importlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from fencepost.errors import KernelsUnavailable

logger = logging.getLogger(__name__)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

NOTICEABLE_S = 1.0

#: All modules of kernels in `fencepost`, those that take longest first.
KERNELS = (
    "formats.json_decode_kernels",
    "client.encode_kernels",
    "formats.json_number_kernels",
    "formats.json_value_kernels",
    "formats.json_text_kernels",
    "client.decode_kernels",
    "formats.json_encode_kernels",
)
PACKAGE = Path(__file__).parents[1]

#: For kernels and the functions that they call. Without numba's runtime they cannot allocate. But they do not count
#: references to arrays either, which took nine tenths of the time per record.
OPTIONS = {"nogil": True, "_nrt": False}


@functools.cache
def load(name: str) -> ModuleType:
    """The module of kernels `fencepost.NAME`, ready to run."""
    before = time.monotonic()
    try:
        with _alone(name):
            module = importlib.import_module(f"fencepost.{name}")
    except ImportError as error:
        raise KernelsUnavailable(
            f"Arrow columns need numba, NumPy and PyArrow ({error}): pip install 'fencepost[client]'"
        ) from error
    took_s = time.monotonic() - before
    if took_s > NOTICEABLE_S:
        logger.info("compiled %s in %.1f s; later starts load it from numba's cache", name, took_s)
    return module


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait until no other process loads this module, if both have the same place for what they compile."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # nobody may write there, or the file system has no locks
            cache = cache_of(name)
            cache.mkdir(exist_ok=True)
            lock = stack.enter_context((cache / f"{name}.lock").open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cache_of(name: str) -> Path:
    """Where numba keeps the machine code of a module, unless told otherwise."""
    return (PACKAGE / name.replace(".", "/")).parent / "__pycache__"


def compiled(signature: Any) -> Callable[[Kernel], Kernel]:
    """Compile for this signature at once, or load what an earlier process compiled."""
    numba: Any = importlib.import_module("numba")

    def decorate(function: Kernel) -> Kernel:
        try:
            made: Kernel = numba.njit(signature, cache=True, **OPTIONS)(function)
        except RuntimeError as error:  # numba found no place for its cache
            if "cannot cache" not in str(error):
                raise
            logger.info("%s: compiled for this process only; set NUMBA_CACHE_DIR to a writable directory", error)
            made = numba.njit(signature, **OPTIONS)(function)
        return made

    return decorate


def helper(function: Kernel) -> Kernel:
    """A part of a kernel, compiled with its callers. It must be in their file: the cache looks at that file's age."""
    numba: Any = importlib.import_module("numba")
    made: Kernel = numba.njit(**OPTIONS)(function)
    return made


def copier() -> Any:
    """`copy_bytes(to, at, source, start, count)` for use inside kernels: the C library's memcpy, unchecked.

    A loop over bytes in numba reaches half of its speed at the sizes that records have.
    """
    types: Any = importlib.import_module("numba.types")
    cgutils: Any = importlib.import_module("numba.core.cgutils")
    extending: Any = importlib.import_module("numba.extending")

    def copy_bytes(_typing: Any, to: Any, _at: Any, source: Any, _start: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = context.make_array(signature.args[0])(context, builder, arguments[0])
            origin = context.make_array(signature.args[2])(context, builder, arguments[2])
            target_at = builder.gep(target.data, [arguments[1]])
            origin_at = builder.gep(origin.data, [arguments[3]])
            cgutils.raw_memcpy(builder, target_at, origin_at, arguments[4], 1)
            return context.get_dummy_value()

        return types.void(to, types.int64, source, types.int64, types.int64), generate

    return extending.intrinsic(copy_bytes)


def gatherer() -> Any:
    """`copy_from(to, at, address, count)` for use inside kernels: memcpy from an address, unchecked.

    For kernels over any number of columns, which come as an array of addresses (`loader`). The caller keeps the columns
    alive.
    """
    types: Any = importlib.import_module("numba.types")
    cgutils: Any = importlib.import_module("numba.core.cgutils")
    extending: Any = importlib.import_module("numba.extending")

    def copy_from(_typing: Any, to: Any, _at: Any, _address: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = context.make_array(signature.args[0])(context, builder, arguments[0])
            target_at = builder.gep(target.data, [arguments[1]])
            origin_at = builder.inttoptr(arguments[2], target.data.type)
            cgutils.raw_memcpy(builder, target_at, origin_at, arguments[3], 1)
            return context.get_dummy_value()

        return types.void(to, types.int64, types.int64, types.int64), generate

    return extending.intrinsic(copy_from)


def loader(kind: Any) -> Any:
    """`load(address, index)` for use inside kernels: one item of an array of this type at an address, unchecked."""
    types: Any = importlib.import_module("numba.types")
    extending: Any = importlib.import_module("numba.extending")

    def load(_typing: Any, _address: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            items = builder.inttoptr(arguments[0], context.get_data_type(kind).as_pointer())
            return builder.load(builder.gep(items, [arguments[1]]))

        return kind(types.int64, types.int64), generate

    return extending.intrinsic(load)
