"""Classification: metrics, samples and results."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.models import Image2Label
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.utils.errors import ConfigError
from tests.unit.data.image2label.conftest import CLASSES, folder, folder_params  # noqa: F401 - a fixture


def make(folder, mode="eval", variables_of=None, **others):  # noqa: F811
    params = {"batch_size_per_gpu": 3, "encoder": "CNNEncoder", "encoder_params": {
        "cnn_layers": [("conv2d", {"filters": 4, "kernel_size": 3}), ("relu", {})]}, "loss": "CrossEntropyLoss",
        "decoder": "FullyConnectedDecoder", "data_layer": "ImageFolderDataLayer", **others}
    params.setdefault("data_layer_params", {key: value for key, value in folder_params(folder).items()
                                            if key != "batch_size"})
    return build_model(describe_model(Image2Label, params, mode), seed=1, variables_of=variables_of)


def batch(labels, ids=None):
    return {"target_tensors": [np.eye(2, dtype=np.float32)[labels]], "ids": np.array(ids or range(len(labels))),
            "source_tensors": [np.random.default_rng(0).normal(size=(len(labels), 6, 6, 3)).astype(np.float32)]}


class Shown(Reporter):
    def image(self, name, image):
        self.picture = image

    def figure(self, name, figure):
        self.figures = {**getattr(self, "figures", {}), name: figure}


def test_accuracy_does_not_depend_on_the_division_into_batches(folder, capfd):  # noqa: F811
    model = make(folder)
    logits = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    labels = [0, 1, 1, 0, 1, 0]
    whole = model.finalize_evaluation([model.evaluate(batch(labels), [logits])])
    parts = [model.evaluate(*without_empty_rows(batch(labels[:4], [0, 1, 2, -1]), [logits[:4]])),
             model.evaluate(batch(labels[3:], [3, 4, 5]), [logits[3:]])]
    assert model.finalize_evaluation(parts) == whole
    assert whole["Eval top-1"] == np.mean(logits.argmax(1) == labels) and whole["Eval top-5"] == 1.0
    assert "taken for" in capfd.readouterr().out
    assert model.finalize_evaluation([]) == {}


def test_whitening_filters_are_computed_from_the_training_images(folder):  # noqa: F811
    layers = {"encoder_params": {"cnn_layers": [("whitening", {"kernel_size": 1})]}}
    model = make(folder, "train", **layers)
    whitening = model.encoder.whitening
    filters = whitening.kernel.numpy()
    whitening.fit(model.data_layer.make_batch(np.arange(model.data_layer.num_examples))["source_tensors"][0])
    np.testing.assert_array_equal(whitening.kernel, filters)
    assert make(folder, "eval", model, **layers).encoder.whitening.kernel is whitening.kernel


def test_mistakes_are_shown(folder):  # noqa: F811
    model, reporter = make(folder, "train"), Shown(3)
    model.report_sample(batch([0, 1, 1, 0]), [np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])], reporter)
    assert reporter.scalars == {"Train batch top-1": 0.25, "Train batch top-5": 1.0}
    assert reporter.picture.shape == (14, 14, 3) and 0.0 <= reporter.picture.min() <= reporter.picture.max() == 1.0


def test_the_confusion_matrix_is_drawn(folder):  # noqa: F811
    pytest.importorskip("matplotlib")
    model, reporter = make(folder), Shown(3)
    logits = np.array([[1.0, 0], [1, 0], [0, 1]])
    parts = [model.evaluate(*without_empty_rows(batch(labels, ids), [logits]))
             for labels, ids in (([0, 1, 1], [0, 1, 2]), ([0, 0, 1], [3, 4, -1]))]
    model.report_evaluation(parts, reporter)
    (axes,) = reporter.figures["confusion_matrix"].axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(CLASSES)
    assert [text.get_text() for text in axes.texts] == ["3", "0", "1", "1"]  # label by label; an empty row is left out
    np.testing.assert_allclose(axes.images[0].get_array(), [[1.0, 0.0], [0.5, 0.5]])


def test_results_are_written_as_csv(folder, tmp_path):  # noqa: F811
    model = make(folder, "infer", write_top=2)
    logits = np.array([[0.0, 1.0], [3.0, 0.0]])
    with model.open_results(str(tmp_path / "out.csv")) as writer:
        writer.write_batches([model.infer({"ids": np.array([4, 1]), "source_tensors": []}, [logits])])
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["example", "class", "probability"] and len(rows) == 5
    assert rows[1][0].endswith("dark/2.png") and rows[1][1:] == ["dark", "0.9526"] and rows[3][1] == CLASSES[1]
    assert model.answer(model.infer({"ids": np.array([0])}, [logits[:1]])[0][1]) == "light (0.731), dark (0.269)"


def test_sizes_follow_from_the_data_layer(folder):  # noqa: F811
    model = make(folder)
    assert model.encoder.params["image_shape"] == [6, 6, 3]
    assert model.num_objects(batch([0, 1, 0], [5, 2, -1])) == 2
    model.data_layer = SimpleNamespace()
    with pytest.raises(ConfigError, match="is SimpleNamespace, but Image2Label needs a data layer with class_names"):
        model.derived_params("decoder")


def test_evaluation_numbers_the_classes_as_training_does(folder):  # noqa: F811
    trained = make(folder, "train")
    params = {key: value for key, value in folder_params(folder).items() if key != "batch_size"}
    assert make(folder, variables_of=trained).data_layer.class_names == trained.data_layer.class_names
    for others, now in ((CLASSES[::-1], "'light'"), ([*CLASSES, "blue"], "'blue'"), (CLASSES[:1], "missing")):
        with pytest.raises(ConfigError, match=f"number the classes differently: class . is {now} for eval, but .* for "
                           "train; give both"):
            make(folder, variables_of=trained, data_layer_params={**params, "classes": list(others)})


def test_names_may_replace_indices_but_not_permute_them(folder):  # noqa: F811
    trained = make(folder, "train")
    trained.data_layer = SimpleNamespace(class_names=["0", "1"])
    make(folder, variables_of=trained)
    for number, name in enumerate(CLASSES):
        (folder / name).rename(folder / str(number))
    params = {key: value for key, value in folder_params(folder).items() if key != "batch_size"}
    for layer in (trained.data_layer, SimpleNamespace(labels=["0", "1"])):
        trained.data_layer = layer
        make(folder, variables_of=trained, data_layer_params={**params, "classes": ["0", "1"]})
        with pytest.raises(ConfigError, match="class 0 is '1' for eval, but '0' for train"):
            make(folder, variables_of=trained, data_layer_params={**params, "classes": ["1", "0"]})


def test_mirror_images_are_averaged_where_images_are_classified(folder):  # noqa: F811
    images = batch([0, 1, 1])["source_tensors"][0]
    both = np.concatenate([images, images[:, :, ::-1]])
    plain, averaged = make(folder), make(folder, average_mirrored=True)
    alone, single, double = (model.predict({"source_tensors": [tf.constant(inputs)]})[0].numpy()
                             for model, inputs in ((plain, images), (plain, both), (averaged, both)))
    np.testing.assert_allclose(single[:3], alone, rtol=1e-5)
    assert np.abs(single[:3] - single[3:]).max() > 1e-3
    probabilities = np.exp(single) / np.exp(single).sum(axis=1, keepdims=True)
    expected = np.log((probabilities[:3] + probabilities[3:]) / 2)
    np.testing.assert_allclose(double, np.concatenate([expected, expected]), rtol=1e-5)


def test_shifted_images_count_half_and_each_side_a_half(folder):  # noqa: F811
    images = batch([0, 1, 1])["source_tensors"][0]
    padded = np.pad(images, [(0, 0), (2, 2), (2, 2), (0, 0)], mode="reflect")
    shifted = [images, padded[:, 4:, 4:], padded[:, :-4, :-4]]
    plain, averaged = make(folder), make(folder, average_mirrored=True, average_shifted=2)
    views = np.concatenate([*shifted, *(one[:, :, ::-1] for one in shifted)])
    logits, averages = (model.predict({"source_tensors": [tf.constant(inputs)]})[0].numpy()
                        for model, inputs in ((plain, views), (averaged, images)))
    probabilities = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).reshape(2, 3, 3, -1).mean(axis=0)
    expected = probabilities[0] / 2 + probabilities[1] / 4 + probabilities[2] / 4
    np.testing.assert_allclose(averages, np.log(expected), rtol=1e-5)


def test_shifts_are_smaller_than_the_images(folder):  # noqa: F811
    with pytest.raises(ConfigError, match="'average_shifted' is 6, but images have 6 pixels"):
        make(folder, average_shifted=6)


def test_features_of_sound_are_not_mirrored(folder):  # noqa: F811
    model = make(folder, average_mirrored=True)
    model.data_layer = SimpleNamespace(class_names=CLASSES)
    with pytest.raises(ConfigError, match="'average_mirrored' is True, but SimpleNamespace is not a data layer of im"):
        model.derived_params("decoder")


def test_encoders_of_sequences_do_not_read_images(folder):  # noqa: F811
    layers = [{"type": "conv1d", "repeat": 1, "kernel_size": [3], "stride": [1], "num_channels": 4, "padding": "SAME"}]
    params = {"convnet_layers": layers, "dropout_keep_prob": 1.0, "activation_fn": None, "num_audio_features": 3}
    with pytest.raises(ConfigError, match="'encoder' is TDNNEncoder, which reads sequences, but ImageFolderDataLayer"):
        make(folder, encoder="TDNNEncoder", encoder_params=params)
