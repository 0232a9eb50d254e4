"""Arguments that hold bytes: keys, packets and outputs, checked and handed to C."""

import operator
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dvcrypto._library import ffi, lib

if TYPE_CHECKING:
    from typing_extensions import Buffer

KEY_LEN: Final = 32
OVERHEAD_LEN: Final = 20
PACKET_MAX_LEN: Final = 65535
PLAIN_MAX_LEN: Final = PACKET_MAX_LEN - OVERHEAD_LEN
HEADER_MAX_LEN: Final = 76  # of the clear header: 12 bytes, 15 CSRCs, 4 of the extension's preamble

SIZE_LEN: Final = int(ffi.sizeof("size_t"))


def view(name: str, value: "Buffer") -> memoryview:
    """A view of a contiguous bytes-like argument.

    Raises TypeError where it is not bytes-like or has items of more than 1 byte, BufferError where it is not
    contiguous.
    """
    try:
        viewed = memoryview(value)
    except TypeError:
        message = f"{name} must be bytes-like, not {type(value).__name__}"
        raise TypeError(message) from None
    except ValueError as error:
        message = f"{name} cannot be read: {error}"
        raise ValueError(message) from None
    if viewed.itemsize != 1:
        message = f"{name} has items of {viewed.itemsize} bytes; they must have 1"
        raise TypeError(message)
    if not viewed.c_contiguous:
        message = f"{name} is not contiguous in memory"
        raise BufferError(message)
    return viewed


def read(name: str, value: "Buffer", limit: int | None = None) -> bytes:
    """A bytes-like argument as bytes. Raises ValueError, before it copies, where it is longer than the limit."""
    if type(value) is bytes:
        return value
    viewed = view(name, value)
    if limit is not None and viewed.nbytes > limit:
        message = f"{name} is {viewed.nbytes} bytes; it may have at most {limit}"
        raise ValueError(message)
    return viewed.tobytes()


def writable(name: str, value: "Buffer") -> memoryview:
    """A view of an output's bytes."""
    viewed = view(name, value)
    if viewed.readonly:
        message = f"{name} is read-only ({type(value).__name__}); it must be writable"
        raise BufferError(message)
    return viewed.cast("B")


def integer(name: str, value: int, lowest: int, highest: int) -> int:
    """An integer argument within its range."""
    try:
        number = operator.index(value)
    except TypeError:
        message = f"{name} must be an integer, not {type(value).__name__}"
        raise TypeError(message) from None
    if not lowest <= number <= highest:
        message = f"{name} is {number}; it must be from {lowest} to {highest}"
        raise ValueError(message)
    return number


def once(made: object, attribute: str) -> None:
    """Refuse a second ``__init__``: it would start a counter again, or free what C still reads."""
    if hasattr(made, attribute):
        message = f"a {type(made).__name__} is made once; make another one"
        raise TypeError(message)


def key_pointer(key: "Buffer | Sequence[int]") -> Any:
    """A key for C to copy: 32 bytes, or a list of 32 integers. No error tells any of it."""
    if isinstance(key, (list, tuple)):
        key = tuple(key)  # a copy that stays as it is, whatever the list does meanwhile
        if len(key) != KEY_LEN:
            message = f"key has {len(key)} integers; it must have {KEY_LEN}"
            raise ValueError(message)
        for index, value in enumerate(key):
            if type(value) is not int or not 0 <= value <= 255:
                message = f"key[{index}] is not an integer from 0 to 255"
                raise ValueError(message)
        native = new_key()
        native[0:KEY_LEN] = key
        return native
    viewed = view("key", key)  # type: ignore[arg-type]
    if viewed.nbytes != KEY_LEN:
        message = f"key is {viewed.nbytes} bytes; it must be {KEY_LEN}"
        raise ValueError(message)
    return ffi.from_buffer("uint8_t[]", viewed)


def new_key() -> Any:
    """Room for a key in C, which is wiped when it is collected."""
    return ffi.gc(ffi.new(f"uint8_t[{KEY_LEN}]"), lib.dv_python_wipe_key)


def burst(packets: "Iterable[Buffer]") -> "tuple[Buffer, ...]":
    """The packets of a burst, as the C layer takes them."""
    if type(packets) is list:
        return tuple(packets)
    if isinstance(packets, (bytes, bytearray, memoryview, str)) or not hasattr(packets, "__iter__"):
        message = f"packets must be a sequence of packets, not {type(packets).__name__}"
        raise TypeError(message)
    return tuple(packets)


def check_burst(items: "tuple[Buffer, ...]") -> int:
    """Raise TypeError or BufferError that names the packet which is not contiguous bytes; else the bytes of all."""
    return sum(view(f"packets[{index}]", item).nbytes for index, item in enumerate(items))


def numbers(sizes: bytes) -> "memoryview[int]":
    """C's size_t, as integers."""
    return memoryview(sizes).cast("P")  # as wide as size_t, for which there is no format that type checkers know


def last(sizes: bytes) -> int:
    """The last of C's size_t; 0 where there is none."""
    return int.from_bytes(sizes[-SIZE_LEN:], sys.byteorder)
