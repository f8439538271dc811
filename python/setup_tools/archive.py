"""Reading members out of a wheel without trusting their names, and writing a wheel from files on
disk. The writer compresses on all processors: a wheel of this tree holds two very large members,
and compressing them one after the other would take most of the time of `pip install .`."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .errors import SetupError

# Size of the pieces that are compressed independently, in bytes. Each piece starts with the 32 KiB
# before it as its dictionary, so the cost in size of the cut is a few bytes per piece.
_PIECE = 1 << 20
_WINDOW = 1 << 15
_LEVEL = 9


def check_member_name(name: str) -> str:
    """Return ``name`` if it can be created below a directory without leaving it.

    Raises:
        SetupError: The name is absolute, climbs with ``..``, is not normalized or holds
            characters that no wheel of ours or of the base has.
    """
    path = PurePosixPath(name)
    if (
        not name
        or path.is_absolute()
        or str(path) != name
        or ".." in path.parts
        or "\\" in name
        or ":" in name
        or any(ord(character) < 32 for character in name)
    ):
        raise SetupError(
            "An archive or its RECORD names a file outside of the tree.",
            expected="a relative, normalized path with forward slashes",
            found=repr(name),
            to_do="do not use that archive: it was damaged or made to do harm",
        )
    return name


def extract_member(archive: zipfile.ZipFile, name: str, root: Path) -> Path:
    """Write the member ``name`` below ``root`` with its permissions and return the file's path.

    Only a plain file is accepted: a link in an archive could point outside of ``root``.
    """
    check_member_name(name)
    info = archive.getinfo(name)
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise SetupError(
            "An archive holds something that is not a plain file.",
            expected="plain files only",
            found=f"{name} with mode {oct(mode)}",
            to_do="do not use that archive: it was damaged or made to do harm",
        )
    target = root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(info) as source, target.open("xb") as sink:
        while block := source.read(_PIECE):
            sink.write(block)
    target.chmod(0o755 if mode & 0o111 else 0o644)
    return target


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the file at ``path`` in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_PIECE):
            digest.update(block)
    return digest.hexdigest()


def record_hash(hex_digest: str) -> str:
    """Return a SHA-256 in the form a RECORD file has it, from its hexadecimal form."""
    encoded = base64.urlsafe_b64encode(bytes.fromhex(hex_digest)).rstrip(b"=")
    return f"sha256={encoded.decode('ascii')}"


@dataclass
class _Member:
    """What the archive's directory says about one member."""

    name: bytes
    checksum: int
    size: int
    compressed_size: int
    mode: int
    offset: int


def _deflate_piece(data: bytes, before: bytes, last: bool) -> bytes:
    compressor = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, before
    )
    return compressor.compress(data) + compressor.flush(
        zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH
    )


def _pieces(data: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Cut ``data`` into (piece, the window before it, whether it is the last)."""
    for start in range(0, max(len(data), 1), _PIECE):
        end = start + _PIECE
        yield data[start:end], data[max(0, start - _WINDOW) : start], end >= len(data)


class WheelWriter:
    """Writes one wheel; to be used as a context manager.

    The file appears under its name only when the writer is left without an exception, complete
    and with its RECORD; until then it has a name that ends in ``.partial``.

    Args:
        path: The wheel to write, replaced if it is there.
        dist_info: Name of the wheel's ``.dist-info`` directory.
        workers: How many threads compress (zlib gives up the interpreter lock).
    """

    def __init__(self, path: Path, dist_info: str, workers: int | None = None) -> None:
        self.path = path
        self._partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        self._record_name = f"{dist_info}/RECORD"
        self._record: list[str] = []
        self._members: list[_Member] = []
        # MS-DOS time of every member; a wheel's bytes depend on nothing but its contents.
        epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800)
        moment = time.gmtime(epoch)
        self._date = (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday
        self._time = moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2
        self._pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))

    def __enter__(self) -> WheelWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._partial.open("wb")
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        try:
            if kind is None:
                record = "".join(f"{line}\n" for line in [*self._record, f"{self._record_name},,"])
                self._add(self._record_name, record.encode("utf-8"), 0o644)
                self._write_directory()
        finally:
            self._pool.shutdown()
            self._file.close()
            if kind is None:
                os.replace(self._partial, self.path)
            else:
                self._partial.unlink(missing_ok=True)

    def add_bytes(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file ``name`` with the given contents and permissions."""
        self._add(name, data, mode)
        digest = record_hash(hashlib.sha256(data).hexdigest())
        self._record.append(f"{_quoted(name)},{digest},{len(data)}")

    def add_files(self, files: Mapping[str, Path]) -> None:
        """Add the files of a mapping from name in the archive to path on disk, sorted by name."""
        for name, path in sorted(files.items()):
            executable = path.stat().st_mode & 0o111
            self.add_bytes(name, path.read_bytes(), 0o755 if executable else 0o644)

    def _add(self, name: str, data: bytes, mode: int) -> None:
        check_member_name(name)
        encoded = name.encode("utf-8")
        if any(member.name == encoded for member in self._members):
            raise SetupError(
                "A file would be in the wheel twice.",
                expected="each name once",
                found=name,
                to_do="remove one of the two from the sources",
            )
        compressed: Iterable[bytes] = self._pool.map(
            lambda piece: _deflate_piece(*piece), _pieces(data)
        )
        body = b"".join(compressed)
        member = _Member(encoded, zlib.crc32(data), len(data), len(body), mode, self._file.tell())
        self._members.append(member)
        self._file.write(b"PK\x03\x04" + self._fields(member) + encoded + body)

    def _fields(self, member: _Member) -> bytes:
        """Return the fields that a member's own header and its directory entry share."""
        return struct.pack(
            "<HHHHHLLLHH",
            20,  # version that can extract it: 2.0, deflate
            0x800,  # the name is UTF-8
            zipfile.ZIP_DEFLATED,
            self._time,
            self._date,
            member.checksum,
            member.compressed_size,
            member.size,
            len(member.name),
            0,  # no extra fields
        )

    def _write_directory(self) -> None:
        start = self._file.tell()
        for member in self._members:
            self._file.write(
                b"PK\x01\x02"
                + struct.pack("<H", 3 << 8 | 20)  # made by: Unix, zip 2.0
                + self._fields(member)
                + struct.pack("<HHHLL", 0, 0, 0, (stat.S_IFREG | member.mode) << 16, member.offset)
                + member.name
            )
        size = self._file.tell() - start
        count = len(self._members)
        if self._file.tell() >= 1 << 32 or count >= 1 << 16:
            raise SetupError(
                "The wheel is too large for the archive format that is written here.",
                expected="less than 4 GiB and 65536 files",
                found=f"{self._file.tell()} bytes and {count} files",
            )
        self._file.write(
            b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, count, count, size, start, 0)
        )


def _quoted(name: str) -> str:
    """Return ``name`` as one field of a comma-separated file."""
    if any(character in name for character in ',"\n'):
        return '"' + name.replace('"', '""') + '"'
    return name
