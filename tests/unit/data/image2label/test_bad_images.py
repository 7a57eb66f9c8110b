"""Bad input: one sentence with file and line, or left out and counted."""

import io

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data import CifarDataLayer, ImageFolderDataLayer, ImagenetDataLayer
from open_seq2seq.data.image2label import image2label as cached_images
from open_seq2seq.data.image2label.image_files import decode_rgb
from open_seq2seq.data.image2label.pipeline import resized_short_side
from open_seq2seq.utils.errors import ConfigError, DataError, UserError
from tests.unit.data.image2label.conftest import folder_params, picture
from tests.unit.data.image2label.test_layers import write_cifar, write_records

JPEG = tf.io.encode_jpeg(picture(0)).numpy()
BROKEN = {"empty": b"", "text": b"no picture", "truncated jpeg": JPEG[:len(JPEG) // 2], "webp": b"RIFF\0\0\0\0WEBPVP8 ",
          "truncated png": tf.io.encode_png(picture(0)).numpy()[:60]}


@pytest.mark.long
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_image_is_named_or_skipped(folder, kind, capfd):
    (folder / "dark/2.png").write_bytes(BROKEN[kind])
    stopping = ImageFolderDataLayer(folder_params(folder, mode="eval"))
    for made in (lambda: stopping.make_batch(np.arange(6)), stopping.examine,
                 lambda: ImageFolderDataLayer(folder_params(folder, cache_images=True, train_crop="centre"))):
        with pytest.raises(DataError, match=r"dark/2.png cannot be read: ") as error:
            made()
        assert "\n" not in str(error.value) and "{{" not in str(error.value) and "[Op" not in str(error.value)
    skipping = ImageFolderDataLayer(folder_params(folder, on_bad_example="skip"))
    assert skipping.make_training_batch(np.array([3, 1, 0]), 0)["ids"].tolist() == [3, 0]
    empty = skipping.make_training_batch(np.array([1]), 0)
    assert empty["ids"].tolist() == [-1] and empty["source_tensors"][0].shape == (1, 6, 6, 3)
    assert capfd.readouterr().out.count("Skipped") == 1
    cached = ImageFolderDataLayer(folder_params(folder, on_bad_example="skip", cache_images=True, mode="eval"))
    assert cached.num_examples == 5 and cached.report_dropped() == {"cannot be read": 1}
    assert cached.describe_example(1).endswith("dark/4.png")


def test_a_broken_image_is_named_if_it_is_mixed_into_another(folder):
    (folder / "dark/2.png").write_bytes(b"no picture")
    layer = ImageFolderDataLayer(folder_params(folder, mixup=1.0))
    epoch = next(epoch for epoch in range(100) if layer.examples_read(np.array([0]), epoch).tolist() == [0, 1])
    with pytest.raises(DataError, match=r"^\S+/dark/2.png cannot be read: "):
        layer.make_training_batch(np.array([0]), epoch)


def test_images_that_do_not_fit_in_memory_are_refused(folder, monkeypatch):
    monkeypatch.setattr(cached_images, "available_bytes", lambda: 6 * 8 * 8 * 3)
    with pytest.raises(DataError, match="'cache_images' would need .* for 6 images of 8 × 8 pixels, but only"):
        ImageFolderDataLayer(folder_params(folder, cache_images=True, train_crop="centre"))


def test_only_bad_images_end_the_run(folder):
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no picture")
    layer = ImageFolderDataLayer(folder_params(folder, on_bad_example="skip"))
    with pytest.raises(DataError, match="^All 6 images were skipped: the last .* because Unknown image file format.*"):
        layer.make_batch(np.arange(6))
    params = ImageFolderDataLayer.params_for_files([str(folder / "dark/0.png")])
    layer = ImageFolderDataLayer({**folder_params(folder, on_bad_example="skip", mode="infer"), **params})
    with pytest.raises(DataError, match=r"^\S+/dark/0.png cannot be read \(.*\), and there is no other image.$"):
        layer.make_batch(np.arange(1))


@pytest.mark.long
def test_unusual_images_are_converted(folder):
    """Grey, grey with alpha, alpha, 16 bits, JPEG, BMP of 4 channels, GIF and CMYK: each becomes RGB of 8 bits."""
    from PIL import Image

    pixels = picture(0)
    grey = pixels.mean(-1, keepdims=True).astype(np.uint8)
    alpha = np.full_like(grey, 100)
    files = {
        "grey.png": (tf.io.encode_png(grey).numpy(), np.repeat(grey, 3, -1)),
        "grey-alpha.png": (tf.io.encode_png(np.concatenate([grey, alpha], -1)).numpy(),
                           155 + np.repeat(grey, 3, -1) * (100 / 255)),
        "alpha.png": (tf.io.encode_png(np.concatenate([pixels, alpha], -1)).numpy(), 155 + pixels * (100 / 255)),
        "deep.png": (tf.io.encode_png(pixels.astype(np.uint16) * 257).numpy(), pixels),
    }
    for path in (folder / "dark").glob("*.png"):
        path.unlink()
    for name, (content, _) in files.items():
        (folder / "dark" / name).write_bytes(content)
    for name, image in (("four.bmp", Image.fromarray(pixels)), ("frame.gif", Image.fromarray(pixels)),
                        ("grey.jpg", Image.fromarray(grey[..., 0])), ("grey.bmp", Image.fromarray(grey[..., 0])),
                        ("press.jpg", Image.fromarray(pixels).convert("CMYK"))):
        image.save(folder / "dark" / name)
    layer = ImageFolderDataLayer(folder_params(folder, mode="eval", image_size=9, resize_size=9, standardize="none"))
    found = {layer.describe_example(example).rpartition("/")[2]: layer.make_batch(np.array([example]))[
        "source_tensors"][0][0] for example in range(len(files) + 5)}
    for name, (_, expected) in files.items():
        np.testing.assert_allclose(found[name], expected[:, 1:10] / 255, atol=1 / 255)
    for name in ("four.bmp", "press.jpg", "frame.gif"):
        np.testing.assert_allclose(found[name], pixels[:, 1:10] / 255, atol=0.12)
    np.testing.assert_allclose(found["grey.jpg"], np.repeat(grey, 3, -1)[:, 1:10] / 255, atol=0.05)


DECODERS = {"eager": decode_rgb, "graph": tf.function(decode_rgb)}


def transparent(kind):
    """Returns (file of a 2 × 2 image, format): a transparent, a half transparent or transparent, and two red pixels."""
    from PIL import Image

    red = [255, 255, 255] if kind in ("LA", "grey key", "bit key") else [200, 10, 0]
    pixels = np.array([[[0, 90, 7, 0], [*red, 128]], [[*red, 255], [*red, 255]]], np.uint8)
    image, options = Image.fromarray(pixels), {}
    if kind in ("palette", "GIF", "GIF with its own colours"):
        image, options = Image.fromarray(np.array([[1, 2], [2, 2]], np.uint8), "P"), {"transparency": 1}
        image.putpalette([5, 5, 5, 0, 90, 7, *red])
    elif kind == "LA":
        image = Image.fromarray(pixels[..., 2:], "LA")
    elif kind == "colour key":
        image, options = Image.fromarray(pixels[..., :3]), {"transparency": (0, 90, 7)}
    elif kind in ("grey key", "bit key"):
        image, options = Image.fromarray(pixels[..., 0]).convert("1" if kind == "bit key" else "L"), {"transparency": 0}
    file = io.BytesIO()
    image.save(file, "BMP" if kind == "BMP" else "GIF" if "GIF" in kind else "PNG", **options)
    content = file.getvalue()
    if kind == "GIF with its own colours":  # moved from the file to its first frame
        size = 3 << ((content[10] & 7) + 1)
        start = content.index(b"\x2c", 13 + size)
        content = (content[:10] + bytes([content[10] & 0x7F]) + content[11:13] + content[13 + size:start + 9]
                   + bytes([0x80 | content[10] & 7]) + content[13:13 + size] + content[start + 10:])
    return content, red


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("kind", ["RGBA", "LA", "palette", "colour key", "grey key", "bit key", "GIF",
                                  "GIF with its own colours", "BMP"])
def test_transparent_images_are_put_on_white(kind, mode):
    content, red = transparent(kind)
    image = DECODERS[mode](tf.constant(content)).numpy()
    assert image[0, 0].tolist() == [255] * 3 and image[1].tolist() == [red, red]
    mixed = [int(value * 128 / 255 + 127 + 0.5) for value in red] if kind in ("RGBA", "LA", "BMP") else red
    np.testing.assert_allclose(image[0, 1], mixed, atol=1)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("kind", ["GIF", "GIF with its own colours"])
def test_a_transparent_colour_beyond_the_palette_is_none(kind, mode):
    content = bytearray(transparent(kind)[0])
    content[content.index(b"\x21\xf9\x04") + 6] = 250
    image = DECODERS[mode](tf.constant(bytes(content))).numpy()
    assert image.tolist() == [[[0, 90, 7], [200, 10, 0]], [[200, 10, 0]] * 2]


def test_a_fourth_channel_of_a_bmp_file_that_is_not_used():
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.array([[[1, 2, 3, 0], [4, 5, 6, 0]]], np.uint8)).save(file, "BMP")
    assert decode_rgb(tf.constant(file.getvalue())).numpy().tolist() == [[[1, 2, 3], [4, 5, 6]]]


def test_an_icon_gives_the_same_input_in_all_modes_and_as_an_array(folder):
    """A black triangle on a transparent background whose hidden colour is black."""
    y, x = np.mgrid[:9, :11]
    icon = np.zeros((9, 11, 4), np.uint8)
    icon[..., 3] = np.where(abs(x - 5) < y, 255, 0)
    flat = np.where(icon[..., 3:] > 0, icon[..., :3], 255).astype(np.uint8)
    for name, pixels in (("dark/icon.png", icon), ("light/flat.png", flat)):
        (folder / name).write_bytes(tf.io.encode_png(pixels).numpy())
    for path in folder.glob("*/?.png"):
        path.unlink()
    batches = [ImageFolderDataLayer(folder_params(folder, mode="eval")).make_batch(np.arange(2))]
    layer = ImageFolderDataLayer(folder_params(folder, mode="interactive_infer"))
    batches += [layer.make_interactive_batch(inputs) for inputs in ([icon, flat], [folder / "dark/icon.png", flat])]
    for batch in batches:
        np.testing.assert_array_equal(*batch["source_tensors"][0])
        np.testing.assert_allclose(batch["source_tensors"][0], batches[0]["source_tensors"][0], atol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_palettes_of_bmp_files_are_looked_up(mode):
    from PIL import Image

    decode = decode_rgb if mode == "eager" else tf.function(decode_rgb)
    random = np.random.default_rng(0)
    for colours, shape in ((256, (5, 7)), (16, (4, 4)), (3, (9, 2))):
        image = Image.fromarray(random.integers(0, colours, shape).astype(np.uint8), "P")
        image.putpalette(random.integers(0, 256, 3 * colours).astype(np.uint8).tobytes())
        file = io.BytesIO()
        image.save(file, "BMP")
        np.testing.assert_array_equal(decode(tf.constant(file.getvalue())), np.asarray(image.convert("RGB")))
    compressed = bytearray(file.getvalue())
    compressed[30] = 1
    beyond = bytearray(file.getvalue())
    beyond[-8:] = b"\xff" * 8
    for content, words in ((compressed, "compressed BMP"), (beyond, "255 is not in"), (file.getvalue()[:70], "size")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            decode(tf.constant(bytes(content)))


def test_given_arrays_have_to_be_images(folder):
    layer = ImageFolderDataLayer(folder_params(folder, mode="interactive_infer"))
    assert layer.make_interactive_batch([picture(0)])["source_tensors"][0].shape == (1, 6, 6, 3)
    for wrong in (picture(0) / 255, picture(0).astype(np.int64), picture(0)[..., 0], picture(0)[..., :2],
                  picture(0)[:0]):
        with pytest.raises(DataError, match=r"must be a uint8 array \[height, width, 3\], got "):
            layer.make_interactive_batch([wrong])


def test_of_a_very_long_image_only_the_middle_is_resized():
    """Resized as a whole, the image would take 100 GB."""
    long = np.zeros([1, 1 << 20, 3], np.uint8)
    long[:, (1 << 19) - 3:(1 << 19) + 3] = 200
    np.testing.assert_allclose(resized_short_side(tf.constant(long), 64), np.full([64, 64, 3], 200.0), rtol=1e-6)
    pixels = picture(0, 9, 28)
    whole = np.array(tf.image.resize(pixels, [6, 19], antialias=True))[:, 6:12]
    step = 6  # the difference between neighbouring pixels, because the rounded places differ by up to one
    np.testing.assert_allclose(resized_short_side(tf.constant(pixels), 6), whole, atol=step)


LISTS = {
    b"light,light/1.png\n": "list.csv:1: the first line must be a header with the columns image and label",
    b"image,label\nlight/1.png,blue\n": "list.csv:2: the label is 'blue', but the classes are dark, light",
    b"image,label\nlight/1.png\n": "list.csv:2: the row must have a file and a label",
    b"image,label\nlight/1.png,\n": "list.csv:2: the row must have a file and a label",
    b"image,label\nlight/9.png,light": "list.csv:2: the image .*light/9.png does not exist",
    b"image,label\nlight/1.png,li\0ght": "list.csv:2: the line contains a NUL byte",
    b"image,label\n\xff\xfe,light\n": "list.csv:2: the line is not valid UTF-8",
    b"image,label\rlight/1.png,light\rdark/0.png,dark\r": "list.csv:1: the line contains a carriage return: save",
    b"image,label\nlight/1.png,light\rdark/0.png,dark\n": "list.csv:2: the line contains a carriage return: save",
    b'image,label\nlight/1.png,light\n"dark/0.png,dark\n' + b"dark/2.png,dark\n" * 9:
        "list.csv:3: the row that begins in this line has a double quote that is not closed",
    b'image,label\n"light/1.png,light\n' + b"dark/2.png,dark\n" * 9000:
        "list.csv:2: a value of the row that begins in this line has more than 131,072 characters: .* a quote",
    b'image,label\n"light/1.png"x,light\n': "list.csv:2: the line is not valid CSV",
    b"image,label\n": "has no rows after its header",
    b"": "is empty",
}


@pytest.mark.parametrize("content", LISTS, ids=lambda content: repr(content)[:30])
def test_a_bad_list_is_explained(folder, content):
    (folder / "list.csv").write_bytes(content)
    with pytest.raises(DataError, match=LISTS[content]) as error:
        ImageFolderDataLayer({**folder_params(folder), "folder": None, "dataset_files": [str(folder / "list.csv")]})
    assert "\n" not in str(error.value)


def test_folders_that_do_not_fit_the_classes(folder):
    (folder / "other").mkdir()
    (folder / "other/1.jpg").write_bytes(JPEG)
    (folder / "dark/notes.txt").write_text("x")
    layer = ImageFolderDataLayer(folder_params(folder))
    assert layer.report_dropped() == {"in folders that are not among the classes, such as other": 1,
                                      "not JPEG, PNG, GIF or BMP by their suffix": 1}
    with pytest.raises(DataError, match="of the class blue has no images"):
        ImageFolderDataLayer(folder_params(folder, classes=["dark", "light", "blue"]))
    with pytest.raises(ConfigError, match=r"classes' is missing: list .* such as \['dark', 'light', 'other'\]"):
        ImageFolderDataLayer(folder_params(folder, classes=[]))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        ImageFolderDataLayer(folder_params(folder / "nowhere"))
    with pytest.raises(UserError, match="a folder without images"):
        (folder / "empty").mkdir()
        ImageFolderDataLayer.params_for_files([str(folder / "empty")])
    with pytest.raises(DataError, match="contains images, but no folders: .* --infer_files=.*/dark classifies"):
        ImageFolderDataLayer(folder_params(folder / "dark", mode="infer"))
    (folder / "names.txt").write_text("dark\n\nlight")
    with pytest.raises(DataError, match="must have a name in each line"):
        ImageFolderDataLayer(folder_params(folder, classes=[], class_file=str(folder / "names.txt")))


def test_what_is_left_out_is_said_when_a_run_starts(folder, capfd):
    ImageFolderDataLayer(folder_params(folder, mode="eval"))
    assert not capfd.readouterr().out
    (folder / "light/notes.txt").write_text("x")
    (folder / "light").rename(folder / "Light")
    params = folder_params(folder, mode="eval", train_crop="centre")
    for others in ({}, {"cache_images": True}):
        ImageFolderDataLayer({**params, **others})
        out = capfd.readouterr().out
        assert "Left out 3 files: in folders that are not among the classes, such as Light (eval)" in out
        assert "Left out 1 file: not JPEG, PNG, GIF or BMP by their suffix (eval)" in out
        assert "Classes without images: 1 of 2, such as light (eval)" in out
    ImageFolderDataLayer.params_for_files([str(folder)])
    assert f"Left out 1 file of {folder}: not JPEG" in capfd.readouterr().out


@pytest.mark.parametrize("others,words", [
    ({"crop_area": [0.5]}, "crop_area' must be a list of a smallest and a largest number"),
    ({"crop_area": ["a", 1.0]}, "crop_area' must be a list of a smallest and a largest number"),
    ({"crop_area": [0.9, 0.5]}, "crop_area' must be a list of a smallest and a largest number"),
    ({"resize_size": 5}, "must be at least image_size, which is"),
    ({"dataset_files": ["x.csv"]}, "exactly one of folder and dataset_files"),
    ({"cache_images": True}, "set train_crop to padded or centre"),
    ({"classes": ["dark", "dark"]}, "names a class twice"),
    ({"class_file": "names.txt"}, "gives both classes and class_file: remove one"),
])
def test_contradictions_are_explained(folder, others, words):
    with pytest.raises(ConfigError, match=words):
        ImageFolderDataLayer(folder_params(folder, **others))


@pytest.mark.parametrize("others", [{"image_size": 33, "resize_size": 40}, {"resize_size": 40}, {"resize_size": None}])
def test_sizes_of_cifar(others):
    with pytest.raises(ConfigError, match="but the images have 32 pixels per side: set image_size to at most 32"):
        CifarDataLayer({"data_dir": "nowhere", "mode": "interactive_infer", **others})


@pytest.mark.parametrize("damage,words", [
    (lambda data: data[:-1], "is not a multiple of the 3,073 bytes"),
    (lambda data: b"\x0a" + data[1:], "image 1: the label is 10, but CIFAR-10 has labels from 0 to 9"),
    (lambda data: b"", "has 0 bytes"),
])
def test_damaged_binary_files_of_cifar(tmp_path, damage, words):
    write_cifar(tmp_path / "cifar", True)
    path = tmp_path / "cifar/test_batch.bin"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=words):
        CifarDataLayer({"data_dir": str(tmp_path / "cifar"), "mode": "eval"})


class _Harmful:
    def __reduce__(self):
        return (print, ("code of a pickle was executed",))


def test_damaged_python_files_of_cifar(tmp_path, capfd):
    import pickle

    write_cifar(tmp_path / "cifar", False)
    path = tmp_path / "cifar/test_batch"
    for content, words in ((pickle.dumps(_Harmful()), "which is not data"), (b"nonsense", "not a pickled batch file"),
                           (pickle.dumps({b"data": [1]}), "it must contain an array data"),
                           (pickle.dumps({b"\xff": 1}), "is not a pickled batch file"),
                           (pickle.dumps({b"data": np.zeros([1, 3072], np.uint8), b"labels": [2**70]}),
                            "it must contain an array data")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            CifarDataLayer({"data_dir": str(tmp_path / "cifar"), "mode": "eval"})
    assert "executed" not in capfd.readouterr().out
    (tmp_path / "cifar/data_batch_3").unlink()
    with pytest.raises(DataError, match="data_batch_3 does not exist, but .*data_batch_1 does"):
        CifarDataLayer({"data_dir": str(tmp_path / "cifar")})
    with pytest.raises(DataError, match="has no file train.bin or train of CIFAR-100"):
        CifarDataLayer({"data_dir": str(tmp_path / "cifar"), "num_classes": 100})


@pytest.mark.parametrize("part", ["length", "label", "checksum"])
def test_a_changed_byte_of_a_tfrecord_is_found(tmp_path, part, capfd):
    path = tmp_path / "validation-00000-of-00001"
    write_records(path, [0, 1, 2], [1, 2, 1])
    params = {"num_classes": 2, "image_size": 6, "mode": "eval", "data_dir": str(tmp_path)}
    content = path.read_bytes()
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    second = len(records[0]) + 16
    label = records[1].index(b"image/class/label") + len(b"image/class/label") + 6
    assert records[1][label] == 2
    place, value = {"length": (second + 11, content[second + 11] ^ 1), "label": (second + 12 + label, 1),
                    "checksum": (second + 12 + len(records[1]), content[second + 12 + len(records[1])] ^ 1)}[part]
    path.write_bytes(content[:place] + bytes([value]) + content[place + 1:])
    layer = ImagenetDataLayer(params)
    for use in (layer.examine, lambda: layer.make_batch(np.array([0, 1]))):
        with pytest.raises(DataError, match="validation-00000-of-00001, record 2 cannot be read: corrupted record at"):
            use()
    assert layer.make_batch(np.array([0, 2]))["target_tensors"][0].tolist() == [[1, 0], [1, 0]]
    skipping = ImagenetDataLayer({**params, "on_bad_example": "skip"})
    assert skipping.make_batch(np.arange(3))["ids"].tolist() == [0, 2]


def test_damaged_tfrecords(tmp_path):
    path = tmp_path / "validation-00000-of-00001"
    params = {"num_classes": 2, "image_size": 6, "mode": "eval", "data_dir": str(tmp_path)}
    write_records(path, [0, 1], [1, 3])
    with pytest.raises(DataError, match=r"record 2 cannot be read: its label is not one of the numbers from 1 to "
                       r"2\. Correct"):
        ImagenetDataLayer(params).make_batch(np.arange(2))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="record 2: the file ends within the record"):
        ImagenetDataLayer(params)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        ImagenetDataLayer(params)
    path.rename(tmp_path / "validation-00000-of-00004")
    with pytest.raises(DataError, match="has 1 files validation-…, but according to their names there should be 4"):
        ImagenetDataLayer(params)
    (tmp_path / "validation-00000-of-00004").unlink()
    with pytest.raises(DataError, match="has neither TFRecord files validation-00000-of-… nor a folder val"):
        ImagenetDataLayer(params)
