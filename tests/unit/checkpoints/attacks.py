"""What somebody may have done to a checkpoint before handing it over; all checksums fit where they can."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.checkpoints.resealing import reseal

WEIGHTS, STATE, CONFIG = "weights.safetensors", "state.json", "config.yaml"
# How the message about a file that safetensors refuses begins.
NO_TENSORS = "weights.safetensors is not a valid file of tensors"
# Name → (what is done to a checkpoint's folder, what the message says).
ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {}


def attack(says: str, table: dict[str, tuple[Callable[[Path], None], str]] = ATTACKS,
           ) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Enters a function in a table."""
    def enter(function: Callable[[Path], None]) -> Callable[[Path], None]:
        table[function.__name__] = function, says
        return function

    return enter


def move_out(checkpoint: Path, name: str) -> Path:
    """Puts a file or folder of a checkpoint beside the logdir; returns where it is now."""
    outside = checkpoint.parents[1] / f"outside-{Path(name).name}"
    os.rename(checkpoint / name, outside)
    return outside


def listed(name: str, checksum: str = "0" * 64) -> Callable[[Path], None]:
    return lambda checkpoint: reseal(checkpoint, lambda state: state["sha256"].update({name: checksum}))


def said(key: str, value: Any) -> Callable[[Path], None]:
    return lambda checkpoint: reseal(checkpoint, lambda state: state.update({key: value}))


def rewrite_state(checkpoint: Path, text: str) -> None:
    (checkpoint / STATE).write_text(text, encoding="utf-8")


def rewrite_header(checkpoint: Path, change: Callable[[dict[str, Any], int], object]) -> None:
    """Changes the header of the weights: the function is given the table, and how many bytes of tensors follow."""
    path = checkpoint / WEIGHTS
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, rest = json.loads(content[8:8 + length]), content[8 + length:]
    changed = change(header, len(rest))
    text = json.dumps(header if changed is None else changed).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + rest)
    reseal(checkpoint)


def first(header: dict[str, Any]) -> dict[str, Any]:
    """The first tensor's entry."""
    return next(entry for name, entry in header.items() if name != "__metadata__" and entry["data_offsets"][1])


for number, name in enumerate(("../outside", "/etc/passwd", "assets/../../outside", "..", "", "a\0b")):
    ATTACKS[f"a listed name that leaves the folder, {number}"] = listed(name), "leads out of the folder"
for key, value in (("step", "abc"), ("step", -1), ("step", 1.5), ("step", True), ("step", float("nan")),
                   ("step", float("inf")), ("step", 10 ** 30), ("step", []), ("micro_batch", "x"),
                   ("random_seed", 2 ** 70), ("random_seed", 2 ** 43), ("world_size", 0), ("metrics", [1]),
                   ("metrics", {"val_loss": "low"}),
                   ("divergence", "no"), ("divergence", {"events": [1]}), ("divergence", {"losses": {"first": ["x"]}})):
    ATTACKS[f"{key} is {json.dumps(value)}"] = said(key, value), f"in state.json, {key} must be"
for value in (None, [], "x", {WEIGHTS: 3}, {}):
    ATTACKS[f"checksums are {value}"] = (
        lambda checkpoint, value=value: reseal(checkpoint, lambda state: state.update(sha256=value)), "sha256 ")


@attack("is a link")
def weights_are_a_link(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).symlink_to(move_out(checkpoint, WEIGHTS))


@attack("is a link")
def config_is_a_link(checkpoint: Path) -> None:
    (checkpoint / CONFIG).symlink_to(move_out(checkpoint, CONFIG))


@attack("is a link")
def state_is_a_link(checkpoint: Path) -> None:
    (checkpoint / STATE).symlink_to(move_out(checkpoint, STATE))


@attack("is a link")
def an_asset_is_a_link(checkpoint: Path) -> None:
    name = next((checkpoint / "assets").iterdir()).name
    (checkpoint / "assets" / name).symlink_to(move_out(checkpoint, f"assets/{name}"))


@attack("is a link")
def the_folder_of_assets_is_a_link(checkpoint: Path) -> None:
    (checkpoint / "assets").symlink_to(move_out(checkpoint, "assets"))


@attack("is a link")
def the_checkpoint_is_a_link(checkpoint: Path) -> None:
    outside = checkpoint.parents[1] / "outside-checkpoint"
    os.rename(checkpoint, outside)
    checkpoint.symlink_to(outside)


@attack("weights.safetensors is not a regular file")
def weights_are_a_pipe(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).unlink()
    os.mkfifo(checkpoint / WEIGHTS)


@attack("config.yaml is not a regular file")
def config_is_a_pipe(checkpoint: Path) -> None:
    (checkpoint / CONFIG).unlink()
    os.mkfifo(checkpoint / CONFIG)


@attack("is not a regular file")
def an_asset_is_a_pipe(checkpoint: Path) -> None:
    path = next((checkpoint / "assets").iterdir())
    path.unlink()
    os.mkfifo(path)


@attack("optimizer.safetensors is not a regular file")
def the_optimizer_is_a_folder(checkpoint: Path) -> None:
    (checkpoint / "optimizer.safetensors").unlink()
    (checkpoint / "optimizer.safetensors").mkdir()
    (checkpoint / "optimizer.safetensors" / "notes.txt").write_text("the user's own\n", encoding="utf-8")


@attack("state.json has more than")
def a_state_without_end(checkpoint: Path) -> None:
    with open(checkpoint / STATE, "wb") as file:
        file.truncate(1 << 40)  # bytes that take no room on the disk


@attack("config.yaml has more than")
def a_config_without_end(checkpoint: Path) -> None:
    with open(checkpoint / CONFIG, "ab") as file:
        file.truncate(1 << 23)
    reseal(checkpoint)


@attack("state.json is truncated or altered")
def a_deep_state(checkpoint: Path) -> None:
    rewrite_state(checkpoint, "[" * 1_000_000)


@attack("no format number")
def a_state_that_is_a_list(checkpoint: Path) -> None:
    rewrite_state(checkpoint, "[1]")


@attack("no format number")
def a_format_that_is_a_text(checkpoint: Path) -> None:
    rewrite_state(checkpoint, '{"format": "x"}')


@attack("state.json is truncated or altered")
def a_number_of_many_digits(checkpoint: Path) -> None:
    rewrite_state(checkpoint, '{"format": 1, "step": ' + "9" * 100_000 + "}")


@attack(NO_TENSORS)
def a_header_longer_than_the_file(checkpoint: Path) -> None:
    content = (checkpoint / WEIGHTS).read_bytes()
    (checkpoint / WEIGHTS).write_bytes(struct.pack("<Q", 2 ** 62) + content[8:])
    reseal(checkpoint)


@attack(NO_TENSORS)
def no_header(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).write_bytes(b"")
    reseal(checkpoint)


@attack(NO_TENSORS)
def a_deep_header(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).write_bytes(struct.pack("<Q", 200_000) + b'{"a":' * 40_000)
    reseal(checkpoint)


@attack(NO_TENSORS)
def a_header_that_is_a_list(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: [header])


@attack(NO_TENSORS)
def tensors_beyond_the_file(checkpoint: Path) -> None:
    def change(header: dict[str, Any], size: int) -> None:
        header["more"] = {"dtype": "F32", "shape": [2 ** 40], "data_offsets": [size, size + 2 ** 42]}

    rewrite_header(checkpoint, change)


@attack(NO_TENSORS)
def tensors_that_overlap(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: header.update(again=dict(first(header))))


@attack(NO_TENSORS)
def a_huge_shape(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(shape=[2 ** 40]))


@attack(NO_TENSORS)
def a_shape_beyond_all_bounds(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(shape=[2 ** 40, 2 ** 40]))


@attack(NO_TENSORS)
def an_empty_tensor_of_a_huge_shape(checkpoint: Path) -> None:
    def change(header: dict[str, Any], size: int) -> None:
        header["more"] = {"dtype": "F32", "shape": [0, 2 ** 61, 2 ** 61], "data_offsets": [size, size]}

    rewrite_header(checkpoint, change)


@attack(NO_TENSORS)
def a_negative_shape(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(shape=[-1]))


@attack(NO_TENSORS)
def a_shape_of_texts(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(shape=["7", "5"]))


@attack(NO_TENSORS)
def an_unknown_type(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(dtype="OBJECT"))


@attack(NO_TENSORS)
def a_wider_type(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(dtype="F64"))


@attack(NO_TENSORS)
def negative_offsets(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: first(header).update(data_offsets=[-8, 0]))


@attack(NO_TENSORS)
def an_entry_that_is_a_number(checkpoint: Path) -> None:
    rewrite_header(checkpoint, lambda header, _: header.update(more=1))
