"""In the manner of torchtitan's loader: a stream of its own class cuts documents into rows, and
keeps what is over.
"""

import grain
import numpy as np

ROW = 10


class Rows(grain.IterDataset):
    """Rows of inputs and labels out of documents that are put end to end."""

    def __iter__(self):
        return RowsIterator(iter(self._parent))


class RowsIterator(grain.DatasetIterator):
    """Its state is that of the documents, and the tokens that are over."""

    def __init__(self, parent):
        super().__init__(parent)
        self._over = []

    def __next__(self):
        while len(self._over) <= ROW:
            self._over += next(self._parent)["tokens"].tolist()
        row, self._over = self._over[: ROW + 1], self._over[ROW:]
        return {"input": np.array(row[:-1]), "labels": np.array(row[1:])}

    def get_state(self):
        return {"parent": self._parent.get_state(), "over": list(self._over)}

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self._over = list(state["over"])


def pipeline(workers=0):
    """What the program trains on, of the second of two ranks."""
    documents = [{"tokens": np.arange(n % 17 + 1) + 100 * n} for n in range(90)]
    dataset = (
        grain.MapDataset.source(documents).seed(11).shuffle().repeat(2)[1::2].to_iter_dataset()
    )
    return Rows(dataset).batch(3, drop_remainder=True)


if __name__ == "__main__":
    iterator = iter(pipeline())
    first = next(iterator)
    state = iterator.get_state()
    again = iter(pipeline())
    again.set_state(state)
    assert (next(again)["input"] == next(iterator)["input"]).all()
    print(1 + len(list(iterator)))
