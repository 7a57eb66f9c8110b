"""Batches of the data layers of images: exact, from every kind of file."""

import pickle
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import CifarDataLayer, ImageFolderDataLayer, ImagenetDataLayer
from open_seq2seq.data.batch_loader import Wanted
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.data.image2label.conftest import CLASSES, folder_params, picture

EVERYTHING = {"train_crop": "padded", "crop_padding": 2, "color_jitter": 0.3, "randaugment_layers": 2, "mixup": 0.5,
              "cutout": 2}


def train_rows(layer, examples, epoch):
    """Images and labels by example, from batches of the given sizes."""
    made = layer.make_training_batch(np.array(examples), epoch)
    return {int(example): (image, label) for example, image, label in zip(
        made["ids"], made["source_tensors"][0], made["target_tensors"][0], strict=True)}


@pytest.mark.long
@pytest.mark.parametrize("others", [EVERYTHING, {"train_crop": "resized"}, {**EVERYTHING, "cache_images": True}])
def test_an_images_augmentation_follows_from_seed_example_and_epoch(folder, others):
    layer = ImageFolderDataLayer(folder_params(folder, **others))
    layer.seed = 5
    together = train_rows(layer, [0, 1, 2, 3, 4, 5], 2)
    alone = {**train_rows(layer, [4], 2), **train_rows(layer, [3, 0, 5], 2)}
    for example, (image, label) in alone.items():
        np.testing.assert_allclose(image, together[example][0], atol=1e-5)
        np.testing.assert_array_equal(label, together[example][1])
    other_epoch = train_rows(layer, [0, 3, 5], 3)
    assert all(not np.allclose(other_epoch[example][0], together[example][0]) for example in other_epoch)
    layer.seed = 6
    assert not np.allclose(train_rows(layer, [3], 2)[3][0], together[3][0])
    assert together[0][0].shape == (6, 6, 3) and together[0][0].dtype == np.float32
    np.testing.assert_allclose(sum(label for _, label in together.values()).sum(), 6.0, rtol=1e-6)


def test_flips_alternate_after_the_first_epoch(folder):
    plain, alternating = (ImageFolderDataLayer(folder_params(folder, train_crop="centre", alternating_flip=alternates))
                          for alternates in (False, True))
    plain.seed = alternating.seed = 5
    first, *others = [train_rows(alternating, range(6), epoch) for epoch in range(4)]
    drawn = train_rows(plain, range(6), 0)
    mirrored = 0
    for example, (image, _) in first.items():
        np.testing.assert_array_equal(image, drawn[example][0])
        for epoch, rows in enumerate(others, 1):
            np.testing.assert_array_equal(rows[example][0], image[:, ::-1] if epoch % 2 else image)
        mirrored += np.array_equal(image, train_rows(plain, [example], 1)[example][0])
    assert 0 < mirrored < 6  # the images do not change sides together


def test_alternating_flips_need_flips(folder):
    with pytest.raises(ConfigError, match="alternating_flip' is True, but '.*/random_flip' is False"):
        ImageFolderDataLayer(folder_params(folder, random_flip=False, alternating_flip=True))


def test_a_cutout_is_smaller_than_the_image_in_training(folder):
    params = folder_params(folder, image_size=16, resize_size=16, cutout=16)
    with pytest.raises(ConfigError, match=r"cutout' is 16, but images have 16 pixels"):
        ImageFolderDataLayer(params)
    assert ImageFolderDataLayer(params, mode="eval").num_examples == 6


@pytest.mark.long
def test_mixup_mixes_images_and_labels_alike(folder):
    plain = ImageFolderDataLayer(folder_params(folder, train_crop="padded", standardize="none"))
    mixing = ImageFolderDataLayer(folder_params(folder, train_crop="padded", standardize="none", mixup=1.0))
    unmixed, mixed = train_rows(plain, range(6), 0), train_rows(mixing, range(6), 0)
    found = 0
    for example, (image, label) in mixed.items():
        own = int(unmixed[example][1].argmax())
        for other, (other_image, other_label) in unmixed.items():
            if other != example and other_label.argmax() != own:
                weight = label[own]
                found += np.allclose(image, weight * unmixed[example][0] + (1 - weight) * other_image, atol=1e-5)
    assert found >= 1


def test_evaluation_crops_the_centre_and_numbers_the_classes(folder):
    layer = ImageFolderDataLayer(folder_params(folder, mode="eval", standardize="none"))
    batch = layer.make_batch(np.arange(6))
    np.testing.assert_array_equal(batch["target_tensors"][0], np.eye(2)[[0, 0, 0, 1, 1, 1]])
    assert layer.class_names == CLASSES and layer.describe_example(3).endswith("light/1.png")
    exact = ImageFolderDataLayer(folder_params(folder, mode="eval", standardize="none", resize_size=9, image_size=7))
    image = exact.make_batch(np.array([3]))["source_tensors"][0][0]
    np.testing.assert_allclose(image, picture(1)[1:8, 2:9] / 255, atol=1e-6)
    cached = ImageFolderDataLayer(folder_params(folder, mode="eval", standardize="none", resize_size=9, image_size=7,
                                                cache_images=True))
    np.testing.assert_allclose(cached.make_batch(np.array([3]))["source_tensors"][0][0], image, atol=1e-6)


def test_csv_lists_and_the_plan(folder, tmp_path):
    rows = ["label,image", "light,light/1.png", '"dark","dark/4.png"', "", "dark,dark/0.png"]
    (folder / "list.csv").write_bytes("\r\n".join(rows).encode())  # without a final line break
    params = folder_params(folder, dataset_files=[str(folder / "list.csv")])
    layer = ImageFolderDataLayer({**params, "folder": None, "mode": "eval"})
    batch = layer.make_batch(np.arange(3))
    np.testing.assert_array_equal(batch["target_tensors"][0], np.eye(2)[[1, 0, 0]])
    assert layer.describe_example(1) == f"{folder}/list.csv:3 ({folder}/dark/4.png)"
    plan = [Wanted(0, np.array([2, 0])), Wanted(1, np.array([1]))]
    assert [(number, made["ids"].tolist()) for number, made in layer.make_batches(iter(plan), False)] == [
        (0, [2, 0]), (1, [1])]
    assert layer.data_files() and layer.example_files()[0].endswith("light/1.png")


def test_inference_takes_files_and_folders(folder):
    params = ImageFolderDataLayer.params_for_files([str(folder / "light"), str(folder / "dark/0.png")])
    layer = ImageFolderDataLayer({**folder_params(folder), **params, "mode": "infer"})
    batch = layer.make_batch(np.arange(4))
    assert "target_tensors" not in batch and batch["source_tensors"][0].shape == (4, 6, 6, 3)
    typed = ImageFolderDataLayer(folder_params(folder, mode="interactive_infer")).make_interactive_batch(
        [str(folder / "light/1.png"), picture(1), folder / "light/1.png"])
    for image in typed["source_tensors"][0][1:]:
        np.testing.assert_allclose(typed["source_tensors"][0][0], image, atol=1e-6)
    np.testing.assert_allclose(typed["source_tensors"][0][0], batch["source_tensors"][0][0], atol=1e-6)


def cifar_arrays(count, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, 3, 32, 32)).astype(np.uint8), random.integers(0, 10, count)


def write_cifar(folder, binary, count=3):
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{place}" for place in range(1, 6)), "test_batch"]):
        pixels, labels = cifar_arrays(count, number)
        rows = pixels.reshape(count, -1)
        if binary:
            content = np.concatenate([labels[:, None].astype(np.uint8), rows], axis=1).tobytes()
        else:
            content = pickle.dumps({b"data": rows, b"labels": labels.tolist(), b"batch_label": b"x"}, protocol=2)
        (folder / (name + ".bin" * binary)).write_bytes(content)


@pytest.mark.parametrize("binary", [True, False])
def test_cifar_files(tmp_path, binary):
    write_cifar(tmp_path / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py"), binary)
    params = {"data_dir": str(tmp_path), "standardize": "none", "image_size": 32}
    test = CifarDataLayer({**params, "mode": "eval"})
    pixels, labels = cifar_arrays(3, 5)
    batch = test.make_batch(np.array([2, 0]))
    np.testing.assert_allclose(batch["source_tensors"][0], pixels[[2, 0]].transpose(0, 2, 3, 1) / 255, atol=1e-6)
    np.testing.assert_array_equal(batch["target_tensors"][0].argmax(1), labels[[2, 0]])
    train = CifarDataLayer({**params, "image_size": 28})
    assert train.num_examples == 15 and train.describe_example(4).endswith("image 2")
    boxes = CifarDataLayer({**params, "image_size": 28, "train_crop": "resized"})
    for layer in (train, boxes):
        assert layer.make_training_batch(np.arange(5), 1)["source_tensors"][0].shape == (5, 28, 28, 3)
    assert len(train.data_files()) == 5 and train.examine()


def write_records(path, numbers, labels):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, label in zip(numbers, labels, strict=True):
            features = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(
                            value=[tf.io.encode_png(picture(number)).numpy()])),
                        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def test_tfrecords_equal_folders(tmp_path, folder):
    write_records(tmp_path / "validation-00000-of-00002", [0, 2], [1, 1])
    write_records(tmp_path / "validation-00001-of-00002", [4, 1, 3, 5], [1, 2, 2, 2])
    params = {"num_classes": 2, "image_size": 6, "mode": "eval"}
    records = ImagenetDataLayer({**params, "data_dir": str(tmp_path)})
    (tmp_path / "jpegs").mkdir()
    folder.rename(tmp_path / "jpegs" / "val")
    folders = ImagenetDataLayer({**params, "data_dir": str(tmp_path / "jpegs")})
    for first, second in zip(*(tf.nest.flatten(layer.make_batch(np.array([5, 0, 3]))) for layer in (
            records, folders)), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)
    assert records.describe_example(3).endswith("validation-00001-of-00002, record 2")
    assert folders.class_names == CLASSES and records.class_names == ["0", "1"] and len(records.data_files()) == 2


def test_modules_of_the_tensorflow_1_toolkit():
    from open_seq2seq.data import SpeechCommandsDataLayer
    from open_seq2seq.data.image2label import image2label
    from open_seq2seq.data.speech2text import speech_commands

    assert image2label.CifarDataLayer is CifarDataLayer and image2label.ImagenetDataLayer is ImagenetDataLayer
    assert speech_commands.SpeechCommandsDataLayer is SpeechCommandsDataLayer


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("of_folder", ["NFC", "NFD"])
def test_names_of_folders_and_labels_may_be_in_another_unicode_form(folder, form, of_folder):
    (folder / "dark").rename(folder / unicodedata.normalize(of_folder, "caf\u00e9"))
    classes = [unicodedata.normalize(form, "caf\u00e9"), "light"]
    layer = ImageFolderDataLayer(folder_params(folder, mode="train", classes=classes))
    assert layer.num_examples == 6 and not layer.report_dropped()
    name = unicodedata.normalize(of_folder, "caf\u00e9")
    (folder / "list.csv").write_text(f"image,label\n{name}/0.png,{name}\nlight/1.png,light\n", encoding="utf-8")
    layer = ImageFolderDataLayer(folder_params(None, mode="eval", classes=classes) | {
        "folder": None, "dataset_files": [str(folder / "list.csv")]})
    labels = layer.make_batch(np.arange(2))["target_tensors"][0]
    np.testing.assert_array_equal(labels, [[1, 0], [0, 1]])


def test_files_are_read_in_the_graph_as_in_interactive_inference(folder):
    layer = ImageFolderDataLayer(folder_params(folder, mode="eval"))
    names = layer.interactive_examples(3)
    contents = tf.constant([Path(name).read_bytes() for name in names])
    with forward_pass(portable=True):
        images = layer.standardized(tf.function(layer.graph_pixels)(contents))
    np.testing.assert_allclose(images, layer.make_interactive_batch(names)["source_tensors"][0], atol=1e-5)
