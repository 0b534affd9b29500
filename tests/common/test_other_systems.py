"""headrace on a Python without the parts that Windows lacks: no worker processes; all else is as on
Linux.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from support.without import WINDOWS_LACKS, folder_without

PROGRAM = """
    import importlib, json, os, pkgutil, sys
    import numpy as np
    import headrace

    NOT_OURS = ("tests", "examples", "docs", "__main__", "setup", "ray", "keras")  # these two may lack
    for module in pkgutil.walk_packages(headrace.__path__, "headrace."):
        if not any(part in NOT_OURS for part in module.name.split(".")):
            importlib.import_module(module.name)

    folder = sys.argv[1]
    texts = os.path.join(folder, "texts.jsonl")
    with open(texts, "w") as file:
        file.writelines(json.dumps({"x": x}) + "\\n" for x in range(100))

    def loader(source, **options):
        sampler = headrace.IndexSampler(100, shuffle=True, seed=1, num_epochs=1)
        return headrace.DataLoader(
            data_source=source, sampler=sampler, operations=[lambda record: record["x"], headrace.Batch(10)], **options)

    def numbers(batches):
        return [batch.tolist() for batch in batches]

    wanted = numbers(loader([{"x": x} for x in range(100)], worker_count=0))
    lines = headrace.JsonLinesDataSource(texts)
    iterator = iter(loader(lines, worker_count=0))
    first = [next(iterator).tolist()]
    resumed = iter(loader(lines, worker_count=2, worker_kind="thread"))
    with headrace.checkpoint.StateFile(os.path.join(folder, "state")) as kept:
        kept.save(iterator)
        kept.restore(resumed)
    headrace.convert(lines, os.path.join(folder, "converted"), progress=False)
    try:
        next(iter(loader(lines, worker_count=2)))
    except ValueError as error:
        refusal = str(error)
    print(json.dumps({
        "lines": first + numbers(resumed) == wanted,
        "converted": len(headrace.ArrayRecordDataSource(os.path.join(folder, "converted"))),
        "refusal": refusal,
    }))
    """


@pytest.mark.slow
def test_all_but_worker_processes_does_without_what_windows_lacks(tmp_path):
    """Every module is imported; files are read and written, states kept, shards converted.
    Processes are refused by name.
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    path = os.pathsep.join(
        [str(folder_without(WINDOWS_LACKS, tmp_path)), os.environ.get("PYTHONPATH", "")]
    )
    told = subprocess.run(
        [sys.executable, program, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {
        "lines": True,
        "converted": 100,
        "refusal": 'worker_count=2: worker processes need Linux or macOS. Pass worker_kind="thread" or worker_count=0, or '
        "run the program in WSL 2.",
    }
