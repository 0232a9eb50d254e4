"""The stand-ins for code that seals by itself are the originals, byte for byte and error for error."""

import array
import copy
import ctypes
import json
import os
import pickle
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cryptography
import pytest

pytest.importorskip("nacl", reason="PyNaCl is what is stood in for")

import nacl.encoding
import nacl.exceptions
import nacl.secret
import nacl.utils
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import aead as original_aead
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import python
from test_vectors import Case, nist, of_hex, wycheproof

from dvcrypto._library import LONG_WORK_LEN
from dvcrypto.dropin import aesgcm
from dvcrypto.dropin import nacl as standin
from dvcrypto.dropin.aesgcm import AESGCM
from dvcrypto.dropin.nacl import Aead

Original = original_aead.AESGCM
KEY = bytes(range(32))
NONCES = {12: bytes(range(12)), 24: bytes(range(24))}
NEWEST = int(cryptography.__version__.split(".")[0]) >= 50
"""Of an older ``cryptography`` only the exceptions' types are the same."""

INTO = pytest.mark.skipif(not hasattr(Original, "encrypt_into"), reason="this cryptography has no encrypt_into")


def outcome(work: Callable[[], Any], messages: bool = True) -> tuple[Any, ...]:
    """What a call gives: the type and value, or the type of the exception and its message."""
    try:
        value = work()
    except Exception as error:
        return (type(error), str(error)) if messages else (type(error),)
    return type(value), value


def some_bytes(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def flips(data: bytes) -> list[bytes]:
    """The same with one bit changed, for every bit."""
    number = int.from_bytes(data, "big")
    return [(number ^ 1 << bit).to_bytes(len(data), "big") for bit in range(8 * len(data))]


# AES-GCM


def same_gcm(work: Callable[[Any], Any], key: Any = KEY) -> tuple[Any, ...]:
    """The outcome of work with a stand-in, when it is that with an original."""
    got = outcome(lambda: work(AESGCM(key)), NEWEST)
    assert got == outcome(lambda: work(Original(key)), NEWEST)
    return got


@given(
    seed=st.integers(0, 2**32),
    key_len=st.sampled_from([16, 24, 32]),
    length=st.integers(0, 70_000),
    aad_len=st.integers(0, 300) | st.none(),
    nonce_len=st.just(12) | st.integers(8, 128),
)
@settings(max_examples=300, deadline=None)
def test_aesgcm_gives_the_same_bytes_and_opens_the_original_s(
    seed: int, key_len: int, length: int, aad_len: int | None, nonce_len: int
) -> None:
    key, nonce, data = some_bytes(seed, key_len), some_bytes(seed + 1, nonce_len), some_bytes(seed + 2, length)
    aad = None if aad_len is None else some_bytes(seed + 3, aad_len)
    sealed = Original(key).encrypt(nonce, data, aad)
    assert AESGCM(key).encrypt(nonce, data, aad) == sealed
    assert AESGCM(key).decrypt(nonce, sealed, aad) == data
    assert AESGCM(key).decrypt(bytearray(nonce), memoryview(sealed), aad) == data


@pytest.mark.parametrize("length", [0, 1, 7, 8, 11, 12, 13, 128, 129, 1000])
def test_aesgcm_refuses_the_nonce_lengths_that_the_original_does(length: int) -> None:
    kind, *_ = same_gcm(lambda aead: aead.encrypt(bytes(length), b"payload", None))
    assert kind is (bytes if 8 <= length <= 128 else ValueError)
    same_gcm(lambda aead: aead.decrypt(bytes(length), b"payload", None))


def test_one_aesgcm_takes_nonces_of_all_lengths_in_turn() -> None:
    ours, original = AESGCM(KEY), Original(KEY)
    for length in [*range(8, 129), *range(128, 7, -1), 12, 13, 12, 8]:
        nonce = some_bytes(length, length)
        sealed = original.encrypt(nonce, b"payload", b"header")
        assert ours.encrypt(nonce, b"payload", b"header") == sealed
        assert ours.decrypt(nonce, sealed, b"header") == b"payload"


class Subclass(bytes):
    """Of bytes."""


def given_as(data: bytes) -> dict[str, Any]:
    """The same bytes in all that is bytes-like, and in what is not."""
    as_array = array.array("B", data)
    padded = bytearray(byte for byte in data for _ in range(2))
    return {
        "bytes": data,
        "subclass": Subclass(data),
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "slice": memoryview(b"12" + data + b"34")[2:-2],
        "chars": memoryview(data).cast("c"),
        "native": memoryview(data).cast("@B"),
        "rows": memoryview(data).cast("B", (len(data) // 4, 4)),
        "array": as_array,
        "ctypes": (ctypes.c_ubyte * len(data)).from_buffer_copy(data),
        "ctypes chars": (ctypes.c_char * len(data)).from_buffer_copy(data),
        "signed array": array.array("b", data),
        "signed ctypes": (ctypes.c_byte * len(data)).from_buffer_copy(data),
        "wide array": array.array("H", data),
        "bools": memoryview(data).cast("?"),
        "words": memoryview(data).cast("I"),
        "every second": memoryview(padded)[::2],
        "backwards": memoryview(data[::-1])[::-1],
        "str": data.decode("latin-1"),
        "None": None,
        "int": 5,
        "list": list(data),
        "empty": b"",
        "one less": data[:-1],
        "one more": data + b"1",
        "seven": bytes(7),
        "long": bytes(129),
    }


GIVEN = list(given_as(bytes(12)))


def writable_as(length: int) -> dict[str, Any]:
    return {
        "bytearray": bytearray(length),
        "memoryview": memoryview(bytearray(length)),
        "array": array.array("B", bytes(length)),
        "ctypes": (ctypes.c_ubyte * length)(),
        "signed array": array.array("b", bytes(length)),
        "one more": bytearray(length + 1),
        "one less": bytearray(max(length - 1, 0)),
        "empty": bytearray(),
        "bytes": bytes(length),
        "read-only": memoryview(bytes(length)),
        "every second": memoryview(bytearray(2 * length))[::2],
        "str": "x" * length,
        "None": None,
        "int": 5,
    }


@pytest.mark.skipif(not NEWEST, reason="what is bytes-like differs in an older cryptography")
@pytest.mark.parametrize("form", GIVEN)
def test_aesgcm_takes_and_refuses_what_the_original_does(form: str) -> None:
    """Each argument alone, and together with another that is wrong: the first fault is told."""
    aad, sealed = bytes(range(20)), Original(KEY).encrypt(NONCES[12], b"payload!", bytes(range(20)))
    wrong: list[Any] = [bytes(3), "x", None]
    same_gcm(lambda aead: aead.encrypt(given_as(NONCES[12])[form], b"payload", aad))
    same_gcm(lambda aead: aead.encrypt(NONCES[12], given_as(b"payload!")[form], aad))
    same_gcm(lambda aead: aead.encrypt(NONCES[12], b"payload", given_as(aad)[form]))
    same_gcm(lambda aead: aead.decrypt(given_as(NONCES[12])[form], sealed, aad))
    same_gcm(lambda aead: aead.decrypt(NONCES[12], given_as(sealed)[form], aad))
    same_gcm(lambda aead: aead.decrypt(NONCES[12], sealed, given_as(aad)[form]))
    for other in wrong:
        for method in ("encrypt", "decrypt"):
            same_gcm(lambda aead, m=method, o=other: getattr(aead, m)(given_as(NONCES[12])[form], o, aad))
            same_gcm(lambda aead, m=method, o=other: getattr(aead, m)(o, given_as(sealed)[form], aad))
            same_gcm(lambda aead, m=method, o=other: getattr(aead, m)(NONCES[12], o, given_as(aad)[form]))


@pytest.mark.skipif(not NEWEST, reason="what is bytes-like differs in an older cryptography")
@pytest.mark.parametrize("form", GIVEN)
def test_an_aesgcm_key_is_what_the_original_takes(form: str) -> None:
    for key_len in (12, 16, 24, 32, 64):
        key = given_as(some_bytes(key_len, key_len))[form]
        same_gcm(lambda aead: aead.encrypt(NONCES[12], b"payload", None), key)


@INTO
@pytest.mark.skipif(not NEWEST, reason="what is bytes-like differs in an older cryptography")
@pytest.mark.parametrize("form", list(writable_as(8)))
def test_aesgcm_writes_into_what_the_original_does(form: str) -> None:
    sealed = Original(KEY).encrypt(NONCES[12], b"payload!", b"header")

    def into(method: str, nonce: Any, data: Any, length: int) -> Callable[[Any], Any]:
        def work(aead: Any) -> Any:
            target = writable_as(length)[form]
            return getattr(aead, method)(nonce, data, b"header", target), bytes(target)

        return work

    for nonce in (NONCES[12], bytes(16), bytes(3), "x"):
        same_gcm(into("encrypt_into", nonce, b"payload!", 24))
        same_gcm(into("encrypt_into", nonce, bytearray(b"payload!"), 24))
        same_gcm(into("decrypt_into", nonce, bytes(15), 8))
    same_gcm(into("decrypt_into", NONCES[12], sealed, 8))
    same_gcm(into("decrypt_into", NONCES[12], memoryview(sealed), 8))


def test_aesgcm_arguments_have_the_original_s_names() -> None:
    sealed = AESGCM(key=KEY).encrypt(nonce=NONCES[12], data=b"payload", associated_data=None)
    assert AESGCM(KEY).decrypt(associated_data=None, data=sealed, nonce=NONCES[12]) == b"payload"
    out = bytearray(23)
    assert AESGCM(KEY).encrypt_into(nonce=NONCES[12], data=b"payload", associated_data=b"", buf=out) == 23
    assert out == sealed
    assert AESGCM(KEY).decrypt_into(nonce=NONCES[12], data=sealed, associated_data=b"", buf=memoryview(out)[:7]) == 7
    assert out[:7] == b"payload"
    for missing in ((), (NONCES[12],), (NONCES[12], b"")):
        assert outcome(lambda given=missing: AESGCM(KEY).encrypt(*given))[0] is TypeError


@pytest.mark.parametrize("bits", [128, 192, 256, 0, 64, 512, True, -1, 2**40, 2**70, "256", None, 256.0])
def test_generate_key_is_the_original_s(bits: Any) -> None:
    got = outcome(lambda: len(AESGCM.generate_key(bits)), NEWEST)
    assert got == outcome(lambda: len(Original.generate_key(bits)), NEWEST)
    if got[0] is int:
        assert AESGCM.generate_key(bits) != AESGCM.generate_key(bits)


@pytest.mark.parametrize(("key_len", "nonce_len"), [(32, 12), (32, 16), (16, 12), (24, 8)])
def test_aesgcm_refuses_every_flipped_bit_and_releases_nothing(key_len: int, nonce_len: int) -> None:
    key, nonce, aad, plain = KEY[:key_len], some_bytes(1, nonce_len), b"header", b"payload of a packet"
    aead = AESGCM(key)
    sealed = aead.encrypt(nonce, plain, aad)
    changed = [
        *((nonce, each, aad) for each in flips(sealed)),
        *((nonce, sealed, each) for each in flips(aad)),
        *((each, sealed, aad) for each in flips(nonce)),
        *((nonce, sealed[:length], aad) for length in range(len(sealed))),
    ]
    for arguments in changed:
        assert outcome(lambda given=arguments: aead.decrypt(*given)) == (InvalidTag, "")
        out = bytearray(b"\x55" * max(len(arguments[1]) - 16, 0))
        with pytest.raises(InvalidTag):
            aead.decrypt_into(*arguments, out)
        assert out == bytes(len(out))
        mutable = bytearray(b"\x55" * max(len(arguments[1]) - 16, 0))
        with pytest.raises(InvalidTag):
            aead.decrypt_into(arguments[0], bytearray(arguments[1]), arguments[2], mutable)
        assert mutable == bytes(len(mutable))
    assert aead.decrypt(nonce, sealed, aad) == plain


@pytest.mark.parametrize("shift", range(-30, 31))
def test_arguments_may_lie_anywhere_in_the_output(shift: int) -> None:
    """What may change during a call is copied before it: nothing else opens what its own output overwrites."""
    plain = b"payload of a packet"
    sealed = Original(KEY).encrypt(NONCES[12], plain, plain)
    for method, data, length in (("encrypt_into", plain, len(sealed)), ("decrypt_into", sealed, len(plain))):
        memory = memoryview(bytearray(120))
        moved, out = memory[40 + shift :][: len(data)], memory[40 : 40 + length]
        moved[:] = data
        aad = moved if method == "encrypt_into" else plain
        assert getattr(AESGCM(KEY), method)(NONCES[12], moved, aad, out) == length
        assert out == (sealed if method == "encrypt_into" else plain)


def test_more_than_an_int_holds_is_refused_as_by_the_original() -> None:
    try:
        long = bytes(2**31)
    except MemoryError:
        pytest.skip("no room for 2 GiB")
    refusal = (OverflowError, "Data or associated data too long. Max 2**31 - 1 bytes")
    sealed = AESGCM(KEY).encrypt(NONCES[12], b"", None)
    assert same_gcm(lambda aead: aead.encrypt(NONCES[12], long, None))[0] is OverflowError
    assert same_gcm(lambda aead: aead.encrypt(NONCES[12], b"", long))[0] is OverflowError
    assert same_gcm(lambda aead: aead.encrypt(b"short", long, None))[0] is OverflowError
    assert same_gcm(lambda aead: aead.encrypt(b"short", b"", long))[0] is ValueError
    assert same_gcm(lambda aead: aead.decrypt(NONCES[12], sealed, long))[0] is OverflowError
    assert same_gcm(lambda aead: aead.decrypt(b"short", sealed, long))[0] is ValueError
    assert same_gcm(lambda aead: aead.decrypt(NONCES[12], b"short", long))[0] is InvalidTag
    assert outcome(lambda: AESGCM(KEY).decrypt(NONCES[12], bytes(2**31 + 16), None)) == refusal


# XChaCha20-Poly1305

HEX = nacl.encoding.HexEncoder
ENCODERS = (nacl.encoding.RawEncoder, HEX, nacl.encoding.Base64Encoder)


def same_box(work: Callable[[Any], Any], *key: Any) -> tuple[Any, ...]:
    """The outcome of work with a stand-in, when it is that with an original."""
    got = outcome(lambda: work(Aead(*key or (KEY,))))
    assert got == outcome(lambda: work(nacl.secret.Aead(*key or (KEY,))))
    return got


@given(
    seed=st.integers(0, 2**32),
    length=st.integers(0, 70_000),
    aad_len=st.integers(0, 300) | st.none(),
    nonce_len=st.just(24) | st.integers(0, 40),
    encoder=st.sampled_from(ENCODERS),
)
@settings(max_examples=300, deadline=None)
def test_aead_gives_the_same_bytes_and_opens_the_original_s(
    seed: int, length: int, aad_len: int | None, nonce_len: int, encoder: Any
) -> None:
    key, nonce, data = some_bytes(seed, 32), some_bytes(seed + 1, nonce_len), some_bytes(seed + 2, length)
    aad = None if aad_len is None else some_bytes(seed + 3, aad_len)
    kind, sealed = same_box(lambda box: box.encrypt(data, aad, nonce, encoder), key)
    if kind is not nacl.utils.EncryptedMessage:
        assert nonce_len != 24
        return
    original = nacl.secret.Aead(key).encrypt(data, aad, nonce, encoder)
    assert (sealed.nonce, sealed.ciphertext) == (original.nonce, original.ciphertext)
    assert same_box(lambda box: box.decrypt(original, aad, encoder=encoder), key) == (bytes, data)
    assert same_box(lambda box: box.decrypt(original.ciphertext, aad, nonce, encoder), key) == (bytes, data)


@pytest.mark.parametrize("form", GIVEN)
def test_aead_takes_and_refuses_what_the_original_does(form: str) -> None:
    """Each argument alone, and together with another that is wrong: the first fault is told."""
    aad, nonce = bytes(range(20)), NONCES[24]
    sealed = nacl.secret.Aead(KEY).encrypt(b"payload!", aad, nonce)
    for data in (b"payload!", "x", None):
        same_box(lambda box, data=data: box.encrypt(data, given_as(aad)[form], nonce))
        if form != "None":  # a random nonce
            same_box(lambda box, data=data: box.encrypt(data, aad, given_as(nonce)[form]))
            same_box(lambda box, data=data: box.encrypt(data, 5, given_as(nonce)[form]))
    same_box(lambda box: box.encrypt(given_as(b"payload!")[form], aad, nonce))
    same_box(lambda box: box.encrypt(given_as(b"payload!")[form], 5, bytes(3)))
    for data in (sealed.ciphertext, sealed, b"short", bytes(24), bytes(39), "x", None):
        same_box(lambda box, data=data: box.decrypt(data, given_as(aad)[form], nonce))
        same_box(lambda box, data=data: box.decrypt(data, given_as(aad)[form]))
        same_box(lambda box, data=data: box.decrypt(data, aad, given_as(nonce)[form]))
    same_box(lambda box: box.decrypt(given_as(sealed)[form], aad))
    same_box(lambda box: box.decrypt(given_as(sealed.ciphertext)[form], aad, nonce))
    for data in (given_as(KEY)[form], given_as(bytes(24))[form]):
        same_box(bytes, data)
        same_box(bytes, data, HEX)


@pytest.mark.parametrize("encoder", [*ENCODERS, None, 5])
def test_aead_encodes_as_the_original_does(encoder: Any) -> None:
    encoded = b"!" if encoder in (None, 5) else encoder.encode(KEY)
    same_box(bytes, encoded, encoder)
    same_box(lambda box: box.encode(encoder))
    same_box(lambda box: box.encrypt(b"payload", nonce=NONCES[24], encoder=encoder))
    same_box(lambda box: box.decrypt(b"zz", encoder=encoder))
    same_box(lambda box: box.encode())


def test_aead_has_the_original_s_attributes() -> None:
    for name in ("KEY_SIZE", "NONCE_SIZE", "MACBYTES", "MESSAGEBYTES_MAX"):
        assert getattr(Aead, name) == getattr(nacl.secret.Aead, name)
    assert standin.exceptions is nacl.exceptions
    assert standin.EncryptedMessage is nacl.utils.EncryptedMessage
    assert standin.RawEncoder is nacl.encoding.RawEncoder
    assert aesgcm.InvalidTag is InvalidTag


def test_a_nonce_that_is_left_out_is_random() -> None:
    box = Aead(KEY)
    sealed = [box.encrypt(b"payload") for _ in range(100)]
    assert len({each.nonce for each in sealed}) == 100
    assert {nacl.secret.Aead(KEY).decrypt(each) for each in sealed} == {b"payload"}


def test_aead_refuses_every_flipped_bit() -> None:
    box, nonce, aad = Aead(KEY), NONCES[24], b"header"
    sealed = box.encrypt(b"payload of a packet", aad, nonce)
    refusal = (nacl.exceptions.CryptoError, "Decryption failed.")
    for each in flips(sealed):  # the nonce's too
        assert outcome(lambda each=each: box.decrypt(each, aad)) == refusal
    for each in flips(aad):
        assert outcome(lambda each=each: box.decrypt(sealed, each)) == refusal
    assert box.decrypt(sealed, aad) == b"payload of a packet"


# Both


def seal_with_aesgcm(case: Case) -> tuple[bytes, Any]:
    aead = AESGCM(case.key)
    sealed = aead.encrypt(case.nonce, case.plain or b"", case.aad)
    opened = outcome(lambda: aead.decrypt(case.nonce, case.sealed, case.aad))
    return sealed, opened[1] if opened[0] is bytes else opened[0]


def seal_with_aead(case: Case) -> tuple[bytes, Any]:
    box = Aead(case.key)
    sealed = box.encrypt(case.plain or b"", case.aad, case.nonce).ciphertext
    opened = outcome(lambda: box.decrypt(case.sealed, case.aad, case.nonce))
    return sealed, opened[1] if opened[0] is bytes else opened[0]


def check(cases: list[Case], work: Callable[[Case], tuple[bytes, Any]], refusal: type[Exception]) -> None:
    for case in cases:
        sealed, opened = work(case)
        if case.valid:
            assert (sealed, opened) == (case.sealed, case.plain), case.name
        else:
            assert opened is refusal, case.name


def test_wycheproof_and_nist_through_aesgcm(vectors: Path) -> None:
    path = vectors / "wycheproof" / "aes_gcm_test.json"
    groups = json.loads(path.read_text(encoding="utf-8"))["testGroups"]
    sizes = sorted({(group["ivSize"], group["keySize"]) for group in groups})
    cases = [case for size in sizes for case in wycheproof(path, *size)]
    served = [case for case in cases if 8 <= len(case.nonce) <= 128]
    assert (len(cases), len(served)) == (316, 283)
    assert {len(case.key) for case in served} == {16, 24, 32}
    check(served, seal_with_aesgcm, InvalidTag)
    for case in set(cases) - set(served):
        assert outcome(lambda case=case: seal_with_aesgcm(case))[0] is ValueError
    for name in ("gcmEncryptExtIV256_iv96_tag128.json", "gcmDecrypt256_iv96_tag128.json"):
        check(nist(vectors / "nist" / name), seal_with_aesgcm, InvalidTag)


def test_wycheproof_and_the_draft_through_aead(vectors: Path) -> None:
    path = vectors / "wycheproof" / "xchacha20_poly1305_test.json"
    cases = wycheproof(path, 192)
    assert len(cases) == 306
    check(cases, seal_with_aead, nacl.exceptions.CryptoError)
    known = json.loads((vectors / "xchacha" / "xchacha_vectors.json").read_text(encoding="utf-8"))
    for test in known["draft"]["aead"] + known["libsodium"]["aead"]:
        fields = (of_hex(test[field]) for field in ("key", "iv", "aad", "msg"))
        check([Case("", *fields, of_hex(test["ct"] + test["tag"]), valid=True)], seal_with_aead, ValueError)


@pytest.mark.parametrize("made", [AESGCM(KEY), Aead(KEY)], ids=["AESGCM", "Aead"])
def test_a_key_is_in_no_repr_copy_or_pickle(made: Any) -> None:
    for told in (repr(made), str(made), f"{made}"):
        assert str(KEY) not in told
        assert KEY.hex() not in told
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle"):
            copied(made)


def gcm_round(data: bytes, nonce_len: int) -> Callable[[Any], Any]:
    nonce = some_bytes(1, nonce_len)
    return lambda aead: (sealed := aead.encrypt(nonce, data, b"header"), aead.decrypt(nonce, sealed, b"header"))


def box_round(data: bytes, _: int) -> Callable[[Any], Any]:
    return lambda box: (sealed := box.encrypt(data, b"header", NONCES[24]), box.decrypt(sealed, b"header"))


@pytest.mark.parametrize(
    ("ours", "original", "work"),
    [(AESGCM, Original, gcm_round), (Aead, nacl.secret.Aead, box_round)],
    ids=["AESGCM", "Aead"],
)
def test_threads_share_one_object(ours: Any, original: Any, work: Any) -> None:
    """Short calls and long ones, which give up the GIL, and nonces of several lengths, all mixed."""
    rounds = [
        work(some_bytes(i, length), nonce_len)
        for i, (length, nonce_len) in enumerate([(0, 12), (200, 12), (5000, 16), (LONG_WORK_LEN, 12), (300_000, 40)])
    ]
    expected = [each(original(KEY)) for each in rounds]
    shared, wrong = ours(KEY), []

    def run(seed: int) -> None:
        chosen = random.Random(seed).choices(range(len(rounds)), k=120)
        wrong.extend(i for i in chosen if rounds[i](shared) != expected[i])

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_seals_and_opens_while_threads_of_the_parent_do() -> None:
    run = python(
        """
import os, threading
from dvcrypto.dropin.aesgcm import AESGCM
aead, data, stop = AESGCM(bytes(32)), bytes(300_000), threading.Event()
expected = AESGCM(bytes(32)).encrypt(bytes(12), data, None)
def work():
    while not stop.is_set():
        aead.encrypt(bytes(12), data, None)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        right = aead.encrypt(bytes(12), data, None) == expected and aead.decrypt(bytes(12), expected, None) == data
        os._exit(0 if right else 1)
    codes.append(os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
print(codes)
""",
        PYTHONWARNINGS="ignore",
    )
    assert (run.stdout, run.returncode) == (f"{[0] * 10}\n", 0), run.stderr


WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("nacl", "cryptography"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
"""


def test_both_work_where_the_originals_are_not_installed() -> None:
    run = python(
        WITHOUT
        + """
import builtins
from dvcrypto.dropin import aesgcm, nacl
box, key = nacl.Aead(bytes(32)), bytes(32)
sealed = box.encrypt(b"payload", b"header", bytes(24))
assert type(sealed) is nacl.EncryptedMessage and sealed == sealed.nonce + sealed.ciphertext
assert isinstance(sealed, bytes) and sealed.nonce == bytes(24)
assert box.decrypt(sealed, b"header") == b"payload" and bytes(box) == box.encode() == key
errors = nacl.exceptions
def raised(work, *arguments):
    try:
        work(*arguments)
    except Exception as error:
        return type(error)
assert raised(box.decrypt, bytes(50)) is errors.CryptoError
assert raised(box.encrypt, "x") is errors.TypeError
assert raised(box.encrypt, b"", b"", bytes(3)) is errors.ValueError
assert raised(nacl.Aead, bytes(31)) is errors.ValueError and raised(nacl.Aead, "x") is errors.TypeError
assert issubclass(errors.ValueError, (builtins.ValueError)) and issubclass(errors.ValueError, errors.CryptoError)
assert issubclass(errors.TypeError, (builtins.TypeError)) and issubclass(errors.TypeError, errors.CryptoError)
class Hex:
    encode = staticmethod(lambda data: data.hex().encode())
    decode = staticmethod(lambda data: bytes.fromhex(data.decode()))
assert nacl.Aead(key.hex().encode(), Hex).decrypt(box.encrypt(b"payload", encoder=Hex), encoder=Hex) == b"payload"
aead = aesgcm.AESGCM(key)
made = aead.encrypt(bytes(12), b"payload", None)
assert aead.decrypt(bytes(12), made, None) == b"payload"
assert raised(aead.decrypt, bytes(12), bytes(40), None) is aesgcm.InvalidTag
assert aesgcm.InvalidTag.__mro__[1] is Exception
assert not {"nacl", "cryptography"} & set(sys.modules)
print(sealed.hex(), made.hex())
"""
    )
    sealed = nacl.secret.Aead(bytes(32)).encrypt(b"payload", b"header", bytes(24)).hex()
    made = Original(bytes(32)).encrypt(bytes(12), b"payload", None).hex()
    assert (run.stdout, run.returncode) == (f"{sealed} {made}\n", 0), run.stderr


def test_importing_dvcrypto_imports_no_stand_in() -> None:
    run = python("import sys, dvcrypto; print({'nacl', 'cryptography', 'dvcrypto.dropin'} & set(sys.modules))")
    assert run.stdout == "set()\n", run.stderr
