"""Keras trains on loaders and datasets, Grain's names for them included, and goes on where a run
was killed.
"""

import gc
import json
import subprocess
import sys
import types
from pathlib import Path

import jax
import numpy as np
import psutil
import pytest

import headrace
import headrace.compat.grain as grain
from headrace.compat.keras.hook import hook_keras
from headrace.errors import CheckpointError

PROGRAM = Path(__file__).parent / "killed_fit.py"


def rows(count=20):
    """Inputs and targets."""
    x = np.random.default_rng(0).random((count, 3), np.float32)
    return [(row, row.sum(keepdims=True)) for row in x]


def ours(kind, count=20):
    """A stream of five batches, in whichever form; those that Grain has beside it."""
    source = rows(count)
    if kind == "loader":
        return headrace.load(source, batch_size=4, num_epochs=1)
    if kind == "workers":
        return headrace.load(source, batch_size=4, num_epochs=1, worker_count=1)
    if kind == "device":
        return headrace.load(source, batch_size=4, num_epochs=1).to_device(jax.devices()[0])
    if kind == "map":
        return headrace.MapDataset.source(source).batch(4)
    if kind == "iter":
        return headrace.MapDataset.source(source).to_iter_dataset().batch(4)
    return of_grain(grain, kind.removeprefix("grain_"), source)


def of_grain(package, kind, source):
    """The same with Grain's names, or with Grain."""
    if kind == "loader":
        sampler = package.samplers.IndexSampler(
            len(source), package.sharding.NoSharding(), num_epochs=1
        )
        return package.DataLoader(
            data_source=source, sampler=sampler, operations=[package.transforms.Batch(4)]
        )
    dataset = package.MapDataset.source(source)
    return dataset.batch(4) if kind == "map" else dataset.to_iter_dataset().batch(4)


KINDS = ["loader", "workers", "device", "map", "iter", "grain_loader", "grain_map", "grain_iter"]


def model(**options):
    """Of a few weights, the same each time."""
    import keras

    keras.utils.set_random_seed(1)
    made = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    made.compile("sgd", "mse", jit_compile=False, **options)
    return made


def told(history):
    """The loss of each epoch."""
    return history.history["loss"]


def test_a_module_that_keras_may_have_later_is_taken_up_when_it_is_imported(monkeypatch):
    """Nothing of Keras is imported before; what is there already is taken up at once."""
    adapters = types.ModuleType("keras.src.trainers.data_adapters")
    adapters.get_data_adapter = lambda x, y=None, sample_weight=None: ("keras", x)
    monkeypatch.setitem(sys.modules, adapters.__name__, adapters)
    hook_keras()
    once = adapters.get_data_adapter
    hook_keras()
    assert adapters.get_data_adapter is once
    program = (
        "import headrace.compat, sys; assert 'keras' not in sys.modules and 'jax' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_keras_fits_evaluates_and_predicts_with_each_kind_of_stream(kind):
    """As it does with the arrays that they are made of."""
    x, y = map(np.stack, zip(*rows()))
    expected = model()
    losses = told(
        expected.fit(
            x, y, batch_size=4, shuffle=False, epochs=2, validation_data=(x[:8], y[:8]), verbose=0
        )
    )
    fitted = model()
    history = fitted.fit(ours(kind), epochs=2, validation_data=ours(kind, 8), verbose=0)
    assert told(history) == losses
    assert len(history.history["val_loss"]) == 2
    assert fitted.evaluate(ours(kind), verbose=0) == expected.evaluate(
        x, y, batch_size=4, verbose=0
    )
    assert (
        fitted.predict(ours(kind), verbose=0) == expected.predict(x, batch_size=4, verbose=0)
    ).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["loader", "map", "iter"])
def test_grains_names_train_as_grain_does(kind):
    """The losses are those of Keras's own way with Grain's objects."""
    import grain as real

    theirs = model().fit(
        of_grain(real, kind, rows()), epochs=1, steps_per_epoch=5, verbose=0, shuffle=False
    )
    again = model().fit(ours(f"grain_{kind}"), epochs=1, steps_per_epoch=5, verbose=0)
    assert told(again) == told(theirs)


IMAGES = """
import sys, headrace.compat

headrace.compat.install()
import keras

made = keras.utils.image_dataset_from_directory(sys.argv[1], image_size=(8, 8), batch_size=4, format="grain", seed=3)
assert type(made).__module__.startswith("headrace."), type(made)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
assert len(model.fit(made, epochs=2, verbose=0).history["loss"]) == 2
assert sum(len(labels) for _, labels in made) == 14
"""


@pytest.mark.long
def test_keras_makes_datasets_of_folders_with_our_names(tmp_path):
    """`image_dataset_from_directory(format="grain")`, once `install()` was called."""
    image = pytest.importorskip("PIL.Image")
    for number in range(14):
        path = tmp_path / f"class {number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(path)
    subprocess.run([sys.executable, "-c", IMAGES, str(tmp_path)], check=True)


@pytest.mark.long
def test_epochs_of_so_many_steps_go_on_in_the_stream():
    """A stream without an end gives each epoch the next batches."""
    losses = told(
        model().fit(
            headrace.load(rows(), shuffle=True, seed=2, batch_size=4),
            epochs=3,
            steps_per_epoch=2,
            verbose=0,
        )
    )
    taken = iter(headrace.load(rows(), shuffle=True, seed=2, batch_size=4))
    expected = model()
    by_hand = []
    for _ in range(3):
        x, y = (np.concatenate(each) for each in zip(next(taken), next(taken)))
        by_hand += told(expected.fit(x, y, batch_size=4, shuffle=False, verbose=0))
    assert losses == by_hand


@pytest.mark.long
def test_a_stream_that_ends_with_an_epoch_begins_again_in_the_next():
    """Nothing is said of data that ran out."""
    losses = told(model().fit(ours("map"), epochs=2, steps_per_epoch=5, verbose=0))
    assert losses == told(model().fit(ours("map"), epochs=2, verbose=0))


@pytest.mark.long
def test_a_fit_that_ends_early_leaves_no_worker():
    """In the middle of an epoch, by a callback; that of an endless stream, too."""
    import keras

    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 1

    loader = headrace.load(rows(), batch_size=4, worker_count=1)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    model().fit(loader, epochs=3, steps_per_epoch=5, verbose=0, callbacks=[Stops()])
    gc.collect()
    gone = psutil.Process().children(recursive=True)
    assert {process.pid for process in gone if process.status() != "zombie"} <= before


def test_streams_that_end_need_no_number_of_steps():
    """The limit of an endless stream; a stream of Hugging Face, whose length is unknown."""
    datasets = pytest.importorskip("datasets")
    from headrace.compat.keras.adapter import StreamAdapter

    limited = headrace.MapDataset.source(rows()).repeat().batch(4).to_iter_dataset().limit(5)
    adapter = StreamAdapter(limited, None)
    assert (adapter.num_batches, sum(1 for _ in adapter._batches())) == (5, 5)
    streamed = datasets.Dataset.from_dict({"x": [0.0, 1.0, 2.0]}).to_iterable_dataset()
    adapter = StreamAdapter(headrace.HuggingFaceStream(streamed).batch(2), None)
    assert (adapter.num_batches, sum(1 for _ in adapter._batches())) == (None, 2)
    with pytest.raises(ValueError, match="never ends"):
        StreamAdapter(headrace.HuggingFaceStream(streamed, num_epochs=None).batch(2), None)


@pytest.mark.long
def test_wrong_arguments_are_told_of():
    """Targets beside the stream; a stream without an end and without steps; other data for the
    callback.
    """
    from headrace.compat.keras import SaveAndResume

    with pytest.raises(ValueError, match="y= was passed together with a DataLoader"):
        model().fit(ours("loader"), np.zeros(3))
    with pytest.raises(ValueError, match="Pass steps_per_epoch= to fit"):
        model().fit(headrace.load(rows(), batch_size=4))
    with pytest.raises(TypeError, match="only if x= of fit is a loader or dataset"):
        model().fit(
            *map(np.stack, zip(*rows())), verbose=0, callbacks=[SaveAndResume("never made")]
        )
    with pytest.raises(ValueError, match="every=0"):
        SaveAndResume("never made", every=0)


@pytest.mark.long
def test_a_checkpoint_of_another_model_or_of_other_data_is_refused(tmp_path):
    """The message names the variable, or what the data differ in."""
    import keras

    from headrace.compat.keras import SaveAndResume

    model().fit(ours("map"), verbose=0, callbacks=[SaveAndResume(tmp_path)])
    wider = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    wider.compile("sgd", "mse")
    with pytest.raises(
        CheckpointError, match=r"model\.0 is float32\[3, 2\] there, but float32\[3, 3\] here"
    ):
        wider.fit(ours("map"), verbose=0, callbacks=[SaveAndResume(tmp_path)])
    with pytest.raises(CheckpointError, match="source"):
        model().fit(ours("map", 24), epochs=2, verbose=0, callbacks=[SaveAndResume(tmp_path)])


@pytest.mark.long
def test_a_run_that_is_complete_trains_no_more_and_more_epochs_follow(tmp_path):
    """The same program, run again; then one with more epochs."""
    from headrace.compat.keras import SaveAndResume

    losses = told(model().fit(ours("map"), epochs=3, verbose=0))
    kept = model()
    assert (
        told(kept.fit(ours("map"), epochs=2, verbose=0, callbacks=[SaveAndResume(tmp_path)]))
        == losses[:2]
    )
    assert (
        model().fit(ours("map"), epochs=2, verbose=0, callbacks=[SaveAndResume(tmp_path)]).history
        == {}
    )
    assert (
        told(model().fit(ours("map"), epochs=3, verbose=0, callbacks=[SaveAndResume(tmp_path)]))
        == losses[2:]
    )
    assert len(told(kept.fit(ours("map"), epochs=2, verbose=0))) == 2


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_position_that_is_saved_can_prefetch_at_any_time(kind):
    """Before the first pass, within one, and between two; what is read ahead comes."""
    from headrace.compat.keras.adapter import FollowedPasses

    passes, expected = FollowedPasses(ours(kind), endless=False), [4] * 5
    try:
        for _ in range(2):
            passes.start_prefetch()
            counts = []
            for x, _ in passes.batches():
                counts.append(len(x))
                passes.start_prefetch()
            assert counts == expected
    finally:
        passes.close()


def test_the_position_that_is_saved_moves_to_another_number_of_shards(tmp_path):
    """As an iterator does, from the files of all processes of the earlier run."""
    from headrace.compat.keras.adapter import FollowedPasses
    from headrace.loader.state.files import restore

    for index in range(2):
        shard = headrace.load(
            rows(), batch_size=2, num_epochs=1, shard_options=headrace.ShardOptions(index, 2)
        )
        iterator = iter(shard)
        next(iterator)
        (tmp_path / f"process_{index}-of-2.json").write_bytes(iterator.get_state())
    passes = FollowedPasses(ours("loader"), endless=False)
    restore(tmp_path, passes)
    assert [len(x) for x, _ in passes.batches()] == [4] * 4


def test_steps_per_execution_are_counted(tmp_path):
    """The place is after the last batch of the execution; a short one at the end of a pass counts
    as many as it has.
    """
    from headrace.compat.keras import SaveAndResume

    def data():
        return ours("map")

    options = {"steps_per_execution": 2}
    losses = told(
        model(**options).fit(
            data(), epochs=3, verbose=0, callbacks=[SaveAndResume(tmp_path / "whole")]
        )
    )
    model(**options).fit(
        data(), epochs=1, verbose=0, callbacks=[SaveAndResume(tmp_path / "parts", every=2)]
    )
    rest = model(**options).fit(
        data(), epochs=3, verbose=0, callbacks=[SaveAndResume(tmp_path / "parts", every=2)]
    )
    assert told(rest) == losses[1:]


def run(folder, kind, after, file):
    """The program, to its end or its death."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), kind, str(after), str(file)],
        capture_output=True,
        text=True,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "loader",
        "filtered",
        "ahead",
        "parallel",
        "device",
        "grain_loader",
        "grain_map",
        "grain_iter",
    ],
)
def test_a_fit_that_was_killed_goes_on_bit_by_bit(kind, tmp_path):
    """In the middle of the first epoch, and again in that of the last but one: the same losses and
    weights.
    """
    whole = run(tmp_path / "whole", kind, 0, tmp_path / "whole.json")
    assert whole.returncode == 0, whole.stderr
    for after in (4, 9):
        assert run(tmp_path / "parts", kind, after, tmp_path / "parts.json").returncode == -9
    last = run(tmp_path / "parts", kind, 0, tmp_path / "parts.json")
    assert last.returncode == 0, last.stderr
    expected, found = (
        json.loads((tmp_path / name).read_text()) for name in ("whole.json", "parts.json")
    )
    assert found["weights"] == expected["weights"]
    for name, values in found["logs"].items():
        assert values == expected["logs"][name][-len(values) :]
