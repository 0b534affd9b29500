"""Source of the slices of an xarray Dataset or DataArray along one dimension."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np

from ...common.identity.values import digest, digest_of
from ...common.messages import a_kind_of, first_few, short_repr
from ..facts import SourceFacts
from ..memory import MemorySource
from .chunked import Array, ChunkedSource


class XarraySource(ChunkedSource):
    """Slices of an xarray Dataset or DataArray along one dimension.

    They may be read from files lazily.

    A record of a Dataset is a dict of variable name to NumPy array, scalar or text: the values of
    the variable at one place along the dimension. A record of a DataArray is the values alone.
    Values are decoded as xarray decodes them, such as scale factors and times. Data that is not in
    memory is read when it is needed, and each process opens the file for itself. One call of
    `__getitems__`, mostly for a batch, reads what lies in one chunk along the dimension at most
    once. With `BlockShuffle(block=…)`, blocks of whole chunks, and windows of blocks that fit into
    `cache_bytes`, a process reads each chunk at most once in an epoch. Both hold if all chunks
    along the dimension, except the last, have one length, and the first record begins a chunk.
    Thread-safe, picklable; safe to fork while no thread reads.

    Args:
        data: an `xarray.Dataset` or `xarray.DataArray`, as `xarray.open_dataset(path)` returns it.
            Selections, such as `data.isel(time=slice(100))`, are read lazily, too. A state fits
            only the selection that it was saved with, if the dimension has coordinates. Do not
            change the values while the source is in use.
        variables: names of variables or coordinates of a Dataset. None (default): all data
            variables that have the dimension.
        dim: name of the dimension that counts records. None (default): the first one of the first
            data variable that has any.
        cache_bytes: maximum size of the chunks that a process keeps in memory, in bytes (default 64
            MiB).

    Raises:
        NoRecordsError: the dimension has length 0.
        ValueError: there is no such dimension or variable, a variable does not have the dimension,
            or `cache_bytes` is less than 1.
        TypeError: `data` is of another class.
        SourceError: when it is read, if its file cannot be read.

    >>> import xarray
    >>> temperature = (("time", "y"), np.zeros((5, 3), np.float32))
    >>> data = xarray.Dataset({"t2m": temperature, "year": ("time", np.arange(5))})
    >>> int(XarraySource(data)[4]["year"])
    4
    >>> len(XarraySource(data, ["t2m"], dim="y"))
    3
    """

    _kind = "variable"

    def __init__(
        self,
        data: Any,
        variables: Sequence[str] | None = None,
        *,
        dim: str | None = None,
        cache_bytes: int = 64 << 20,
    ) -> None:
        is_dataset = _is(data, "Dataset")
        if not is_dataset and not _is(data, "DataArray"):
            raise TypeError(
                f"XarraySource takes an xarray Dataset or DataArray, not {a_kind_of(data)}. Pass "
                "one of these."
            )
        if not is_dataset and variables is not None:
            raise ValueError(
                f"variables={short_repr(variables)} is for Datasets. Leave it out for a DataArray."
            )
        self._dim = _dimension(data, dim, is_dataset)
        found = data.variables if is_dataset else {"": data.variable}
        names = (variables,) if isinstance(variables, str) else variables
        if names is None:
            names = (
                [name for name in data.data_vars if self._dim in data[name].dims]
                if is_dataset
                else [""]
            )
        if variables is None and not names:
            raise ValueError(
                f"the Dataset has no data variable with the dimension {short_repr(self._dim)}. "
                "Name coordinates in variables=, or pass another dim=. The dimensions are "
                f"{first_few(data.dims, 8)}."
            )
        unknown = [short_repr(name) for name in names if name not in found]
        if unknown:
            raise ValueError(
                f"the Dataset has no variable {first_few(unknown)}. Name some of its variables: "
                f"{first_few(found, 8)}."
            )
        self._variables: dict[str, Any] = {name: _bare(found[name]) for name in names}
        for name, variable in self._variables.items():
            if self._dim not in variable.dims:
                raise ValueError(
                    f"variable {short_repr(name)} has the dimensions "
                    f"{first_few(variable.dims, 8) or '()'}, but not {short_repr(self._dim)}. Name "
                    "only variables with this dimension, or pass another dim= that all have."
                )
        self._closed_variables: bytes | None = None
        places = data.indexes.get(self._dim)
        self._index_digest = None if places is None else _digest_of_index(places.to_numpy())
        self._file_name = str(data.encoding.get("source") or "")
        super().__init__(self._file_name or f"the {type(data).__name__}", list(names), cache_bytes)
        self._one = None if is_dataset else ""

    @classmethod
    def of(cls, data: Any) -> Any:
        """Return a source of the slices of a Dataset or DataArray along its first dimension.

        It is a `MemorySource` if all arrays are in memory; otherwise an object of this class, which
        reads them.
        """
        own = cls(data)
        if not all(map(_is_in_memory, own._variables.values())):
            return own
        arrays = {name: np.asarray(rows[:]) for name, rows in own._opened().items()}
        return MemorySource(arrays if own._one is None else arrays[""])

    def _opened(self) -> Mapping[str, Any]:
        if self._closed_variables is not None:
            self._variables, self._closed_variables = pickle.loads(self._closed_variables), None
        return {
            name: _Along(variable, variable.dims.index(self._dim))
            for name, variable in self._variables.items()
        }

    def _closed(self) -> None:
        # xarray closes a file with the last variable that reads it
        if not all(map(_is_in_memory, self._variables.values())):
            self._closed_variables, self._variables = cloudpickle.dumps(self._variables), {}

    def _content(self) -> Any:
        size = os.path.getsize(self._file_name) if os.path.isfile(self._file_name) else None
        return size, self._dim, self._index_digest

    def _chunk_rows(self, array: Any) -> int | None:
        variable = array.variable
        chunks = variable.encoding.get("preferred_chunks") or {}
        along = dict(variable.chunksizes).get(self._dim) or chunks.get(self._dim)
        rows = max(along) if isinstance(along, tuple) else along
        return None if rows is None or _is_in_memory(variable) else int(rows)

    def _decoded(self, array: Any, rows: Array) -> Array:
        return rows.astype(object) if rows.dtype.kind in "UT" else rows

    @property
    def facts(self) -> SourceFacts:
        known = super().facts
        return (
            known
            if self._file_name
            else known._replace(file_place=lambda key: None, file_count=int)
        )


class _Along:
    """Variable whose first axis is a given dimension. It is read when it is indexed.

    Args:
        variable: the `xarray.Variable`.
        axis: number of the dimension in the variable.
    """

    def __init__(self, variable: Any, axis: int) -> None:
        self.variable, self._axis = variable, axis
        sides = list(variable.shape)
        self.shape, self.dtype = (sides.pop(axis), *sides), variable.dtype

    def __getitem__(self, rows: int | slice) -> Array:
        found = np.asarray(self.variable[(slice(None),) * self._axis + (rows,)])
        return found if isinstance(rows, int) else np.moveaxis(found, self._axis, 0)


def _digest_of_index(values: Array) -> str:
    """Return a digest of the coordinates along the dimension.

    Different selections of a Dataset have different ones.
    """
    if values.dtype.kind in "mM":
        values = values.view(np.int64)
    return digest([*map(str, values.tolist())], 16) if values.dtype == object else digest_of(values)


def _bare(variable: Any) -> Any:
    """Return a variable without attributes, to send it to workers.

    Its encoding has only its chunks.
    """
    bare = variable.copy(deep=False)
    bare.attrs, chunks = {}, variable.encoding.get("preferred_chunks")
    bare.encoding = {"preferred_chunks": chunks} if chunks else {}
    return bare


def _is(data: Any, name: str) -> bool:
    return any(
        kind.__module__.partition(".")[0] == "xarray" and kind.__name__ == name
        for kind in type(data).__mro__
    )


def _is_in_memory(variable: Any) -> bool:
    """Return True if the values of a variable are in memory.

    Xarray has no public name for this. False costs only speed.
    """
    return bool(getattr(variable, "_in_memory", False))


def _dimension(data: Any, dim: str | None, is_dataset: bool) -> str:
    """Return the dimension that counts records: `dim` after a check, or the first one."""
    if dim is not None and dim in data.dims:
        return dim
    first = (
        next((variable for variable in data.data_vars.values() if variable.dims), data)
        if is_dataset
        else data
    )
    if dim is None and first.dims:
        return str(next(iter(first.dims)))
    if not data.dims:
        raise ValueError(
            f"the {type(data).__name__} has no dimension to count records. Pass one with a "
            "dimension."
        )
    raise ValueError(
        f"dim={short_repr(dim)} is not a dimension of the {type(data).__name__}. Pass one of "
        f"{first_few(data.dims, 8)}."
    )
