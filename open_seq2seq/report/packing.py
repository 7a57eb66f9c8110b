"""Packs a trained model into one file, which can be used in place of the log directory."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.checkpoints import Snapshot, write_snapshot
from open_seq2seq.checkpoints.choosing import for_inference
from open_seq2seq.checkpoints.folders import KEPT_FILES, checkpoint_folder, regular_name
from open_seq2seq.checkpoints.packed import CARD, LICENSE, SUMS, sums_text
from open_seq2seq.checkpoints.state import AVERAGE, sha256
from open_seq2seq.report.content import read_content
from open_seq2seq.report.page import explaining, model_card
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print

# What only the continuation of a run needs; without it, the error of such an attempt says what to do instead.
_OF_TRAINING = ("micro_batch", "data", "divergence")
_TIME = (1980, 1, 1, 0, 0, 0)  # of all files, so that the same model gives the same bytes


def pack(logdir: Path, target: Path, license: str = "", languages: Sequence[str] = (),
         datasets: Sequence[str] = ()) -> Path:
    """Writes the checkpoint that inference would use, without what only training needs, to a file; returns its path.

    The file also has the copies that the logdir keeps of files that inference needs, a model card, the logdir's
    ``LICENSE``, if there is one, and checksums of everything.

    Args:
      logdir: the log directory.
      target: the file; an earlier packed model is replaced.
      license, languages, datasets: see ``model_card``.

    Raises:
      UserError: there is no usable checkpoint, or the file cannot be written.
    """
    content = read_content(logdir)
    folder = checkpoint_folder(logdir)
    checkpoint = for_inference(folder, content.params_of_inference)
    content.state = checkpoint.state
    place = Path(tempfile.mkdtemp(dir=disk.process_folder()))
    name = regular_name(checkpoint.state.get("step", 0))
    averages = {name: value for name, value in checkpoint.optimizer.items() if name.startswith(AVERAGE)}
    state = {name: value for name, value in checkpoint.state.items() if name not in _OF_TRAINING}
    assets: dict[str, bytes | str] = {name: str(path) for name, path in checkpoint.assets.items()}
    write_snapshot(Snapshot(checkpoint.weights, averages, state, checkpoint.config_yaml, assets), place / name)
    files = {f"{path.relative_to(place)}": path for path in sorted(place.rglob("*")) if path.is_file()}
    kept = sorted((folder / KEPT_FILES).glob("*infer.*"))
    files |= {f"{KEPT_FILES}/{path.name}": path for path in kept if path.is_file() and not path.is_symlink()}
    disk.write_new(place / CARD, model_card(content, license, languages, datasets, packed=target.name))
    files[CARD] = place / CARD
    if (logdir / LICENSE).is_file() and not (logdir / LICENSE).is_symlink():
        files[LICENSE] = logdir / LICENSE
    with explaining(target, "a packed model"), disk.writing(target, _is_packed, True, alone=True) as file:
        _write(file, files)
    for name, other in content.needed_models.items():
        deco_print(f"WARNING: {target} does not contain the {name} {other}: pack it, too, and use this model with "
                   f"--{name}=FILE, or with --{name}=None.")
    return target


def _write(file: BinaryIO, files: dict[str, Path]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        sums = sums_text({name: sha256(path) for name, path in files.items()}).encode()
        contents: dict[str, bytes | Path] = {SUMS: sums, **files}
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            if isinstance(content, bytes):
                archive.writestr(info, content)
                continue
            info.file_size = content.stat().st_size
            with open(content, "rb") as source, archive.open(info, "w") as packed:
                while chunk := source.read(1 << 20):
                    packed.write(chunk)


def _is_packed(file: BinaryIO) -> bool:
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(file) as archive:
        return SUMS in archive.namelist()
    return False
