"""Names of classes: kept in checkpoints, so that inference does not need the data and other names are refused."""

from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot, load_checkpoint, write_snapshot
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.checkpoints.kept_files import kept_files_of
from open_seq2seq.config.overrides import apply_overrides
from open_seq2seq.data import ImagenetDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import CNNEncoder
from open_seq2seq.models import Image2Label
from open_seq2seq.utils.errors import CheckpointError


def params_of(folder, **others):
    """Parameters of an ``ImagenetDataLayer`` for folders of images of two classes."""
    return {"data_dir": str(folder), "num_classes": 2, "image_size": 6, **others}


def model_of(layer):
    """A model without parts other than its data layer."""
    model = Image2Label({"batch_size_per_gpu": 1, "data_layer": type(layer), "encoder": CNNEncoder,
                         "decoder": FullyConnectedDecoder}, "infer")
    model.data_layer = layer
    return model


@pytest.fixture
def trained(folder, tmp_path):
    """Folder with the images of a run, and the run's checkpoint."""
    data = tmp_path / "imagenet"
    data.mkdir()
    folder.rename(data / "train")
    (data / "val").symlink_to("train")
    assets = {name: Path(path).read_bytes() for name, path in ImagenetDataLayer(params_of(data)).assets().items()}
    empty = {"zero": np.zeros(1, np.float32)}
    write_snapshot(Snapshot(empty, empty, {"step": 1}, "", assets), tmp_path / "model.ckpt-1")
    return data, load_checkpoint(tmp_path / "model.ckpt-1")


def from_checkpoint(checkpoint, mode, **params):
    """The data layer of a mode that uses the checkpoint's copies of its files."""
    model = {"data_layer": "ImagenetDataLayer", "data_layer_params": params}
    overrides = kept_files_of(checkpoint.path, mode, "Image2Label", model)
    return ImagenetDataLayer({**apply_overrides(model, overrides, [])[0]["data_layer_params"], "mode": mode})


def test_inference_needs_no_folders_of_classes(trained):
    data, checkpoint = trained
    data.rename(data.with_name("elsewhere"))
    for others in ({"mode": "infer", "files": ["x.png"]}, {"mode": "interactive_infer"}):
        layer = from_checkpoint(checkpoint, **params_of(data, **others))
        assert layer.class_names == ["dark", "light"]
        RunInputs(model_of(layer), None, {}).check_assets(checkpoint)


@pytest.mark.parametrize("class_file", [False, True])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_folders_with_other_names_are_refused(trained, tmp_path, mode, class_file):
    data, checkpoint = trained
    (tmp_path / "names.txt").write_text("night\nday\n")
    params = params_of(data, mode=mode, class_file=str(tmp_path / "names.txt") if class_file else None)
    RunInputs(model_of(ImagenetDataLayer(params)), None, {}).check_assets(checkpoint)
    (data / "train/dark").rename(data / "train/shadow")
    with pytest.raises(CheckpointError, match=r"/train has folders of other classes .*\(shadow instead of dark\)"):
        RunInputs(model_of(ImagenetDataLayer(params)), None, {}).check_assets(checkpoint)


def test_inference_without_the_names_says_so(tmp_path, capfd):
    layer = ImagenetDataLayer(params_of(tmp_path / "nowhere", mode="infer", files=["x.png"]))
    assert layer.class_names == ["0", "1"]
    assert "the names of the classes are unknown" in capfd.readouterr().out
