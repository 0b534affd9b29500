"""Find the other file that values of a dataset in an HDF5 file are in.

In: an open file, and the name of a dataset. Out: the name of the other file.
"""

from __future__ import annotations

from typing import Any

_MOST_LINKS = 16
"""Largest number of links that HDF5 follows from one name."""


def other_file_of(file: Any, name: str, own: str) -> str | None:
    """Return the name of another file that has values of a dataset, as the file names it.

    Return None if all are in this file.

    Args:
        file: the open h5py file.
        name: name of the dataset.
        own: name of the file, by which a virtual dataset may name it.

    Raises:
        KeyError: there is no such dataset.
    """
    return _other_file(file, name, own, _MOST_LINKS)


def _other_file(file: Any, name: str, own: str, links: int) -> str | None:
    import h5py

    group, parts = file, _parts(name)
    while parts:
        link = group.get(parts[0], getlink=True)
        if isinstance(link, h5py.ExternalLink):
            return str(link.filename)
        if isinstance(link, h5py.SoftLink):
            if not links:
                raise KeyError(f"the link {name} leads over more than {_MOST_LINKS} other links")
            links -= 1
            group, parts = (
                file if link.path.startswith("/") else group,
                _parts(link.path) + parts[1:],
            )
        else:
            group, parts = group[parts[0]], parts[1:]
    if not isinstance(group, h5py.Dataset):
        return None
    if group.external:
        return str(group.external[0][0])
    for source in group.virtual_sources() if group.is_virtual and links else ():
        if source.file_name not in (".", own):
            return str(source.file_name)
        if (other := _other_file(file, source.dset_name, own, links - 1)) is not None:
            return other
    return None


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".")]
