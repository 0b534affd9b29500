"""Decode and encode `tf.train.Example` and `tf.train.SequenceExample` without TensorFlow.

In: serialised bytes. Out: a dict of features. The bytes are parsed in `feature_messages.py`; values
are converted to requested types in `feature_types.py` and `joined_features.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..common.messages import a_kind_of, first_few, short_repr
from ..errors import SourceError
from .feature_messages import Found, read_example
from .feature_types import (
    AllBytesType,
    FeatureType,
    NumbersType,
    OneFeature,
    Shape,
    StepsType,
    TextsType,
)
from .joined_features import RaggedFeature, RaggedType, SparseFeature, SparseType


def decode_example(
    data: bytes,
    features: Mapping[str, Any] | None = None,
    sequences: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Decode the features of an example, and the feature lists of a sequence example, to one dict.

    Args:
        data: a serialised `tf.train.Example` or `tf.train.SequenceExample`.
        features: the features to return, each with its type:

            * `bytes` or `str`: exactly one byte string or text in UTF-8; `list`: any number of byte
              strings;
            * a dtype: exactly one number, as a NumPy scalar;
            * `(dtype, shape)`: an array, in which one length may be None; of objects if `dtype` is
              `bytes` or `str`;
            * `(dtype, shape, default)`: likewise, and `default` is returned if the feature is
              missing or has no value. It is one value, which fills the shape, or an array of the
              shape;
            * `headrace.RaggedFeature`: rows of different lengths; `headrace.SparseFeature`: a
              sparse array.

            Default: all features; numbers as read-only arrays with one axis, `int64` or `float32`;
            one byte string as `bytes`, several as a list; a feature without values and type as an
            empty list.
        sequences: the feature lists of a sequence example to return, each with the type of one
            step, as above (without `RaggedFeature` and `SparseFeature`). Numbers become an array
            with a first axis of steps, or a list of arrays if a length is None; `bytes` and `str`
            become a list. With a default, the list may be missing, too, and then has no steps.
            Default: all feature lists; a list of steps, or one array if all steps have equally many
            numbers.

            If only one of `features` and `sequences` is passed, nothing else is returned.

    Raises:
        SourceError: `data` is not an example; a feature is missing or does not match its type; a
            number does not fit its dtype; or a feature and a feature list have the same name.
        TypeError: `data` is not an object of bytes; `features` or `sequences` has an unknown type;
            or both have the same name.

    >>> from headrace import encode_example
    >>> data = encode_example({"image": b"...", "label": 3, "box": [0.5, 1.0]})
    >>> decode_example(data)
    {'image': b'...', 'label': array([3]), 'box': array([0.5, 1. ], dtype=float32)}
    >>> features = {"label": np.int32, "box": (np.float32, (1, 2)), "weight": (np.float32, (), 1)}
    >>> decode_example(data, features)
    {'label': np.int32(3), 'box': array([[0.5, 1. ]], dtype=float32), 'weight': np.float32(1.0)}
    >>> steps = {"frames": [[1, 2], [3, 4], [5, 6]], "words": [[1], [2, 3]]}
    >>> data = encode_example({"label": 3}, steps)
    >>> sequences = {"frames": (np.uint8, (2,)), "words": (np.int64, (None,))}
    >>> decode_example(data, {"label": np.int64}, sequences)
    {'label': np.int64(3), 'frames': array([[1, 2],
           [3, 4],
           [5, 6]], dtype=uint8), 'words': [array([1]), array([2, 3])]}
    """
    if not isinstance(data, (bytes, bytearray)):
        try:
            data = bytes(memoryview(data))
        except TypeError:
            raise TypeError(
                f"data={short_repr(data)} is {a_kind_of(data)}. Pass the bytes of a serialised "
                "tf.train.Example or SequenceExample."
            ) from None
    return Decoder(features, sequences)(data)


class Decoder:
    """Function that decodes examples with fixed `features` and `sequences`; see `decode_example`.

    Raises:
        TypeError: `features` or `sequences` is not a dict, or has an unknown type; or both have the
            same name.
    """

    _features: dict[str, FeatureType] | None = None
    """Types of the requested features and, in `_sequences`, feature lists.

    Both None: everything is returned.
    """
    _sequences: dict[str, FeatureType] | None = None

    def __init__(
        self, features: Mapping[str, Any] | None = None, sequences: Mapping[str, Any] | None = None
    ) -> None:
        for argument, given in (("features", features), ("sequences", sequences)):
            if given is not None and not isinstance(given, Mapping):
                raise TypeError(
                    f"{argument}={short_repr(given)} is not a dict. Pass a dict, such as "
                    '{"image": bytes, "label": np.int64}.'
                )
        if features is not None:
            self._features = {
                name: _type_of_feature(name, wanted) for name, wanted in features.items()
            }
        if sequences is not None:
            self._sequences = {
                name: StepsType(_type("sequences", name, wanted))
                for name, wanted in sequences.items()
            }
        self._needed = _needed(self._features), _needed(self._sequences)
        both = sorted(set(features or ()) & set(sequences or ()))
        if both:
            raise TypeError(
                f"features= and sequences= both name {first_few(both)}. Name each of these in one "
                "of them only."
            )

    def __call__(self, data: bytes) -> dict[str, Any]:
        found = read_example(data)
        if self._features is None and self._sequences is None:
            return _everything(found)
        if not (
            self._needed[0] <= found.features.keys() and self._needed[1] <= found.sequences.keys()
        ):
            raise self._missing(found)
        decoded = {
            name: convert(name, found.features) for name, convert in (self._features or {}).items()
        }
        if self._sequences is not None:
            decoded |= {
                name: convert(name, found.sequences) for name, convert in self._sequences.items()
            }
        return decoded

    def _missing(self, found: Found) -> SourceError:
        argument, other = "features", "sequences"
        missing, others = sorted(self._needed[0] - found.features.keys()), found.sequences
        if not missing:
            argument, other = other, argument
            missing, others = sorted(self._needed[1] - found.sequences.keys()), found.features
        kinds = {"features": "feature", "sequences": "feature list"}
        kind, known = kinds[argument], getattr(found, argument)
        if missing[0] in others:
            return SourceError(
                f"{first_few(missing[:1])} is a {kinds[other]} of the example, not a {kind}. Name "
                f"it in {other}=, not in {argument}=."
            )
        there = f"only {first_few(sorted(known), 8)}" if known else f"no {kind}s at all"
        joined = (
            " A RaggedFeature or SparseFeature needs all its stored features."
            if argument == "features"
            else ""
        )
        return SourceError(
            f"the example has no {kind} {first_few(missing)}: it has {there}. Leave missing ones "
            f"out of {argument}=, or pass {argument}={{name: (dtype, shape, default)}} for a "
            f"{kind} that may be missing.{joined}"
        )

    @property
    def described(self) -> list[Any] | None:
        """JSON values that describe the requested features and their types, for a fingerprint.

        It is None for all features.
        """
        if self._sequences is None:
            return None if self._features is None else _described(self._features)
        return [*_described(self._features or {}), {"sequences": _described(self._sequences)}]


def _needed(types: dict[str, FeatureType] | None) -> frozenset[str]:
    return frozenset(
        each for name, convert in (types or {}).items() for each in convert.needed(name)
    )


def _described(types: dict[str, FeatureType]) -> list[list[str]]:
    return [[name, convert.described] for name, convert in types.items()]


def _everything(found: Found) -> dict[str, Any]:
    both = sorted(found.features.keys() & found.sequences.keys())
    if both:
        raise SourceError(
            f"the example has a feature and a feature list of the same name, {first_few(both)}. "
            "Choose the features to return with features=, or the feature lists with sequences=."
        )
    features = {name: _alone(value) for name, value in found.features.items()}
    return features | {name: _steps(values) for name, values in found.sequences.items()}


def _alone(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _steps(values: list[Any]) -> Any:
    """Return the steps of a feature list: one array if all are equally long, otherwise a list."""
    dtype = next((value.dtype for value in values if isinstance(value, np.ndarray)), None)
    if dtype is None:
        return (
            [value[0] for value in values] if all(len(value) == 1 for value in values) else values
        )
    arrays = [
        np.asarray(value, dtype) if isinstance(value, list) and not value else value
        for value in values
    ]
    if any(
        isinstance(value, list) or value.dtype != dtype or len(value) != len(arrays[0])
        for value in arrays
    ):
        return arrays
    stacked = np.stack(arrays)
    stacked.flags.writeable = False
    return stacked


def _type_of_feature(name: str, wanted: Any) -> FeatureType:
    try:
        if isinstance(wanted, RaggedFeature):
            return RaggedType(wanted)
        if isinstance(wanted, SparseFeature):
            return SparseType(wanted)
    except (TypeError, ValueError, OverflowError):
        if isinstance(wanted, RaggedFeature):
            raise TypeError(
                f"features[{short_repr(name)}]: RaggedFeature has "
                f"dtype={short_repr(wanted.dtype)}. Pass a dtype of real numbers, bytes or str."
            ) from None
        raise TypeError(
            f"features[{short_repr(name)}]: SparseFeature has "
            f"dtype={short_repr(wanted.dtype, 40)}, shape={short_repr(wanted.shape)} and "
            f"fill={short_repr(wanted.fill, 40)}. Pass a dtype of real numbers, whole numbers of "
            "at least 0 or a name as shape, and a fill that the dtype can hold."
        ) from None
    return _type("features", name, wanted)


def _type(argument: str, name: str, wanted: Any) -> OneFeature:
    if wanted is list:
        return AllBytesType(argument)
    kind, shape, default = wanted, None, None
    try:
        if isinstance(wanted, tuple) and len(wanted) in (2, 3):
            kind, shape = wanted[0], _shape(wanted[1])
            default = wanted[2] if len(wanted) == 3 else None
        if kind is bytes or kind is str:
            return TextsType(kind, shape, default, argument)
        return NumbersType(kind, shape, default, argument)
    except (TypeError, ValueError, OverflowError):
        pass
    if default is not None:
        raise TypeError(
            f"{argument}[{short_repr(name)}]={short_repr(wanted)} is not a feature type. Pass "
            "(dtype, shape, default). The dtype is one of real numbers, bytes or str. The shape "
            "contains None at most once. The default is an array of this shape, or (if the shape "
            "has no None) a single value for all elements, and the dtype can hold its values."
        )
    joined = ", a RaggedFeature or a SparseFeature" if argument == "features" else ""
    raise TypeError(
        f"{argument}[{short_repr(name)}]={short_repr(wanted)} is not a feature type. Pass bytes, "
        "str, list (of bytes), a dtype of real numbers, (dtype, shape) with at most one None, or "
        f"(dtype, shape, default){joined}."
    )


def _shape(given: Any) -> Shape:
    """Return a shape as the user passed it, with -1 in place of None.

    Raises:
        TypeError, ValueError: it is not a shape, or more than one length is unknown.
    """
    shape = tuple(
        -1 if n is None else int(n)
        for n in ((given,) if isinstance(given, (int, np.integer)) else given)
    )
    if shape.count(-1) > 1:
        raise ValueError(shape)
    return shape
