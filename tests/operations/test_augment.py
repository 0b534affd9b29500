"""Augmentation of images: values are Pillow's, where it has the change; random numbers are the
record's.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from sklearn.datasets import load_sample_images

from headrace import (
    CenterCrop,
    ColorJitter,
    CutMix,
    GaussianBlur,
    MixUp,
    Normalize,
    Pad,
    RandAugment,
    RandomErasing,
)
from headrace.errors import ImageError
from headrace.operations.images import colours, rand_augment

PHOTO = load_sample_images().images[0][:61, :90]
PICTURE = Image.fromarray(PHOTO)
FLOATS = (PHOTO / np.float32(255)).astype(np.float32)
CLIP = np.stack([np.roll(PHOTO, 7 * frame, axis=1) for frame in range(3)])


def rng(seed=0):
    """The generator of a record."""
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("size", "top", "left"), [((21, 40), 20, 25), ((60, 89), 0, 0), (61, 0, 14)]
)
def test_the_centre_is_cut_out(size, top, left):
    """At the pixel that torchvision rounds to; of each frame of a clip."""
    height, width = size if isinstance(size, tuple) else (size, size)
    np.testing.assert_array_equal(
        CenterCrop(size).map(PHOTO), PHOTO[top : top + height, left : left + width]
    )
    assert CenterCrop(size).map({"image": CLIP})["image"].shape == (3, height, width, 3)


def test_an_image_that_is_too_small_is_padded_before():
    """With zeros, equally on both sides."""
    found = CenterCrop((63, 40)).map(PHOTO)
    np.testing.assert_array_equal(found[1:-1], PHOTO[:, 25:65])
    assert not found[[0, -1]].any()


@pytest.mark.parametrize(
    ("padding", "sides"), [(2, (2, 2, 2, 2)), ((3, 1), (3, 1, 3, 1)), ((4, 3, 2, 1), (4, 3, 2, 1))]
)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_sides_are_padded(padding, sides, mode):
    """(left, top, right, bottom), with Pillow's values for a constant, and NumPy's for
    the others.
    """
    left, top, right, bottom = sides
    fill = {"fill": (9, 8, 7)} if mode == "constant" else {}
    found = Pad(padding, mode=mode, **fill).map(PHOTO)
    if mode == "constant":
        expected = np.asarray(ImageOps.expand(PICTURE, sides, (9, 8, 7)))
    else:
        expected = np.pad(PHOTO, ((top, bottom), (left, right), (0, 0)), mode=mode)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(Pad(padding, mode=mode, **fill).map(CLIP)[0], expected)


@pytest.mark.parametrize(
    "images",
    [PHOTO, FLOATS, CLIP, PHOTO.astype(np.uint16) * 257],
    ids=["uint8", "float", "clip", "uint16"],
)
def test_channels_are_normalized(images):
    """Integers as shares of the largest one."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    found = Normalize(mean, std).map(images)
    most = np.iinfo(images.dtype).max if images.dtype.kind == "u" else 1
    np.testing.assert_allclose(found, (images / most - mean) / std, atol=1e-5)
    assert found.dtype == np.float32


ENHANCED = {
    colours.with_brightness: ImageEnhance.Brightness,
    colours.with_contrast: ImageEnhance.Contrast,
    colours.with_saturation: ImageEnhance.Color,
    rand_augment.sharpness: ImageEnhance.Sharpness,
}


@pytest.mark.parametrize("change", ENHANCED, ids=lambda change: change.__name__)
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.7])
def test_colours_are_changed_as_by_pillow(change, factor):
    """To one step, as Pillow rounds another time; floats likewise."""
    expected = np.asarray(ENHANCED[change](PICTURE).enhance(factor)).astype(int)
    found = change(PHOTO, factor)
    assert found.dtype == np.uint8
    assert np.abs(found - expected).max() <= 1
    if change is not rand_augment.sharpness:
        assert np.abs(change(FLOATS, factor) * 255 - expected).max() < 3


@pytest.mark.parametrize("turn", [-0.5, -0.1, 0.0, 0.25])
def test_the_hue_is_turned_as_by_pillow(turn):
    """Nearly: Pillow keeps hue and saturation in 256 steps."""
    hue, saturation, value = PICTURE.convert("HSV").split()
    hue = Image.fromarray((np.asarray(hue) + np.uint8(int(turn * 255) % 256)).astype(np.uint8))
    expected = np.asarray(Image.merge("HSV", (hue, saturation, value)).convert("RGB")).astype(int)
    assert np.abs(colours.with_hue(PHOTO, turn) - expected).mean() < 3
    assert np.abs(colours.with_hue(FLOATS, turn) * 255 - expected).mean() < 3
    if not turn:
        np.testing.assert_array_equal(colours.with_hue(PHOTO, turn), PHOTO)


def test_jitter_draws_from_its_ranges():
    """A range of one number is that change alone; without ranges nothing happens; all frames get
    the same factors.
    """
    np.testing.assert_array_equal(ColorJitter().random_map(PHOTO, rng()), PHOTO)
    only = ColorJitter(saturation=(0.5, 0.5)).random_map(PHOTO, rng())
    np.testing.assert_array_equal(only, colours.with_saturation(PHOTO, 0.5))
    means = [
        ColorJitter(brightness=0.5).random_map(PHOTO, rng(seed)).mean() / PHOTO.mean()
        for seed in range(200)
    ]
    assert 0.49 <= min(means) < 0.55
    assert 1.2 < max(means) <= 1.51
    assert abs(np.mean(means) - 1) < 0.1
    jitter = ColorJitter(0.4, 0, 0.4, 0.1)
    clip = jitter.random_map(CLIP, rng(3))
    for frame, image in zip(clip, CLIP):
        np.testing.assert_array_equal(frame, jitter.random_map(image, rng(3)))
    orders = {tuple(jitter.random_map(PHOTO, rng(seed))[0, 0]) for seed in range(20)}
    assert len(orders) > 15


@pytest.mark.parametrize("sigma", [0.4, 1.5])
def test_images_are_blurred(sigma):
    """By the Gaussian of the width that was drawn: here computed pixel by pixel."""
    weights = np.exp(-((np.arange(-3, 4) / sigma) ** 2) / 2)
    weights /= weights.sum()
    padded = np.pad(PHOTO.astype(float), ((3, 3), (3, 3), (0, 0)), mode="reflect")
    rows = sum(weight * padded[shift : shift + 61] for shift, weight in enumerate(weights))
    expected = sum(weight * rows[:, shift : shift + 90] for shift, weight in enumerate(weights))
    found = GaussianBlur(7, sigma).random_map(PHOTO, rng())
    assert np.abs(found - expected).max() < 2
    blurred = GaussianBlur((3, 5)).random_map(CLIP, rng(1))
    np.testing.assert_array_equal(blurred[1], GaussianBlur((3, 5)).random_map(CLIP[1], rng(1)))


def test_a_rectangle_is_erased():
    """With the area and shape that were asked for, in all frames; never if the probability is 0."""
    ones, areas, ratios = np.ones((2, 100, 80, 3), np.uint8), [], []
    for seed in range(200):
        found = RandomErasing(1.0, scale=(0.1, 0.3), ratio=(0.5, 2)).random_map(ones, rng(seed))
        gone = found[0, :, :, 0] == 0
        np.testing.assert_array_equal(found[0], found[1])
        rows, columns = np.flatnonzero(gone.any(axis=1)), np.flatnonzero(gone.any(axis=0))
        assert gone.sum() == len(rows) * len(columns)
        areas.append(gone.mean())
        ratios.append(len(columns) / len(rows))
    assert 0.09 < min(areas) < 0.13 < 0.26 < max(areas) < 0.31
    assert 0.45 < min(ratios) < 0.7 < 1.4 < max(ratios) < 2.1
    assert (ones == 1).all()
    assert RandomErasing(0.0).random_map(ones, rng()) is ones
    erased = sum((RandomErasing(0.3).random_map(ones, rng(seed)) == 0).any() for seed in range(300))
    assert 60 < erased < 120


@pytest.mark.parametrize("value", [(1, 2, 3), "random"])
def test_the_erased_pixels_get_the_value(value):
    """One for each channel, or noise over all values."""
    found = RandomErasing(1.0, (0.5, 0.5), (1, 1), value).random_map(
        np.full((80, 80, 3), 255, np.uint8), rng()
    )
    changed = found[(found != 255).any(axis=2)]
    if value == "random":
        assert changed.std() > 60
        assert RandomErasing(1.0, (0.5, 0.5), (1, 1), value).random_map(FLOATS, rng()).max() <= 1
    else:
        assert (changed == value).all()


TRANSFORMED = {
    rand_augment.shear_x: lambda value: (1, value, 0, 0, 1, 0),
    rand_augment.shear_y: lambda value: (1, 0, 0, value, 1, 0),
}


@pytest.mark.parametrize("change", TRANSFORMED, ids=lambda change: change.__name__)
@pytest.mark.parametrize("value", [-0.3, 0.1])
def test_images_are_sheared_as_by_pillow(change, value):
    """Pixel by pixel, but for some at the edges of pixels."""
    affine = Image.Transform.AFFINE
    expected = np.asarray(
        PICTURE.transform(PICTURE.size, affine, TRANSFORMED[change](value), fillcolor=(9, 9, 9))
    )
    assert (change(PHOTO, value, 9) != expected).mean() < 0.02


@pytest.mark.parametrize("degrees", [-30, 7, 84])
def test_images_are_rotated_as_by_pillow(degrees):
    """Counter-clockwise around the centre."""
    expected = np.asarray(PICTURE.rotate(degrees, fillcolor=(9, 8, 7)))
    assert (rand_augment.rotate(PHOTO, degrees, (9, 8, 7)) != expected).mean() < 0.03


def test_images_are_moved():
    """To the right and down; by whole pixels."""
    np.testing.assert_array_equal(rand_augment.translate_x(PHOTO, 0.1, 5)[:, 9:], PHOTO[:, :-9])
    np.testing.assert_array_equal(rand_augment.translate_y(PHOTO, -0.1, 5)[:-6], PHOTO[6:])
    assert (rand_augment.translate_x(PHOTO, 0.1, 5)[:, :9] == 5).all()


@pytest.mark.parametrize(
    "picture",
    [PICTURE, PICTURE.convert("L"), Image.new("RGB", (9, 9), (3, 200, 7))],
    ids=["RGB", "L", "one colour"],
)
def test_other_changes_are_those_of_pillow(picture):
    """To the bit, also of grey images and of one colour."""
    image = np.asarray(picture).reshape(picture.height, picture.width, -1)
    pairs = [
        (rand_augment.autocontrast(image), ImageOps.autocontrast(picture)),
        (rand_augment.equalize(image), ImageOps.equalize(picture)),
        *(
            (rand_augment.posterize(image, bits), ImageOps.posterize(picture, bits))
            for bits in (1, 4, 8)
        ),
        *(
            (rand_augment.solarize(image, limit), ImageOps.solarize(picture, limit))
            for limit in (0, 100, 256)
        ),
    ]
    for found, expected in pairs:
        np.testing.assert_array_equal(found, np.asarray(expected).reshape(image.shape))
        assert found.dtype == np.uint8


def test_sharpness_smooths_as_pillow():
    """The least factor is Pillow's filter itself."""
    np.testing.assert_allclose(
        rand_augment.sharpness(PHOTO, 0), np.asarray(PICTURE.filter(ImageFilter.SMOOTH)), atol=1
    )


def test_rand_augment_draws_its_changes(monkeypatch):
    """Each as often as the others, in both directions, with the strength that was asked for."""
    drawn = []

    def noted(name, change):
        def function(image, value, fill):
            drawn.append((name, round(value, 4)))
            return change.function(image, value, fill)

        return change._replace(function=function)

    monkeypatch.setattr(
        rand_augment,
        "CHANGES",
        {name: noted(name, each) for name, each in rand_augment.CHANGES.items()},
    )
    for seed in range(700):
        assert RandAugment(2, 15).random_map(PHOTO[:8, :8], rng(seed)).shape == (8, 8, 3)
    counts = {name: sum(each == name for each, _ in drawn) for name in rand_augment.CHANGES}
    assert len(drawn) == 1400
    assert 65 < min(counts.values()) < max(counts.values()) < 140
    assert {value for name, value in drawn if name == "rotate"} == {15.0, -15.0}
    assert {value for name, value in drawn if name == "posterize"} == {2.0}
    assert RandAugment(0).random_map(PHOTO, rng()) is PHOTO


def test_all_frames_get_the_same_changes():
    """A clip is changed like each of its frames."""
    for seed in range(8):
        clip = RandAugment(3, 20).random_map(CLIP, rng(seed))
        np.testing.assert_array_equal(clip[2], RandAugment(3, 20).random_map(CLIP[2], rng(seed)))


BATCH = {
    "image": np.stack([np.full((60, 80, 3), 50 * number, np.uint8) for number in range(4)]),
    "label": np.array([2, 0, 1, 1]),
}


def test_mixup_mixes_images_and_labels_in_the_same_share():
    """Each image with the one before it; the dtype is kept."""
    shares = []
    for seed in range(100):
        found = MixUp(0.4, num_classes=3).random_map(BATCH, rng(seed))
        labels = found["label"]
        share = float(labels[1, 0])
        rest = 1 - share
        np.testing.assert_allclose(
            labels, [[0, rest, share], [share, 0, rest], [rest, share, 0], [0, 1, 0]], atol=1e-6
        )
        np.testing.assert_allclose(found["image"][1, 0, 0, 0], 50 * share, atol=0.51)
        np.testing.assert_allclose(found["image"][0, 0, 0, 0], 150 * (1 - share), atol=0.51)
        assert (found["image"].dtype, labels.dtype) == (np.uint8, np.float32)
        shares.append(share)
    assert abs(np.mean(shares) - 0.5) < 0.1
    assert np.std(shares) > 0.3  # of the beta distribution: 0.37
    assert BATCH["label"].tolist() == [2, 0, 1, 1]


def test_cutmix_labels_are_shares_of_the_area():
    """A rectangle of each image is that of the one before it."""
    areas = []
    for seed in range(200):
        found = CutMix(num_classes=3).random_map(BATCH, rng(seed))
        kept = (found["image"][1, :, :, 0] == 50).mean()
        np.testing.assert_allclose(found["label"][1], [kept, 0, 1 - kept], atol=1e-6)
        assert {*np.unique(found["image"][2])} <= {50, 100}
        areas.append(kept)
    assert min(areas) < 0.3 < 0.9 < max(areas)


def test_labels_may_be_shares_already():
    """As an operation before made them: MixUp after CutMix. `alpha` may be any real number."""
    assert repr(MixUp(np.float32(0.5))) == repr(MixUp(0.5))
    assert repr(RandomErasing(np.float32(0.5), scale=(np.float32(0.25), 1))) == repr(
        RandomErasing(0.5, scale=(0.25, 1))
    )
    np.testing.assert_array_equal(Pad(1, fill=np.uint8(7)).map(PHOTO), Pad(1, fill=7).map(PHOTO))
    found = MixUp().random_map(CutMix(num_classes=3).random_map(BATCH, rng(1)), rng(2))
    np.testing.assert_allclose(found["label"].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CenterCrop(0), "size"),
        (lambda: Pad((1, 2, 3)), r"padding=\(1, 2, 3\) must have 1, 2 or 4 numbers, not 3"),
        (lambda: Pad(-1), "padding"),
        (lambda: Pad(1, mode="wrap"), "mode='wrap'"),
        (lambda: Normalize(0, 0), "std=0 contains 0"),
        (lambda: Normalize("x", 1), "mean='x'"),
        (lambda: Normalize((), 1), r"mean=\(\)"),
        (lambda: ColorJitter(hue=0.6), "hue=0.6 is not valid"),
        (lambda: ColorJitter(brightness=(2, 1)), r"brightness=\(2, 1\)"),
        (lambda: ColorJitter(contrast="a"), "contrast='a'"),
        (lambda: GaussianBlur(4), "kernel_size=4"),
        (lambda: GaussianBlur(3, 0), "sigma=0"),
        (lambda: RandomErasing(1.5), "probability=1.5"),
        (lambda: RandomErasing(value="noise"), "value='noise' must be a number, .* or \"random\""),
        (lambda: RandomErasing(value=None), "value=None must be a number"),
        (
            lambda: RandomErasing(value=("a", 1)),
            r"value=\('a', 1\) must be a number, .* for each channel",
        ),
        (lambda: Pad(1, fill=()), r"fill=\(\) must be a number"),
        (lambda: RandAugment(fill=[[1, 2, 3]]), r"fill=\[\[1, 2, 3\]\] must be a number"),
        (lambda: RandAugment(magnitude=31), "magnitude=31"),
        (lambda: RandAugment(-1), "num_ops=-1"),
        (lambda: MixUp(0), "alpha=0"),
        (lambda: MixUp(math.inf), "alpha=inf must be a finite number above 0"),
        (lambda: CutMix(num_classes=0), "num_classes=0 .* Pass the number of classes"),
    ],
)
def test_arguments_are_checked(make, text):
    """When the operation is made; the message has the value."""
    with pytest.raises(TypeError, match=r"padding=1\.5 is a float\. Pass a number of pixels"):
        Pad(1.5)
    np.testing.assert_array_equal(Pad(np.int64(2)).map(PHOTO), Pad(2).map(PHOTO))
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize("value", [np.float32(3), np.array(3), [3], np.array([3, 3, 3])])
def test_a_value_of_pixels_may_be_any_number_or_list(value):
    """Of Python or NumPy; one number is for all channels."""
    np.testing.assert_array_equal(Pad(1, fill=value).map(PHOTO), Pad(1, fill=3).map(PHOTO))
    for make in (
        lambda value: RandomErasing(1.0, value=value),
        lambda value: RandAugment(fill=value),
    ):
        np.testing.assert_array_equal(
            make(value).random_map(PHOTO, rng()), make(3).random_map(PHOTO, rng())
        )


@pytest.mark.parametrize(
    ("operation", "element", "text"),
    [
        (Normalize((0, 0), 1), PHOTO, "3 channels, but mean= has 2 numbers"),
        (
            RandomErasing(1.0, value=(1, 2)),
            PHOTO,
            r"3 channels, but value=\(1, 2\) has 2 numbers. Pass one number for each",
        ),
        (
            RandomErasing(1.0, value=300),
            PHOTO,
            "uint8, which cannot hold value=300. Pass numbers from 0 to 255",
        ),
        (RandomErasing(1.0, value=math.nan), PHOTO, "uint8, which cannot hold value=nan"),
        (Pad(1, fill=(1, 2)), PHOTO, r"3 channels, but fill=\(1, 2\) has 2 numbers"),
        (Pad(1, fill=(0, 0, -1)), PHOTO, r"uint8, which cannot hold fill=\(0, 0, -1\)"),
        (RandAugment(fill=(1, 2)), PHOTO, r"3 channels, but fill=\(1, 2\) has 2 numbers"),
        (ColorJitter(0.1), PHOTO.astype(np.int32), "not int32 with 3 channels"),
        (RandAugment(), FLOATS, "not float32"),
        (GaussianBlur(3), PHOTO.astype(bool), "not bool"),
        (MixUp(num_classes=2), BATCH, "from 0 to 2, but num_classes=2"),
        (MixUp(), BATCH, r"Pass integers and num_classes="),
        (
            MixUp(num_classes=3),
            {**BATCH, "label": BATCH["label"][:, None]},
            r"integer labels .* not int64\[4, 1\]",
        ),
        (CutMix(num_classes=3), {"image": PHOTO, "label": 1}, "Use it after Batch"),
        (
            CutMix(num_classes=3),
            {**BATCH, "label": [[1], [0, 2], [], []]},
            r"integer labels .* not object\[4\]",
        ),
        (CutMix(num_classes=3), {"image": PHOTO}, "dicts with the keys 'image' and 'label'"),
        (CutMix(num_classes=3), [1, 2], "dicts with the keys"),
        (CutMix(num_classes=3), 3, "dicts with the keys"),
    ],
)
def test_elements_that_do_not_fit_are_refused(operation, element, text):
    """The message says what was given, and what to do."""
    with pytest.raises(ImageError, match=text):
        operation.random_map(element, rng()) if hasattr(operation, "random_map") else operation.map(
            element
        )
