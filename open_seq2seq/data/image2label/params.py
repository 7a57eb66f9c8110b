"""Parameters that data layers of images share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.image2label.augmentation import LARGEST_MAGNITUDE, OPERATIONS

TRAIN_CROPS = ("resized", "padded", "centre")
STANDARDIZATIONS = ("image", "imagenet", "none")


def image_params(image_size: int, resize_size: int | None, train_crop: str, standardize: str) -> dict[str, Any]:
    """Returns the optional parameters of a data layer of images.

    Args:
      image_size: default of ``image_size``.
      resize_size: default of ``resize_size``.
      train_crop: default of ``train_crop``.
      standardize: default of ``standardize``.
    """
    return {
        **DataLayer.get_optional_params(),
        "batch_size_unit": Param(["images", "sentences"], "images", "The batch size counts images; the value "
                                 "sentences means the same.", on_change=FREE),
        "image_size": Param(int, image_size, "Height and width of the images that the model gets.", "pixels",
                            minimum=1, maximum=8192, on_change=REFUSE),
        "resize_size": Param((int, type(None)), resize_size, "Height and width to which images are resized before the "
                             "crop in evaluation and, unless train_crop is resized, in training: the shorter side is "
                             "resized to this size, and the square in the centre is kept. By default image_size · "
                             "256 / 224.",
                             "pixels", minimum=1, maximum=8192),
        "train_crop": Param(list(TRAIN_CROPS), train_crop, "Crop of training images. resized: a box of random "
                            "position, area and shape, resized to image_size. padded: a random square of the image, "
                            "padded by crop_padding. centre: as in evaluation."),
        "crop_padding": Param(int, 2, "Number of zeros added on each side before a padded crop.", "pixels", minimum=0,
                              maximum=1000),
        "crop_area": Param(list, [0.05, 1.0], "Smallest and largest area of a resized crop, as fractions of the image.",
                           above=0.0, maximum=1.0),
        "crop_ratio": Param(list, [0.75, 1.33], "Smallest and largest ratio of width to height of a resized crop.",
                            above=0.0, maximum=100.0),
        "random_flip": Param(bool, True, "Whether training images are mirrored with a probability of 50 %."),
        "color_jitter": Param(float, 0.0, "Largest relative change of brightness, contrast and saturation of training "
                              "images; 0 disables it.", minimum=0.0, maximum=1.0),
        "randaugment_layers": Param(int, 0, "Number of operations applied to each training image, drawn from "
                                    + ", ".join(OPERATIONS) + "; 0 disables them.", minimum=0, maximum=100),
        "randaugment_magnitude": Param(float, 5.0, "Strength of the operations that randaugment_layers applies.",
                                       minimum=0.0, maximum=LARGEST_MAGNITUDE),
        "mixup": Param(float, 0.0, "Mixup of each training image with a random image of the data set; the image's "
                       "share in the mixture has the distribution Beta(mixup, mixup). 0 disables mixup.",
                       minimum=0.0, maximum=100.0),
        "standardize": Param(list(STANDARDIZATIONS), standardize, "Standardisation. image: mean 0 and standard "
                             "deviation 1 in each image. imagenet: values minus the mean of ImageNet, divided by "
                             "127.5. none: values from 0 to 1.", on_change=REFUSE),
        "on_bad_example": Param(["stop", "skip"], "stop", "What to do with an image that cannot be decoded: stop with "
                                "an error that names it, or leave it out and report it."),
        "files": Param(list, [], "Images without labels, for inference; --infer_files sets it.", on_change=FREE),
        "num_parallel_calls": Param(int, 16, "Maximum number of batches that are made at the same time.", "batches",
                                    minimum=1, maximum=1000, on_change=FREE),
        "shuffle_buffer": Param((int, type(None)), None, "Accepted for old configs; has no effect, because the whole "
                                "data set is shuffled.", on_change=FREE),
    }


def image_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one message for each contradiction among the parameters; ``path`` is their path in the config."""
    problems = []
    for name in ("crop_area", "crop_ratio"):
        value = params[name]
        if len(value) != 2 or any(type(one) not in (int, float) for one in value) or not value[0] <= value[1]:
            problems.append(f"'{path}/{name}' must be a list of a smallest and a largest number, got {value}.")
    least = params["image_size"]
    if resize_size(params) < least:
        problems.append(f"'{path}/resize_size' is {params['resize_size']}, but must be at least image_size, which is "
                        f"{least}: raise resize_size or lower image_size.")
    return problems


def resize_size(params: Mapping[str, Any]) -> int:
    """Returns the height and width to which images are resized before a crop."""
    return params["resize_size"] or round(params["image_size"] * 256 / 224)
