"""Operations on images: what they give, what they refuse, and that their random numbers are the
loader's.
"""

from __future__ import annotations

import io
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps, ImageSequence
from sklearn.datasets import load_sample_images

import headrace
from headrace import DecodeImage, RandomFlip, RandomResizedCrop, Resize
from headrace.errors import ImageError, SourceNotFoundError
from headrace.operations.images.headers import size_in_header

PHOTO = load_sample_images().images[0][:201, :300]


def encoded(array, kind, **options):
    """The bytes of an image file that Pillow writes."""
    out = io.BytesIO()
    Image.fromarray(array).save(out, kind, **options)
    return out.getvalue()


JPEG = encoded(PHOTO, "JPEG", quality=90)
PNG = encoded(PHOTO, "PNG")
DEEP = np.arange(60, dtype=np.uint16).reshape(6, 10) * 1000


def test_values_are_those_of_pillow():
    """Of JPEGs to the last bit, as both have libjpeg's arithmetic; of PNG what was written."""
    np.testing.assert_array_equal(DecodeImage().map(JPEG), np.asarray(Image.open(io.BytesIO(JPEG))))
    np.testing.assert_array_equal(DecodeImage().map(PNG), PHOTO)


FILES = [
    *((kind, mode) for kind in ("PNG", "BMP") for mode in ("L", "RGB", "P", "RGBA")),
    *(("WEBP", mode) for mode in ("L", "RGB", "RGBA")),
    *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "mode"), FILES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_are_as_many_as_one_asks_for(kind, channels, mode):
    """Whatever the file has: grey, a palette, opacity, or the colours of print."""
    image = Image.fromarray(PHOTO).convert(mode)
    out = io.BytesIO()
    image.save(out, kind, quality=95)
    found = DecodeImage(channels=channels).map(out.getvalue())
    assert (found.shape, found.dtype) == ((*PHOTO.shape[:2], channels), np.uint8)
    expected = np.asarray(
        image.convert("RGB" if mode == "P" else mode).convert(
            {1: "L", 3: "RGB", 4: "RGBA"}[channels]
        )
    )
    assert np.abs(found.squeeze().astype(int) - expected).mean() < (
        12 if mode == "CMYK" or kind == "WEBP" else 3
    )


def test_paths_and_all_kinds_of_bytes_are_decoded(tmp_path):
    """A string, a path, objects of bytes and arrays; a clip of paths, and a table of files."""
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    decode = DecodeImage()
    for image in (
        path,
        str(path),
        np.str_(path),
        bytearray(PNG),
        memoryview(PNG),
        np.frombuffer(PNG, np.uint8),
    ):
        np.testing.assert_array_equal(decode.map({"image": image})["image"], PHOTO)
    for clip in (
        [path, path],
        (str(path),) * 2,
        np.array([str(path)] * 2),
        [memoryview(PNG), bytearray(PNG)],
    ):
        assert decode.map(clip).shape == (2, *PHOTO.shape)
    table = pd.DataFrame({"image": [str(path)] * 4, "label": range(4)})
    source = table.to_dict("records")
    for workers in (0, 1):
        (batch,) = headrace.load(
            source, transformations=[decode], batch_size=4, num_epochs=1, worker_count=workers
        )
        assert (batch["image"].shape, batch["label"].tolist()) == ((4, *PHOTO.shape), [0, 1, 2, 3])
    with pytest.raises(SourceNotFoundError, match=r"nowhere\.png"):
        decode.map(str(tmp_path / "nowhere.png"))
    with pytest.raises(
        ImageError,
        match=r"the bytes or the path of an image file, not int 3\. If the element is a dict",
    ):
        decode.map(3)


Image.init()  # older versions of Pillow have no AVIF

OPAQUE_AND_NOT = np.dstack(
    [PHOTO, np.where(np.arange(300) < 150, 255, 64) * np.ones((201, 1), int)]
).astype(np.uint8)
CLEAR = {
    "PNG": {},
    "WEBP": {"lossless": True, "exact": True},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    "TIFF": {},
    "JPEG2000": {},
}


def pillow(data, channels):
    """What Pillow makes of a file, before it is turned."""
    with Image.open(io.BytesIO(data)) as image:
        image.getexif()[274] = 1  # TIFF files are turned when they are loaded
        if image.format == "TIFF":
            image.tag_v2[274] = 1
        found = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
    return found.reshape(*found.shape[:2], channels)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("mode", ["RGBA", "RGB", "LA", "L"])
@pytest.mark.parametrize("kind", [kind for kind in CLEAR if kind in Image.SAVE])
def test_opacity_and_orientation_change_no_colours(kind, mode, turned, channels):
    """Red stays red, nothing is multiplied by the opacity, and nothing is turned: as in Pillow, for
    each kind of file.
    """
    options = dict(CLEAR[kind])
    if turned:
        options |= (
            {"tiffinfo": {274: 6}}
            if kind == "TIFF"
            else {
                "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
            }
        )
    picture, out, straight = (
        Image.fromarray(OPAQUE_AND_NOT).convert(mode),
        io.BytesIO(),
        io.BytesIO(),
    )
    picture.save(out, kind, **options)
    # some versions of Pillow turn TIFF files, whatever is asked
    picture.save(straight, kind, **CLEAR[kind])
    data = out.getvalue()
    found = DecodeImage(channels=channels, orientation=False).map(data)
    expected = pillow(straight.getvalue(), channels)
    assert found.shape == expected.shape == (201, 300, channels)
    assert np.abs(found.astype(int) - expected).max() <= (6 if kind == "AVIF" else 1)


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_what_a_tiff_says_of_its_fourth_number_counts(channels, extra):
    """It is unused, opacity that the colours were multiplied by, or opacity; as in Pillow."""
    data = bytearray(encoded(OPAQUE_AND_NOT, "TIFF"))
    at = data.index(b"\x52\x01\x03\0\x01\0\0\0\x02\0")
    data[at + 8] = extra
    found = DecodeImage(channels=channels).map(bytes(data))
    assert np.abs(found.astype(int) - pillow(bytes(data), channels)).max() <= 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "I;16", "P", "1", "CMYK"])
def test_a_tiff_is_not_turned_if_one_says_so(kind, orientation):
    """Whatever its orientation, it is decoded like the same file without one."""
    photo = Image.fromarray(OPAQUE_AND_NOT[:20, 140:170])
    image = Image.fromarray(DEEP) if kind == "I;16" else photo.convert(kind)
    plain, turned = io.BytesIO(), io.BytesIO()
    image.save(plain, "TIFF")
    image.save(turned, "TIFF", tiffinfo={274: orientation})
    for channels in (1, 3, 4):
        decode = DecodeImage(channels=channels, orientation=False)
        np.testing.assert_array_equal(decode.map(turned.getvalue()), decode.map(plain.getvalue()))


def exif(orientation):
    """The EXIF data of a picture with an orientation."""
    data = Image.Exif()
    data[274] = orientation
    return data


TURNED = {
    "JPEG": {"quality": 95},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "AVIF": {"quality": 100},
}


@pytest.mark.parametrize("kind", [kind for kind in TURNED if kind in Image.SAVE])
def test_images_are_turned_as_their_header_says(kind):
    """For each orientation as by Pillow's function for it, whatever the number of channels."""
    for orientation in range(1, 9):
        data = encoded(PHOTO[:40, :60], kind, exif=exif(orientation), **TURNED[kind])
        # older Pillow turns a TIFF image twice
        plain = encoded(PHOTO[:40, :60], "PNG", exif=exif(orientation))
        with Image.open(io.BytesIO(plain if kind == "TIFF" else data)) as image:
            expected = ImageOps.exif_transpose(image)
        assert expected.size == ((60, 40) if orientation < 5 else (40, 60))
        for channels, mode in ((1, "L"), (3, "RGB"), (4, "RGBA")):
            found, wanted = (
                DecodeImage(channels=channels).map(data),
                np.asarray(expected.convert(mode)),
            )
            assert found.flags.c_contiguous
            # of older OpenCV
            limit = 3 if kind in ("JPEG", "AVIF") else 10 if (kind, channels) == ("TIFF", 1) else 1
            assert np.abs(found.squeeze().astype(int) - wanted).max() <= limit


@pytest.mark.parametrize("size", [(30, 20), (15, 40), (120, 80)])
def test_the_size_is_that_of_the_turned_image(size):
    """A JPEG that is decoded at a smaller scale is the turned picture, too."""
    data = encoded(PHOTO, "JPEG", quality=95, exif=exif(6))
    straight = encoded(np.rot90(PHOTO, -1), "JPEG", quality=95)
    found, expected = DecodeImage(size).map(data), DecodeImage(size).map(straight)
    assert found.shape == (*size, 3)
    # rows that are cut off were at another side of the file
    assert np.abs(found.astype(int) - expected).mean() < 6
    assert np.abs(found[::-1].astype(int) - expected).mean() > 20


def test_a_png_of_imagemagick_and_one_with_xmp_are_turned():
    """Their orientation is in text chunks, which Pillow reads."""
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_itxt(
        "XML:com.adobe.xmp", '<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    )
    assert DecodeImage().map(encoded(PHOTO, "PNG", pnginfo=info)).shape == (300, 201, 3)
    raw = exif(6).tobytes()
    info = PngInfo()
    info.add_text("Raw profile type exif", f"\nexif\n{len(raw):8}\n{raw.hex()}\n", zip=True)
    assert DecodeImage().map(encoded(PHOTO, "PNG", pnginfo=info)).shape == (300, 201, 3)


@pytest.mark.parametrize(
    "damaged", [b"", b"Exif\0\0", b"Exif\0\0MM\0*", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0xx"]
)
def test_a_damaged_header_turns_nothing(damaged):
    """The picture is decoded all the same."""
    segment = b"\xff\xe1" + (len(damaged) + 2).to_bytes(2) + damaged
    np.testing.assert_array_equal(
        DecodeImage().map(JPEG[:2] + segment + JPEG[2:]), DecodeImage().map(JPEG)
    )


def test_images_as_hugging_face_stores_them(tmp_path):
    """A dict of bytes and path, in a record, as the element itself, and in a clip."""
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    decode = DecodeImage()
    for stored in (
        {"bytes": PNG, "path": None},
        {"bytes": None, "path": str(path)},
        {"bytes": PNG},
        {"path": path},
    ):
        np.testing.assert_array_equal(decode.map({"image": stored, "label": 1})["image"], PHOTO)
        np.testing.assert_array_equal(decode.map(stored), PHOTO)
    assert decode.map([{"bytes": PNG, "path": None}] * 2).shape == (2, *PHOTO.shape)
    with pytest.raises(ImageError, match="no key 'image'"):
        decode.map({"bytes": None, "path": None})
    with pytest.raises(ImageError, match="the path of an image file, not dict"):
        decode.map({"image": {"bytes": None, "path": None}})


def test_masks_are_decoded_as_indices():
    """The indices of a palette, or the values of a grey file; a size takes the nearest ones, so
    there are no new ones.
    """
    indices = (np.arange(40)[:, None] // 10 * 3 + np.arange(60) // 20).astype(np.uint8)
    mask = Image.fromarray(indices)
    mask.putpalette(bytes(range(100, 136)))
    out = io.BytesIO()
    mask.save(out, "PNG")
    decode = DecodeImage(palette="indices")
    np.testing.assert_array_equal(decode.map(out.getvalue())[..., 0], indices)
    np.testing.assert_array_equal(DecodeImage().map(out.getvalue())[0, 0], [100, 101, 102])
    np.testing.assert_array_equal(decode.map(encoded(indices, "PNG"))[..., 0], indices)
    small = DecodeImage((13, 17), palette="indices").map(out.getvalue())
    assert (small.shape, small.dtype) == ((13, 17, 1), np.uint8)
    assert {*np.unique(small)} == {*np.unique(indices)}
    with pytest.raises(
        ImageError, match="of mode 'RGB', and palette=\"indices\" needs mode P, L or 1"
    ):
        decode.map(PNG)


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_all_frames_of_a_file_are_a_clip(kind):
    """As Pillow shows them one after another; the first one alone is the default."""
    frames = [Image.fromarray(np.roll(PHOTO[:40, :60], 7 * shift, axis=1)) for shift in range(3)]
    out, options = io.BytesIO(), {"lossless": True} if kind == "WEBP" else {}
    frames[0].save(out, kind, save_all=True, append_images=frames[1:], **options)
    with Image.open(io.BytesIO(out.getvalue())) as image:
        expected = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
    np.testing.assert_array_equal(DecodeImage(frames="all").map(out.getvalue()), expected)
    np.testing.assert_array_equal(DecodeImage().map(out.getvalue()), expected[0])
    assert DecodeImage(20, frames="all", channels=1).map({"image": out.getvalue()})[
        "image"
    ].shape == (3, 20, 20, 1)
    assert DecodeImage(frames="all").map(PNG).shape == (1, *PHOTO.shape)
    with pytest.raises(ImageError, match="3 frames of 40 × 60 pixels, more than max_pixels=5000"):
        DecodeImage(frames="all", max_pixels=5000).map(out.getvalue())


def test_the_first_frame_is_decoded_alone():
    """The limit of pixels counts it alone then; its values do not depend on the dtype."""
    frames, out = (
        [Image.fromarray(np.roll(PHOTO[:40, :60], 7 * shift, axis=1)) for shift in range(5)],
        io.BytesIO(),
    )
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    found = DecodeImage(max_pixels=2400).map(out.getvalue())
    np.testing.assert_array_equal(found, DecodeImage(frames="all").map(out.getvalue())[0])
    floats = DecodeImage(dtype=np.float32).map(out.getvalue())
    np.testing.assert_allclose(floats, found / np.float32(255), atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in TURNED if kind in Image.SAVE])
def test_images_of_floats_are_turned_like_others(kind):
    """Also those that another library decodes then."""
    data = encoded(PHOTO[:40, :60], kind, exif=exif(6), **TURNED[kind])
    floats, found = DecodeImage(dtype=np.float32).map(data), DecodeImage().map(data)
    assert floats.shape == found.shape == (60, 40, 3)
    assert np.abs(floats * 255 - found).max() < 3


def test_frames_of_16_bits_keep_them():
    """Those of a grey TIFF file, as microscopes write them."""
    frames, out = [Image.fromarray(DEEP), Image.fromarray(DEEP[::-1])], io.BytesIO()
    frames[0].save(out, "TIFF", save_all=True, append_images=frames[1:])
    found = DecodeImage(channels=1, dtype=np.uint16, frames="all").map(out.getvalue())
    np.testing.assert_array_equal(found[..., 0], [DEEP, DEEP[::-1]])
    np.testing.assert_array_equal(
        DecodeImage(frames="all").map(out.getvalue())[0, ..., 2], DEEP >> 8
    )


@pytest.mark.parametrize("kind", ["TGA", "PCX", "DDS", "ICO", "SGI"])
def test_formats_that_opencv_does_not_know_are_decoded_by_pillow(kind):
    """The other arguments mean the same for them."""
    data = encoded(PHOTO[:64, :64], kind)
    np.testing.assert_array_equal(DecodeImage().map(data), PHOTO[:64, :64])
    assert DecodeImage(16, channels=4, dtype=np.float32).map(data).shape == (16, 16, 4)


def test_without_pillow_an_error_names_the_extra(monkeypatch):
    """When the operation is made, if an argument needs it."""
    monkeypatch.setattr("headrace.operations.images.pillow.find_spec", lambda name: None)
    DecodeImage()
    for argument in ({"palette": "indices"}, {"frames": "all"}):
        with pytest.raises(
            headrace.errors.MissingExtraError, match=r"needs pillow.*headrace\[images\]"
        ):
            DecodeImage(**argument)


def test_no_program_runs_for_a_file():
    """Pillow would start Ghostscript for PostScript."""
    with pytest.raises(ImageError, match="cannot be decoded"):
        DecodeImage().map(encoded(PHOTO[:8, :8], "EPS"))


def test_dtypes():
    """Files with 16 bits as they are, or scaled; others scaled to them."""
    deep = encoded(DEEP, "PNG")
    np.testing.assert_array_equal(DecodeImage(channels=1, dtype=np.uint16).map(deep)[..., 0], DEEP)
    np.testing.assert_array_equal(DecodeImage(channels=3, dtype=np.uint16).map(deep)[..., 1], DEEP)
    np.testing.assert_array_equal(DecodeImage(channels=1).map(deep)[..., 0], DEEP >> 8)
    np.testing.assert_allclose(
        DecodeImage(channels=1, dtype="float32").map(deep)[..., 0], DEEP / 65535, rtol=1e-6
    )
    np.testing.assert_array_equal(
        DecodeImage(dtype=np.uint16).map(PNG), PHOTO.astype(np.uint16) * 257
    )
    found = DecodeImage(dtype=np.float32).map(JPEG)
    np.testing.assert_allclose(found, DecodeImage().map(JPEG) / 255, rtol=1e-6)
    assert (found.dtype, found.max() <= 1) == (np.float32, True)


@pytest.mark.parametrize(
    "size", [(50, 70), (20, 30), (100, 150), (201, 300), (400, 500), (201, 10), 64]
)
@pytest.mark.parametrize("data", [JPEG, PNG])
def test_sizes_are_exact_and_the_picture_stays(data, size):
    """Smaller and larger ones, also where a JPEG is read at a smaller scale; close to what Pillow
    makes of it.
    """
    found = DecodeImage(size).map(data)
    height, width = (size, size) if isinstance(size, int) else size
    assert found.shape == (height, width, 3)
    expected = np.asarray(Image.fromarray(PHOTO).resize((width, height), Image.Resampling.BILINEAR))
    assert np.abs(found.astype(int) - expected).mean() < 8
    resized = Resize(size).map({"image": DecodeImage().map(data), "label": 1})
    assert np.abs(resized["image"].astype(int) - expected).mean() < 8


def test_what_is_fast_is_nearly_the_same():
    """A few steps of 255."""
    difference = np.abs(DecodeImage(fast=True).map(JPEG).astype(int) - DecodeImage().map(JPEG))
    assert 0 < difference.mean() < 3


@pytest.mark.one_in(6)
@pytest.mark.parametrize("interpolation", ["nearest", "linear", "cubic", "area", "lanczos", "auto"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images_of_all_kinds_are_resized_flipped_and_cropped(interpolation, dtype, channels):
    """Dtype and channels stay; read-only arrays and views are images, too."""
    image = np.random.default_rng(0).random((33, 40, 4)).astype(dtype)[:, 3:, :channels]
    image.flags.writeable = False
    rng = np.random.default_rng(0)
    for operation in (
        lambda image: Resize((8, 9), interpolation=interpolation).map(image),
        lambda image: RandomResizedCrop((8, 9), interpolation=interpolation).random_map(image, rng),
        lambda image: RandomFlip(1.0, 1.0).random_map(image, rng)[:8, :9],
    ):
        found = operation(image)
        assert (found.shape, found.dtype) == ((8, 9, channels), dtype)


ODD = ["bool", "int8", "int32", "int64", "uint64", "float16", "complex64", ">u2", "m8[s]"]


@pytest.mark.parametrize("dtype", [*ODD, "complex128", "object", "U3"])
def test_flips_keep_values_of_every_dtype(dtype):
    """Also in a clip, and with more channels than OpenCV takes."""
    rng = np.random.default_rng(0)
    for shape in [(3, 4, 2), (2, 3, 4, 1), (3, 4, 200)]:
        image = np.arange(np.prod(shape)).reshape(shape)
        image = (image * 2**33 if image.astype(dtype).dtype.itemsize == 8 else image).astype(dtype)
        for across, down in [(1, 0), (0, 1), (1, 1)]:
            found = RandomFlip(across, down).random_map(image, rng)
            assert found.dtype == image.dtype
            assert (found == image[..., :: 1 - 2 * down, :: 1 - 2 * across, :]).all()


@pytest.mark.parametrize("dtype", ODD)
def test_labels_of_every_dtype_are_resized_to_the_nearest(dtype):
    """The pixels that come are those of bytes, with the values that they had."""
    image = np.arange(6 * 9 * 1).reshape(6, 9, 1)
    places = Resize((4, 5), interpolation="nearest").map(image.astype(np.uint8))
    values = (image * 2**33 if np.dtype(dtype).itemsize == 8 else image).astype(dtype)
    found = Resize((4, 5), interpolation="nearest").map(values)
    assert found.dtype == values.dtype
    assert (found == values.ravel()[places]).all()


@pytest.mark.parametrize("operation", [Resize, RandomResizedCrop], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    ("dtype", "interpolation"),
    [
        *((dtype, "auto") for dtype in ODD),
        ("object", "nearest"),
        ("complex128", "nearest"),
        ("int64", "area"),
    ],
)
def test_dtypes_that_cannot_be_resized_are_an_error(operation, dtype, interpolation):
    """It names the dtype, the dtypes that work, and how to convert."""
    made = operation((2, 2), interpolation=interpolation)
    change = (
        made.map
        if operation is Resize
        else lambda image: made.random_map(image, np.random.default_rng(0))
    )
    image = np.ones((9, 9, 3)).astype(dtype)
    with pytest.raises(
        ImageError,
        match=r"dtype (?s:.*)astype\(np.float32\); dtypes that work are uint8, uint16, int16, ",
    ):
        change(image)


def test_too_many_channels_are_an_error_of_ours():
    """With the largest number."""
    with pytest.raises(ImageError, match=r"\(4, 4, 600\) and dtype uint8 .* at most 128 channels"):
        Resize(2).map(np.zeros((4, 4, 600), np.uint8))


def test_fine_patterns_do_not_survive_auto():
    """A board of black and white pixels becomes grey, where single pixels would be
    black or white.
    """
    board = np.indices((256, 256)).sum(0).astype(np.uint8)[..., np.newaxis] % 2 * 255
    assert np.ptp(Resize(32).map(board)) <= 1
    assert Resize(32).map(board).mean() == pytest.approx(127.5, abs=1)


def test_flips_are_as_probable_as_one_says():
    """Left and right, top and bottom, both, or neither."""
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    rng = np.random.default_rng(0)
    assert RandomFlip(0.0).random_map(image, rng) is image
    np.testing.assert_array_equal(RandomFlip(1.0).random_map(image, rng), image[:, ::-1])
    np.testing.assert_array_equal(RandomFlip(0, 1).random_map(image, rng), image[::-1])
    np.testing.assert_array_equal(RandomFlip(1, 1).random_map(image, rng), image[::-1, ::-1])
    flipped = sum(RandomFlip(0.25).random_map(image, rng)[0, 0, 0] != 0 for _ in range(1000))
    assert 200 < flipped < 300


def test_crops_have_the_area_and_shape_that_one_asks_for():
    """Every piece of the image comes; of an image that no piece fits into, the middle."""
    rows, columns = np.indices((100, 200))
    image = np.stack((rows, columns, rows), -1).astype(np.float32)
    crop = RandomResizedCrop(50, scale=(0.2, 0.5), ratio=(0.5, 2), interpolation="nearest")
    seen = np.zeros((100, 200), bool)
    rng = np.random.default_rng(0)
    for _ in range(300):
        piece = crop.random_map(image, rng)
        top, left = piece[0, 0, :2].astype(int)
        height, width = piece[-1, -1, 0] - top + 1, piece[-1, -1, 1] - left + 1
        seen[top : top + int(height), left : left + int(width)] = True
        assert 0.15 < height * width / 20000 < 0.55
        assert 0.45 < width / height < 2.2
    assert seen.mean() > 0.98
    strip = RandomResizedCrop((10, 20), scale=(1, 1), ratio=(2, 2), interpolation="nearest")
    middle = strip.random_map(np.indices((10, 1000))[1].astype(np.float32)[..., np.newaxis], rng)
    np.testing.assert_array_equal(middle[0, :, 0], np.arange(490, 510))


@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_pipeline_of_images_is_the_same_in_workers(worker_count):
    """Random numbers are those of the loader: of seed, position and operation."""
    records = [{"image": JPEG if number % 2 else PNG, "label": number} for number in range(8)]
    operations = [DecodeImage(), RandomResizedCrop((24, 32)), RandomFlip(), headrace.Batch(4)]
    sampler = headrace.IndexSampler(8, shuffle=True, seed=1, num_epochs=2)
    loader = headrace.DataLoader(
        data_source=records, sampler=sampler, operations=operations, worker_count=worker_count
    )
    batches = list(loader)
    assert [batch["image"].shape for batch in batches] == [(4, 24, 32, 3)] * 4
    again = list(headrace.DataLoader(data_source=records, sampler=sampler, operations=operations))
    for batch, other in zip(batches, again, strict=True):
        np.testing.assert_array_equal(batch["image"], other["image"])


@pytest.mark.long
def test_workers_begin_with_the_libraries():
    """These are imported before workers are forked, once for all of them."""
    operations = [lambda _: "cv2" in sys.modules, headrace.Batch(10), DecodesNothing()]
    (batch,) = headrace.load(range(10), num_epochs=1, worker_count=1, transformations=operations)
    assert batch.all()


class DecodesNothing(DecodeImage):
    """Is in the pipeline, and leaves elements as they are."""

    def map(self, element):
        return element


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "0 bytes, which begin with b'', cannot be decoded"),
        (b"no image", "8 bytes, which begin with b'no image', cannot be decoded"),
        (JPEG[:-200], "cannot be decoded as an image: Premature end of JPEG"),
        (JPEG[:30], "30 bytes"),
        (PNG[: len(PNG) // 2], "cannot be decoded"),
        (np.zeros((2, 2, 3)), "the path of an image file, not ndarray"),
        ({"jpg": JPEG}, r"the element has no key 'image', only \['jpg'\]\. Pass key="),
    ],
)
def test_what_cannot_be_decoded_is_an_error(data, text):
    """Truncated and foreign files, and what is no bytes; in a short message, which is the same in
    each run: it has no address of an object.
    """
    with pytest.raises(ImageError, match=text) as caught:
        DecodeImage().map(data)
    assert len(str(caught.value)) <= 500
    assert " at 0x" not in str(caught.value)


@pytest.mark.parametrize("image", [b"bytes", np.zeros((3, 3)), np.zeros((0, 3, 3)), None])
def test_what_is_no_image_is_an_error(image):
    """The message says who makes one."""
    for act in (
        lambda: Resize(3).map(image),
        lambda: RandomFlip().random_map(image, np.random.default_rng(0)),
        lambda: RandomResizedCrop(3).random_map({"image": image}, np.random.default_rng(0)),
    ):
        with pytest.raises(
            ImageError, match=r"takes arrays of height × width × channels, .*DecodeImage"
        ):
            act()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecodeImage(channels=2),
        lambda: DecodeImage(palette="P"),
        lambda: DecodeImage(palette="indices", channels=1),
        lambda: DecodeImage(frames=3),
        lambda: DecodeImage(channels=5),
        lambda: DecodeImage(dtype=np.int64),
        lambda: DecodeImage((0, 3)),
        lambda: DecodeImage((1, 2, 3)),
        lambda: Resize("big"),
        lambda: Resize(3, interpolation="best"),
        lambda: RandomResizedCrop(3, scale=(0.5, 1.5)),
        lambda: RandomResizedCrop(3, scale=(0.5, 0.2)),
        lambda: RandomResizedCrop(3, ratio=1.0),
        lambda: RandomFlip(1.5),
        lambda: RandomFlip("often"),
    ],
)
def test_arguments_are_checked(make):
    """When the operation is made; the message names the argument."""
    with pytest.raises(
        (TypeError, ValueError),
        match=r"channels=|dtype=|size=|interpolation=|scale=|ratio=|horizontal=|palette=|frames=",
    ):
        make()


def test_operations_that_differ_are_told_apart_by_a_state():
    """Another size, another key and another scale are another pipeline."""
    loader = headrace.load([JPEG] * 4, transformations=[DecodeImage((8, 8))], batch_size=2, seed=0)
    state = iter(loader).get_state()
    other = headrace.load([JPEG] * 4, transformations=[DecodeImage((8, 9))], batch_size=2, seed=0)
    with pytest.raises(headrace.errors.CheckpointError):
        iter(other).set_state(state)


def test_without_the_libraries_an_error_names_the_extra(monkeypatch):
    """When an operation is made, not when the first image comes in a worker."""
    monkeypatch.setattr("headrace.operations.images.library.find_spec", lambda name: None)
    with pytest.raises(
        headrace.errors.MissingExtraError,
        match=r"opencv-python-headless and simplejpeg.*headrace\[images\]",
    ):
        DecodeImage()


def test_a_pickled_operation_names_the_extra_where_the_libraries_are_missing(monkeypatch):
    """For example on another machine, where a worker reads it."""
    pickled = pickle.dumps(Resize(3))
    monkeypatch.setattr("headrace.operations.images.library.find_spec", lambda name: None)
    with pytest.raises(
        headrace.errors.MissingExtraError, match=r"Resize needs opencv-python-headless"
    ):
        pickle.loads(pickled)


@pytest.mark.parametrize(
    "make", ["CenterCrop(2)", "Pad(1)", "Normalize(0.5, 0.5)", "RandomErasing()"]
)
def test_an_operation_that_needs_numpy_alone_can_be_pickled_without_opencv(make):
    """So worker processes can run it."""
    program = f"""
import pickle, sys
sys.modules["cv2"] = sys.modules["simplejpeg"] = None
import numpy as np, headrace
operation = pickle.loads(pickle.dumps(headrace.{make}))
call = getattr(operation, "map", None) or operation.random_map
call(np.ones((4, 4, 3), np.float32), *([np.random.default_rng(0)] if "Random" in {make!r} else []))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


CLIP = np.stack([np.roll(PHOTO, 7 * frame, axis=1) for frame in range(4)])


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
def test_a_clip_is_resized_frame_by_frame(shape):
    """Whatever axes of frames come before those of an image; an image of one channel keeps it."""
    resize = Resize((40, 50))
    expected = np.stack([resize.map(frame) for frame in CLIP])
    found = resize.map({"image": CLIP.reshape(*shape, *PHOTO.shape)})["image"]
    np.testing.assert_array_equal(found, expected.reshape(*shape, 40, 50, 3))
    assert resize.map(CLIP[..., :1]).shape == (4, 40, 50, 1)


@pytest.mark.parametrize(
    "operation", [RandomResizedCrop(32), RandomFlip(0.5, 0.5)], ids=["crop", "flip"]
)
def test_all_frames_of_a_clip_get_the_same_random_choice(operation):
    """The one that an image gets from the same generator; each clip gets its own, all four ways of
    mirroring among them.
    """
    made = set()
    for seed in range(20):
        found = operation.random_map(CLIP, np.random.default_rng(seed))
        each = [operation.random_map(frame, np.random.default_rng(seed)) for frame in CLIP]
        np.testing.assert_array_equal(found, np.stack(each))
        made.add(found.tobytes())
    assert len(made) == (20 if isinstance(operation, RandomResizedCrop) else 4)


def test_frames_that_make_no_clip_are_refused():
    """Of several sizes; and what is neither an image nor a clip."""
    with pytest.raises(
        ImageError,
        match=r"\(201, 300, 3\) and \(100, 300, 3\)\. Pass DecodeImage\(size=…\) to give all",
    ):
        DecodeImage().map([PNG, encoded(PHOTO[:100], "PNG")])
    assert DecodeImage((8, 9)).map([PNG, encoded(PHOTO[:100], "PNG")]).shape == (2, 8, 9, 3)
    with pytest.raises(ImageError, match="frames × height × width × channels, not shape"):
        Resize(4).map(np.zeros((8, 8), np.uint8))
    for wrong in ([1, 2], [], np.array(3), np.array([PNG]), np.zeros((2, 2), object)):
        with pytest.raises(ImageError, match=r"the path of an image file, not (list|ndarray)"):
            DecodeImage().map(wrong)
    images = np.empty(2, object)
    images[:] = PNG
    assert DecodeImage().map(images).shape == (2, *PHOTO.shape)


def claiming(kind, height, width):
    """A small file that says it has so many pixels."""
    data = bytearray(encoded(np.zeros((8, 8, 3), np.uint8), kind))
    if kind == "png":
        data[16:24] = width.to_bytes(4) + height.to_bytes(4)
        data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    else:
        frame = data.index(b"\xff\xc0")
        data[frame + 5 : frame + 9] = height.to_bytes(2) + width.to_bytes(2)
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(
            ("GIF", {}),
            ("BMP", {}),
            ("TGA", {}),
            ("PPM", {}),
            ("TIFF", {}),
            ("TIFF", {"big_tiff": True}),
        ),
        *(("WEBP", {}), ("WEBP", {"lossless": True}), ("WEBP", {"exif": b"Exif\0\0"})),
    ],
)
def test_an_image_of_another_format_with_too_many_pixels_is_not_decoded(kind, options):
    """Neither library takes it."""
    data = encoded(PHOTO, kind, **options)
    with pytest.raises(
        ImageError, match=r"has 201 × 300 pixels, more than max_pixels=60000\. Pass a larger"
    ):
        DecodeImage(max_pixels=60_000).map(data)
    assert DecodeImage(max_pixels=60_300).map(data).shape == PHOTO.shape


@pytest.mark.parametrize(
    "header",
    [
        b"P2\n# a comment of 9 9\n 300\t201\n255\n",
        b"P7\nWIDTH 300\nHEIGHT 201\nDEPTH 1\nMAXVAL 255\nENDHDR\n",
        b"P6 300 201 255 ",
    ],
)
def test_the_size_of_a_pnm_file_is_read_from_its_header(header):
    """Also if the pixels are missing: nothing is decoded."""
    with pytest.raises(ImageError, match=r"has 201 × 300 pixels, more than max_pixels=60299"):
        DecodeImage(max_pixels=60_299).map(header)
    with pytest.raises(ImageError, match="cannot be decoded"):
        DecodeImage(max_pixels=60_300).map(header)


def tiff_of(*tags):
    """A TIFF file of 20 × 20 grey pixels, with these tags for its size: (tag, kind, value)."""
    of_pixels = [
        (258, 3, 8),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 1),
        (278, 3, 20),
        (279, 4, 400),
    ]
    entries = sorted([*tags, *of_pixels], key=lambda tag: tag[0])
    directory = b"".join(struct.pack("<HHIi", tag, kind, 1, value) for tag, kind, value in entries)
    head = struct.pack("<2sHI", b"II", 42, 408)
    return head + bytes(400) + struct.pack("<H", len(entries)) + directory + bytes(4)


ODD = {
    "sizes with a sign": tiff_of((256, 9, 20), (257, 8, 20)),
    "two widths": tiff_of((256, 3, 20), (256, 3, 1), (257, 3, 20)),
    "no space": b"P5 20 20x255\n" + bytes(400),
    "a slash": b"P5 20/20 255\n" + bytes(400),
    "zeros": b"P5 " + b"0" * 30 + b"20 20 255\n" + bytes(400),
    "zeros of PAM": b"P7\nWIDTH "
    + b"0" * 30
    + b"20\nHEIGHT 20\nDEPTH 1\nMAXVAL 255\nENDHDR\n"
    + bytes(400),
    "HDR": b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 20 +X 20\n" + bytes(1600),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_headers_do_not_pass_the_limit_of_pixels(case):
    """OpenCV or Pillow would decode these files."""
    with pytest.raises(
        ImageError, match=r"has 20 × 20 pixels, more than max_pixels=399\. Pass a larger"
    ):
        DecodeImage(max_pixels=399).map(ODD[case])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_integers_of_32_bits_are_an_error_of_ours(channels):
    """OpenCV has an error of its own for them if opacity is asked for."""
    file = io.BytesIO()
    Image.fromarray(np.full((4, 5), 70_000, np.int32)).save(file, "TIFF")
    with pytest.raises(ImageError, match="cannot be decoded as an image"):
        DecodeImage(channels=channels).map(file.getvalue())


def test_many_tags_of_a_tiff_file_take_no_memory():
    """Only those of the size, the colours and the orientation are kept."""
    count = 60_000
    data = struct.pack("<2sHIH", b"II", 42, 8, count) + struct.pack("<HHII", 9, 3, 1, 0) * count
    tracemalloc.start()
    try:
        assert size_in_header(data) == (0, 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_an_image_that_says_it_has_too_many_pixels_is_not_decoded(kind):
    """It would take gigabytes; what is within the limit is decoded, and the limit is an option."""
    with pytest.raises(
        ImageError, match=r"has .*× .*pixels, more than max_pixels=268435456\. Pass a larger"
    ):
        DecodeImage().map(claiming(kind, 60000, 50000))
    for size in (None, 4):
        with pytest.raises(ImageError, match=r"has 8 × 8 pixels, more than max_pixels=63"):
            DecodeImage(size=size, max_pixels=63).map(claiming(kind, 8, 8))
        assert DecodeImage(size=size, max_pixels=64).map(claiming(kind, 8, 8)).shape[2] == 3
    with pytest.raises(ValueError, match="max_pixels=0 must be at least 1"):
        DecodeImage(max_pixels=0)


def test_the_default_limit_of_pixels_is_no_part_of_a_state():
    """States of versions that had none are read; another limit is told."""
    states = [
        next_state(
            headrace.load(
                [claiming("png", 8, 8)] * 4, batch_size=2, transformations=[DecodeImage(**options)]
            )
        )
        for options in ({}, {"max_pixels": 1 << 28}, {"max_pixels": 1 << 20})
    ]
    assert states[0] == states[1] != states[2]
    assert "_max_pixels" not in vars(DecodeImage())


def next_state(loader):
    """The state after one batch."""
    iterator = iter(loader)
    next(iterator)
    state = iterator.get_state()
    iterator.close()
    return state
