"""Histories that the random ones found: each is the smallest one of a fault that was mended."""

from __future__ import annotations

from support.histories import History, Run, played
from support.history_programs import Program


def _play(program, *runs, way="all"):
    """Each run: its steps, what the next program changes, and what is appended before the steps;
    `way` as in `Run`.
    """
    made, last = [], program
    for steps, changes, *appended in runs:
        last = last._replace(**changes)
        made.append(Run(steps, last, way, appended=tuple(appended)))
    played(History(program, tuple(made)))


def test_weights_and_omitted_records_change_after_an_omission_at_unequal_steps():
    """The change is made, or refused when the state is set."""
    program = Program("mix of a chain", {"a": 1, "b": 8}, {"a": 1, "b": 3}, shards=3)
    _play(
        program,
        ((1,), {"omitted": {"b": (4,)}}),
        ((1, 0), {"weights": {"a": 5, "b": 0}, "omitted": {"b": (3, 4)}}),
    )


def test_parts_and_omitted_records_change_at_unequal_steps():
    """No record comes after it was omitted."""
    program = Program("endless mix", {"a": 1, "b": 5}, {"a": 3, "b": 1}, shards=3)
    change = {"records": {"b": 5}, "weights": {"b": 1}, "omitted": {"b": (3,)}}
    _play(program, ((0, 4, 4), {"shards": 2}), ((3, 4), change))


def test_weights_and_omitted_records_change_inside_a_window():
    """No record comes after it was omitted."""
    tail = (("batch taken apart", 2),)
    program = Program("mix", {"a": 4, "b": 3}, {"a": 2, "b": 3}, tail=tail, shards=3)
    _play(program, ((1,), {"weights": {"a": 5, "b": 1}, "omitted": {"b": (2,)}}))


def test_weights_and_omitted_records_of_streams_change_after_a_flat_map():
    """The change is made, or refused with its true reason."""
    program = Program(
        "mix of streams",
        {"a": 1, "b": 3, "c": 2},
        {"a": 1, "b": 3, "c": 1},
        tail=(("flat map", 2),),
        shards=3,
    )
    change = {"weights": {"a": 3, "b": 1, "c": 2}, "omitted": {"b": (0, 2)}}
    _play(program, ((3,), {}), ((0,), change))


def test_weights_and_omitted_records_of_streams_change_after_other_shards():
    """The change is made, or refused with its true reason."""
    program = Program(
        "mix of streams", {"a": 1, "b": 1}, {"a": 1, "b": 1}, tail=(("pack", 4),), shards=3
    )
    more = {"records": {"a": 1, "b": 1, "c": 2}, "weights": {"a": 1, "b": 1, "c": 3}, "shards": 2}
    _play(
        program, ((0,), more), ((1,), {"weights": {"a": 1, "b": 2, "c": 1}, "omitted": {"c": (1,)}})
    )


def test_a_growing_mix_changes_its_weights_inside_a_window():
    """Each record comes once."""
    tail = (("pack", 4), ("window shuffle", 3), ("flat map", 4))
    program = Program(
        "growing mix now", {"a": 8, "b": 9}, {"a": 2, "b": 2}, tail=tail, batch=3, every=2
    )
    change = {"weights": {"a": 5, "b": 3}, "shards": 2}
    _play(program, ((1,), change), ((2,), {"weights": {"a": 3, "b": 0}}, ("b", 1), ("a", 1)))


def test_a_growing_mix_omits_records_of_a_window():
    """No record comes after it was omitted."""
    program = Program(
        "growing mix epoch", {"a": 4, "b": 4}, {"a": 1, "b": 2}, tail=(("packed", 3),)
    )
    change = {"weights": {"a": 5, "b": 1}, "shards": 2}
    _play(program, ((0,), change), ((0, 2), {"omitted": {"b": (1, 3)}}, ("a", 3)))


def test_a_growing_mix_omits_records_at_unequal_steps():
    """No record comes after it was omitted."""
    program = Program("growing mix now", {"a": 4, "b": 2}, {"a": 3, "b": 1}, shards=2, every=5)
    _play(
        program,
        ((0,), {"shards": 3}, ("a", 3), ("b", 1)),
        ((2,), {}, ("b", 3), ("b", 3)),
        ((4, 0, 0), {"omitted": {"b": (0,)}}, ("a", 2)),
    )


def test_a_growing_mix_grows_after_a_shard_ended():
    """Each record comes once."""
    program = Program(
        "growing mix now", {"a": 1, "b": 4}, {"a": 1, "b": 3}, batch=3, shards=2, every=1
    )
    _play(program, ((1,), {"weights": {"a": 3, "b": 1}}), ((0,), {}, ("b", 2)))


def test_a_growing_mix_omits_and_grows_after_a_shard_ended():
    """The run goes on, or is refused when the state is set."""
    program = Program(
        "growing mix now", {"a": 4, "b": 6}, {"a": 3, "b": 1}, batch=2, shards=3, every=7
    )
    _play(
        program, ((2,), {"omitted": {"b": (1, 3)}}), ((0,), {"weights": {"a": 0, "b": 1}}, ("b", 1))
    )


def test_fewer_records_are_drawn_once_on_other_shards():
    """The change is made, or refused with its true reason."""
    program = Program("weighted once", {"a": 14}, {"a": 3})
    _play(
        program,
        ((0,), {"weights": {"a": 1}, "shards": 3}),
        ((4,), {"weights": {"a": 2}, "shards": 1}),
    )


def test_fewer_records_are_drawn_once_after_all_were_read():
    """A state of the changed program can be restored by the same program."""
    program = Program("weighted once", {"a": 11}, {"a": 2}, batch=3, shards=2, epochs=2)
    _play(
        program,
        ((2,), {"weights": {"a": 1}, "shards": 1}),
        ((1,), {"weights": {"a": 5}}),
        way="own",
    )


def test_a_growing_mix_grows_after_its_weights_changed_at_unequal_steps():
    """Each record comes once."""
    program = Program("growing mix epoch", {"a": 1, "b": 7}, {"a": 2, "b": 3}, shards=3)
    _play(program, ((0, 0, 1), {"weights": {"a": 1, "b": 5}}), ((0,), {}, ("b", 2)))


def test_a_growing_mix_grows_after_its_weights_changed_in_a_window():
    """The states of all shards of a run go together."""
    tail = (("batch taken apart", 4),)
    program = Program(
        "growing mix now", {"a": 8, "b": 5}, {"a": 3, "b": 2}, tail=tail, batch=2, shards=2, every=6
    )
    _play(program, ((3,), {"weights": {"a": 1, "b": 0}}), ((1,), {}, ("a", 1)))


def test_weights_change_where_the_parts_of_a_mix_changed_before():
    """Nothing is read in between: the removed part does not come back."""
    tail = (("window shuffle", 3), ("flat map", 2))
    program = Program("mix", {"a": 8, "b": 2}, {"a": 2, "b": 3}, tail=tail, batch=3, epochs=3)
    change = {"records": {"b": 2}, "weights": {"b": 3}, "omitted": {"a": ()}, "shards": 3}
    _play(program, ((2,), change), ((9,), {"weights": {"b": 1}, "shards": 1}))


def test_parts_change_twice_where_nothing_is_read_in_between():
    """The parts that had ended before stay ended."""
    tail = (("filter", 4), ("batch taken apart", 4), ("packed", 4))
    program = Program(
        "ramp", {"a": 6, "b": 8}, {"a": 2, "b": 2}, tail=tail, batch=None, shards=3, every=3
    )
    first = program._replace(records={"a": 10, "b": 8, "c": 1}, weights={"a": 2, "b": 2, "c": 1})
    second = first._replace(weights={"a": 1, "b": 0, "c": 5}, shards=2)
    third = second._replace(records={"a": 10, "c": 1}, weights={"a": 1, "c": 5}, omitted={"b": ()})
    runs = (
        Run((4, 1, 9), first, "live", lost=1),
        Run((3,), second, "live"),
        Run((2, 4), third, "live"),
    )
    played(History(program, runs))


def test_a_growing_mix_changes_its_weights_after_it_ended():
    """The place of the change is the end of the order that had grown."""
    program = Program(
        "growing mix now", {"a": 1, "b": 1}, {"a": 1, "b": 2}, batch=3, shards=3, epochs=2, every=1
    )
    first = program._replace(shards=2)
    second = first._replace(weights={"a": 1, "b": 1})
    runs = (
        Run((9, 2, 0), first, "live", lost=2, appended=(("b", 1),)),
        Run((9, 2), second, "one", lost=1, appended=(("b", 2),)),
        Run(
            (4, 3), second._replace(weights={"a": 0, "b": 2}), lost=2, appended=(("b", 2), ("a", 1))
        ),
    )
    played(History(program, runs))


def test_slower_shards_of_a_growing_mix_decide_as_the_others_after_an_omission():
    """All shards read appended records from the same position on."""
    program = Program(
        "growing mix now", {"a": 2, "b": 8}, {"a": 2, "b": 2}, batch=1, shards=2, epochs=2, every=2
    )
    omitting = program._replace(omitted={"a": (1,)})
    last = omitting._replace(weights={"a": 3, "b": 1}, omitted={"a": (1,), "b": (0, 7)})
    runs = (
        Run((2,), omitting, "live", appended=(("b", 3),)),
        Run((3, 1), omitting, lost=1, appended=(("b", 3), ("b", 3))),
        Run((2,), last, "own", appended=(("a", 1), ("b", 3))),
    )
    played(History(program, runs))


def test_a_growing_run_omits_records_after_a_shard_ended():
    """Each record comes once, or the change is refused."""
    tail = (("filter", 4),)
    program = Program(
        "growing mix now",
        {"a": 3, "b": 5},
        {"a": 2, "b": 3},
        tail=tail,
        batch=3,
        shards=3,
        epochs=3,
        every=4,
    )
    omitting = program._replace(omitted={"a": (0, 1)})
    runs = (
        Run((4,), omitting, "live"),
        Run((3,), omitting, lost=1, appended=(("b", 3),)),
        Run(
            (4,),
            omitting._replace(weights={"a": 3, "b": 1}, shards=1),
            "live",
            appended=(("a", 1),),
        ),
    )
    played(History(program, runs))


def test_a_growing_run_omits_records_after_a_killed_run_looked_at_its_end():
    """Records that were appended together come all, or none."""
    first = Program("growing now", {"a": 12}, every=3)
    second = first._replace(omitted={"a": (10, 11)}, shards=3)
    third = second._replace(omitted={"a": (7, 10, 11)})
    runs = (
        Run((4,), second),
        Run((1,), second, lost=1),
        Run((2,), third, appended=(("a", 1), ("a", 3))),
    )
    played(History(first, runs))


def test_a_growing_mix_gives_a_part_the_weight_0():
    """A part of weight 0 does not come."""
    program = Program(
        "growing mix now", {"a": 9, "b": 2}, {"a": 1, "b": 3}, batch=3, shards=3, every=8
    )
    _play(program, ((1,), {"weights": {"a": 0, "b": 5}}, ("a", 2)))


def test_a_growing_mix_changes_its_weights_at_unequal_steps_inside_a_window():
    """The change is refused: a window would be made of other records."""
    tail = (("flat map", 4), ("filter", 2), ("packed", 2))
    first = Program(
        "growing mix now",
        {"a": 6, "b": 8},
        {"a": 2, "b": 1},
        tail=tail,
        shards=3,
        epochs=2,
        every=3,
    )
    second = first._replace(omitted={"b": (2, 3, 7)})
    runs = (
        Run((0,), second, "one", lost=1, appended=(("a", 3), ("b", 3))),
        Run(
            (0, 3, 3),
            second._replace(weights={"a": 1, "b": 1}),
            "one",
            appended=(("a", 3), ("b", 2)),
        ),
    )
    played(History(first, runs))


def test_a_part_is_added_that_omits_records():
    """Its order has no past in the run."""
    program = Program("mix of a chain", {"c": 5}, {"c": 3}, epochs=3)
    change = {"records": {"c": 5, "d": 3}, "weights": {"c": 0, "d": 2}, "omitted": {"d": (0, 2)}}
    _play(program, ((3,), change), ((1,), {}))


def test_records_of_a_mix_are_omitted_in_the_run_after_a_part_was_removed():
    """A call names parts that the mix has."""
    program = Program("mix of a chain", {"a": 2, "b": 3, "c": 2}, {"a": 2, "b": 1, "c": 1})
    removed = {"records": {"b": 3, "c": 2}, "weights": {"b": 1, "c": 1}, "omitted": {"a": ()}}
    _play(program, ((1,), removed), ((1,), {"omitted": {"a": (), "b": (2,)}}), way="live")


def test_weights_of_a_call_stay_in_a_program_of_before_the_call():
    """Also if a later program describes the former weights again: a state after a call fits both
    programs.
    """
    program = Program("endless mix", {"a": 1, "b": 1}, {"a": 1, "b": 2})
    runs = (
        Run((2,), program._replace(weights={"a": 1, "b": 5}), "live"),
        Run((2,), program, "all"),
        Run((3,), program._replace(shards=2), "all"),
    )
    played(History(program, runs))


def test_equal_steps_after_fewer_records_are_drawn():
    """The earlier run decides which shards were longer: the state of a shorter one at its end is
    refused.
    """
    program = Program("weighted once", {"a": 7}, {"a": 2}, batch=3, shards=2)
    runs = (
        Run((1,), program._replace(weights={"a": 3}), "one"),
        Run((0,), program._replace(weights={"a": 5}), "all"),
    )
    assert [each.reason for each in played(History(program, runs)).refused] == [
        "the end of a shard"
    ]


def test_a_growing_mix_grows_after_records_were_omitted_at_its_end():
    """A part had ended, and gets more records. Its number of records so far is that of the run,
    without omitted records.
    """
    program = Program("growing mix now", {"a": 3, "b": 3}, {"a": 2, "b": 2}, batch=2, every=2)
    _play(program, ((3,), {"omitted": {"a": (0, 2)}}), ((1,), {}, ("a", 1), ("b", 3)))


def test_a_growing_mix_changes_its_weights_in_a_window_after_it_grew_and_omitted():
    """Each record comes once."""
    program = Program(
        "growing mix now", {"a": 1, "b": 3}, {"a": 3, "b": 2}, tail=(("packed", 2),), every=6
    )
    first, second = {"omitted": {"b": (2,)}}, {"omitted": {"b": (1, 2, 3)}}
    _play(
        program,
        ((1,), first),
        ((0,), second, ("a", 2), ("b", 1)),
        ((1,), {"weights": {"a": 1, "b": 1}}),
    )


def test_shards_of_a_growing_run_look_alike_after_rows_that_other_shards_left():
    """A shard that was inside a window of such rows has not yet come to where another one has found
    records.
    """
    tail = (("pack", 3), ("window shuffle", 3))
    program = Program("growing now", {"a": 9}, tail=tail, shards=2, epochs=2, every=8)
    _play(program, ((8,), {"shards": 3}, ("a", 3), ("a", 3)), ((2,), {}, ("a", 1)), way="own")


def test_a_mix_of_growing_streams_changes_its_weights_inside_a_window():
    """The change is refused: shards that end their windows pass over positions where others still
    look for records.
    """
    tail = (("flat map", 4), ("pack", 4))
    program = Program(
        "growing streams now", {"a": 6, "b": 8}, {"a": 2, "b": 3}, tail=tail, shards=3, every=2
    )
    change = {"weights": {"a": 0, "b": 1}}
    _play(program, ((1,), change), ((0, 8, 0), {}), ((0,), {}, ("b", 2), ("b", 2)))
