"""Handwritten digits in TFRecord files become ArrayRecord, and a model learns from them.

Two ways of conversion give the same bytes.

    pip install "headrace[jax,array-record,tfrecord,beam]" scikit-learn
    python examples/convert_digits.py [--out DIR]

1. The 1,797 digits that ship inside scikit-learn are written to four TFRecord files, one of them
   compressed.
2. `headrace convert` is killed while it works, and run again.
3. The same is done as a pipeline of Apache Beam, on its local runner.
4. Both must be the same bytes, be what their manifests say, and hold every digit in its place.
5. A small network learns from the converted files, shuffled.

Each claim that is printed as "verified" was checked; one that fails ends the program with exit code
1.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np

import headrace
from headrace.formats.tfrecord import framed

FILES = 4
STEPS = 600
FEATURES = {"image": (np.uint8, (8, 8)), "label": np.int32}


def write_digits(folder):
    """Every digit as a tf.train.Example, in four files."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    records = [
        headrace.encode_example({"image": image.astype(np.uint8), "label": label})
        for image, label in zip(digits.images, digits.target)
    ]
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(records)), FILES)):
        data = b"".join(framed(records[key]) for key in part)
        name = f"digits.tfrecord-{number:05}-of-{FILES:05}"
        if number == 0:
            name, data = f"{name}.gz", gzip.compress(data)
        (folder / name).write_bytes(data)
    return records


def command(source, target, *options):
    """`headrace convert`, as in a shell."""
    return [sys.executable, "-m", "headrace", "convert", str(source), str(target), *options]


def convert_with_a_kill(source, target):
    """Kill it when the first file is there, and run it again."""
    process = subprocess.Popen(command(source, target, "--workers", "1"), stderr=subprocess.DEVNULL)
    while not list(target.glob("*.array_record")) and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
    there = sorted(path.name for path in target.glob("*.array_record"))
    subprocess.run(command(source, target, "--workers", "2"), check=True)
    return there


def content(folder):
    """The bytes of all its files."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def decode(record):
    """From bytes to `image` float32[64] and `label` int32."""
    found = headrace.decode_example(record, FEATURES)
    return {"image": found["image"].reshape(64).astype(np.float32) / 16, "label": found["label"]}


def apply(weights, images):
    """A network of one hidden layer."""
    (first, second), (third, fourth) = weights
    return jax.nn.relu(images @ first + second) @ third + fourth


@jax.jit
def train_step(weights, batch):
    """One step of gradient descent."""

    def loss(weights):
        scores = jax.nn.log_softmax(apply(weights, batch["image"]))
        return -jnp.take_along_axis(scores, batch["label"][:, None], 1).mean()

    return jax.tree.map(
        lambda weight, slope: weight - 0.3 * slope, weights, jax.grad(loss)(weights)
    )


def trained(folder):
    """The share of the digits that are recognised, of those that it has not seen."""
    records = headrace.ArrayRecordDataSource(folder)
    keys = np.arange(len(records))
    training, test = (
        records.__getitems__(keys[keys % 5 == 0] if unseen else keys[keys % 5 != 0])
        for unseen in (0, 1)
    )
    dice = np.random.default_rng(0)
    shapes = ((64, 64), (64, 10))
    weights = [
        (dice.normal(0, 0.1, shape).astype(np.float32), np.zeros(shape[1], np.float32))
        for shape in shapes
    ]
    loader = headrace.load(
        training, shuffle=True, seed=0, transformations=[decode], batch_size=64, drop_remainder=True
    )
    for _, batch in zip(range(STEPS), loader):
        weights = train_step(weights, batch)
    unseen = [decode(record) for record in test]
    guesses = apply(weights, np.stack([element["image"] for element in unseen])).argmax(1)
    return float((guesses == np.array([element["label"] for element in unseen])).mean())


def verified(claim, holds):
    """Print a claim that holds; the end, if it does not."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print(f"verified: {claim}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("digits-converted"), help="folder for all files"
    )
    out = parser.parse_args().out
    for name in ("tfrecord", "here", "beam"):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(exist_ok=True, parents=True)
    records = write_digits(out / "tfrecord")

    there = convert_with_a_kill(out / "tfrecord", out / "here")
    print(f"killed when there were {there}, and run again")
    verified("the files are what the manifest says", headrace.verify(out / "here") == [])
    source = headrace.ArrayRecordDataSource(out / "here")
    verified(f"all {len(records):,} digits are there, in their order", list(source) == records)

    try:
        import apache_beam  # noqa: F401
    except ImportError:
        print(
            'Apache Beam is not installed (pip install "headrace[beam]"): the second way is left '
            "out"
        )
    else:
        temporary = out / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(temporary)}  # Beam leaves folders there
        subprocess.run(
            command(out / "tfrecord", out / "beam", "--runner", "DirectRunner"),
            check=True,
            env=environment,
        )
        shutil.rmtree(temporary)
        verified(
            "a pipeline of Apache Beam writes the same bytes",
            content(out / "here") == content(out / "beam"),
        )

    accuracy = trained(out / "here")
    verified(
        f"a network that learned from them recognises {accuracy:.1%} of the other digits",
        accuracy > 0.95,
    )


if __name__ == "__main__":
    main()
