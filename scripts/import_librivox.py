"""Imports LibriSpeech (Panayotov et al. 2015) from local archives or folders.

usage: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz dev-clean.tar.gz

For each subset, writes the recordings, <subset>/<speaker>/<chapter>/<id>.flac (or .wav), and a list
librivox-<subset>.csv with transcripts in lower case. Also writes the alphabet vocab.txt. With --shortest=10, each list
contains only the ten shortest recordings, for quick tests.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_info
from open_seq2seq.data.speech2text.alphabet import ENGLISH
from open_seq2seq.data.speech2text.manifests import LIST_COLUMNS
from open_seq2seq.data.text_files import write_csv, write_lines, writing
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script
from open_seq2seq.utils.sound_files import encoded

_TRANSCRIPTS = ".trans.txt"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__.split("\n")[0])
    parser.add_argument("archives", nargs="+", help="archives (.tar, .tar.gz), or folders they were extracted to")
    parser.add_argument("--output_dir", default="librispeech", help="folder to write to (default: %(default)s)")
    parser.add_argument("--format", choices=["flac", "wav"], default="flac",
                        help="format of the recordings; flac files are copied unchanged, wav files are about twice as "
                        "large and faster to read (default: %(default)s)")
    parser.add_argument("--shortest", type=int, metavar="N",
                        help="list only the N shortest recordings of each subset (default: all)")
    return parser.parse_args(argv)


def files_of(archive: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yields path (subset/speaker/chapter/name) and content of the recordings and transcripts in an archive or folder.

    Raises:
      DataError: the archive does not exist, is not a tar archive, or is truncated.
    """
    if os.path.isdir(archive):
        for folder, _, names in os.walk(archive):
            for name in sorted(names):
                path = PurePosixPath(*os.path.abspath(os.path.join(folder, name)).split(os.sep)[-4:])
                if _is_wanted(path):
                    with open(os.path.join(folder, name), "rb") as file:
                        yield path, file.read()
        return
    try:
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                path = PurePosixPath(*PurePosixPath(member.name).parts[-4:])
                if member.isfile() and _is_wanted(path):
                    content = tar.extractfile(member)
                    yield path, content.read() if content is not None else b""
    except FileNotFoundError as error:
        raise DataError(f"The archive {archive} does not exist.") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{archive} is truncated or not a tar archive: {error}.") from error


def _is_wanted(path: PurePosixPath) -> bool:
    return len(path.parts) == 4 and ".." not in path.parts and (
        path.suffix == ".flac" or path.name.endswith(_TRANSCRIPTS))


def import_archives(archives: Sequence[str], output_dir: str, file_format: str,
                    shortest: int | None = None) -> dict[str, int]:
    """Writes recordings and lists from archives; returns the number of utterances in each subset's list.

    A subset may be spread over several archives.

    Args:
      archives: archives, or folders they were extracted to.
      output_dir: folder to write to.
      file_format: ``flac`` or ``wav``.
      shortest: number of recordings to list from each subset, the shortest ones; None for all.

    Raises:
      DataError: an archive contains no recordings, a recording has no transcript, a transcript has no recording, or a
        recording or transcript cannot be read.
    """
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    recordings: dict[str, dict[str, PurePosixPath]] = defaultdict(dict)
    for archive in archives:
        _read_archive(archive, output_dir, file_format, texts, recordings)
    counts: dict[str, int] = {}
    for subset in sorted({*texts, *recordings}):
        paths = recordings[subset]
        lonely = sorted(set(paths) ^ set(texts[subset]))
        if lonely:
            raise DataError(f"{', '.join(archives)}: {subset} has {len(paths)} recordings and "
                            f"{len(texts[subset])} transcripts, but {len(lonely)} of these have no counterpart, the "
                            f"first of them {lonely[0]}: give all files of {subset}.")
        files = {name: os.path.join(output_dir, path) for name, path in paths.items()}
        listed = files if shortest is None else sorted(files, key=lambda name: (_seconds(files[name]), name))[:shortest]
        rows = [(str(paths[name]), os.path.getsize(files[name]), texts[subset][name]) for name in sorted(listed)]
        counts[subset] = write_csv(os.path.join(output_dir, f"librivox-{subset}.csv"), LIST_COLUMNS, rows)
    return counts


def _read_archive(archive: str, output_dir: str, file_format: str, texts: dict[str, dict[str, str]],
                  recordings: dict[str, dict[str, PurePosixPath]]) -> None:
    """Writes an archive's recordings, and adds their paths and transcripts to ``recordings`` and ``texts``.

    Both are dicts by subset, then by name.
    """
    found = False
    for path, content in files_of(archive):
        subset = path.parts[0]
        if path.suffix == ".flac":
            recordings[subset][path.stem] = _write_recording(path, content, output_dir, file_format)
            found = True
            continue
        try:
            lines = content.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"{path} in {archive} is not valid UTF-8: give the archive as it was published.") from error
        for line in lines:
            name, _, text = line.partition(" ")
            texts[subset][name] = text.strip().lower()
    if not found:
        raise DataError(f"{archive} contains no recordings <subset>/<speaker>/<chapter>/<id>.flac.")


def _seconds(path: str) -> float:
    try:
        info = read_info(path)
    except AudioError as error:
        raise DataError(f"The recording {path} {error}.") from error
    return info.samples / info.rate


def _write_recording(path: PurePosixPath, content: bytes, output_dir: str, file_format: str) -> PurePosixPath:
    written = path.with_suffix(f".{file_format}")
    with writing(os.path.join(output_dir, written)) as out:
        if file_format == "flac":
            out.write(content)
        else:
            import soundfile

            try:
                audio, rate = soundfile.read(io.BytesIO(content), dtype="int16")
            except soundfile.LibsndfileError as error:
                raise DataError(f"The recording {path} cannot be read as audio: {error.error_string}") from error
            out.write(encoded(audio, rate))
    return written


def main(argv: list[str] | None = None) -> None:
    """Imports the archives."""
    args = parse_args(argv)
    if args.shortest is not None and args.shortest < 1:
        raise UserError(f"--shortest is {args.shortest} but has to be at least 1.")
    for subset, count in import_archives(args.archives, args.output_dir, args.format, args.shortest).items():
        deco_print(f"{os.path.join(args.output_dir, f'librivox-{subset}.csv')}: {count} utterances")
    write_lines(os.path.join(args.output_dir, "vocab.txt"), ENGLISH)


if __name__ == "__main__":
    run_script(main)
