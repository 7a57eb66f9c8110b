"""Packed models: a ZIP file with one checkpoint, the files that inference needs beside it, a card, and checksums.

``report/packing.py`` writes them. A packed model is as little trusted as a log directory.
"""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from open_seq2seq.checkpoints.folders import KEPT_FILES
from open_seq2seq.checkpoints.state import sha256
from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import NAMES_OF_COPIES
from open_seq2seq.utils.errors import CheckpointError, did_you_mean
from open_seq2seq.utils.shipped import TOY, TOY_MODELS

SUMS, CARD, LICENSE = "SHA256SUMS", "README.md", "LICENSE"
"""Names in a packed model: the list of checksums, as ``sha256sum`` writes it, the card and the licence."""
_NAME = rf"model\.ckpt-\d{{1,15}}/(?:assets/)?[^/\\\0\n]{{1,200}}|{KEPT_FILES}/[^/\\\0\n]{{1,200}}|{CARD}|{LICENSE}"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_NAME})\n")
_MOST_LIST_BYTES, _CHUNK = 1 << 20, 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)  # RuntimeError: it is encrypted


def unpacked(name: str) -> str:
    """Returns the folder of a log directory's name: a packed model is unpacked into a temporary folder.

    Args:
      name: a log directory, which is returned as it is; the file of a packed model; or the name of a toy model of this
        package, such as ``toy:reversal``.

    Raises:
      CheckpointError: the file is not a packed model, or is damaged; or there is no such toy model.
    """
    path = Path(name).expanduser()
    if name.startswith(TOY) and not path.exists():
        path = TOY_MODELS / f"{name.removeprefix(TOY)}.zip"
        if "/" in name or not path.is_file():
            known = [f"{TOY}{file.stem}" for file in sorted(TOY_MODELS.glob("*.zip"))]
            raise CheckpointError(f"There is no toy model {name!r}.{did_you_mean(name, known)} The toy models are "
                                  f"{', '.join(known) or 'missing in this copy of the package'}.")
    if not path.is_file():
        return name
    status = path.stat()
    folder = _unpack(path, status.st_size, status.st_mtime_ns)
    NAMES_OF_COPIES[folder] = str(path)
    return folder


@functools.lru_cache(maxsize=64)
def _unpack(path: Path, size: int, mtime_ns: int) -> str:
    """Unpacks a file, unless this process has already unpacked it as it is; returns the folder."""
    folder = Path(tempfile.mkdtemp(dir=disk.process_folder()), path.stem)
    try:
        with zipfile.ZipFile(path) as archive:
            sums = _sums(archive, path)
            needed = sum(archive.getinfo(name).file_size for name in sums)
            if needed > (free := shutil.disk_usage(folder.parent).free):
                raise CheckpointError(f"The packed model {path} needs {needed:,} bytes of temporary space, but "
                                      f"{folder.parent} has {free:,}: free space, or set TMPDIR to another folder.")
            for name, checksum in sums.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as packed, open(folder / name, "xb") as file:
                    shutil.copyfileobj(packed, file, _CHUNK)
                if sha256(folder / name) != checksum:
                    raise CheckpointError(f"The packed model {path} is damaged: {name} does not have its checksum. "
                                          "Copy the file again.")
    except _DAMAGED as error:
        raise CheckpointError(f"{path} is neither a log directory nor an intact packed model ({error}): give the "
                              "folder of a run, or copy the file again.") from error
    except OSError as error:
        raise CheckpointError(f"The packed model {path} cannot be unpacked to {folder} ({error.strerror}).") from error
    return str(folder)


def _sums(archive: zipfile.ZipFile, path: Path) -> dict[str, str]:
    """Returns the checksum of every file by name, which only a name of a packed model is."""
    names = sorted(archive.namelist())
    if SUMS not in names or archive.getinfo(SUMS).file_size > _MOST_LIST_BYTES:
        raise CheckpointError(f"{path} is not a packed model, because it has no list {SUMS}: give a file that "
                              "`open_seq2seq pack` has written.")
    text = archive.read(SUMS).decode("utf-8")
    sums = {name: checksum for checksum, name in _LINE.findall(text)}
    if text != sums_text(sums) or any(part in ("", ".", "..") for name in sums for part in name.split("/")):
        raise CheckpointError(f"{path} is not a packed model, because its list {SUMS} has other lines than those of "
                              "files of a model: give a file that `open_seq2seq pack` has written.")
    if names != sorted([*sums, SUMS]):
        raise CheckpointError(f"The packed model {path} has other files than its list {SUMS}: nothing of it is used.")
    return sums


def sums_text(sums: dict[str, str]) -> str:
    """Returns the list of checksums, as ``sha256sum`` writes it."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in sums.items())
