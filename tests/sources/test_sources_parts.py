"""Keys over parts that lie end to end: each part is read once, and the records come in the order of
the keys.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries

from headrace.sources.parts import read_by_part


@tries(400)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.data())
def test_records_come_in_the_order_of_their_keys(lengths, data):
    """Whatever the lengths of the parts, empty ones too, and the keys: each part touched is asked
    once.
    """
    keys = np.array(data.draw(st.lists(st.integers(0, sum(lengths) - 1), max_size=20)), np.int64)
    ends = np.cumsum(lengths)
    asked = []

    def read(part, members):
        asked.append(part)
        assert all(ends[part] - lengths[part] <= key < ends[part] for key in members.tolist())
        return [(part, key) for key in members.tolist()]

    records = read_by_part(keys, ends, read)
    assert [key for _, key in records] == keys.tolist()
    assert asked == sorted(set(asked))
