"""`tf.train.Example` and `tf.train.SequenceExample`, written by the protobuf library."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _messages():
    """The messages of TensorFlow's example.proto and feature.proto, made here: Example and
    SequenceExample.
    """
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="example_of_tests.proto", package="tests", syntax="proto3"
    )

    def add(name, *fields, inside=None):
        message = (inside.nested_type if inside else file.message_type).add(name=name)
        for number, (label, kind, of) in enumerate(fields, 1):
            names = {1: "value"} if len(fields) == 1 else {1: "a", 2: "b", 3: "c"}
            message.field.add(
                name=names[number], number=number, label=label, type=kind, type_name=of or None
            )
        return message

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    add("BytesList", (many, field.TYPE_BYTES, ""))
    add("FloatList", (many, field.TYPE_FLOAT, ""))
    add("Int64List", (many, field.TYPE_INT64, ""))
    lists = [
        (one, field.TYPE_MESSAGE, f".tests.{name}")
        for name in ("BytesList", "FloatList", "Int64List")
    ]
    feature = add("Feature", *lists)
    feature.oneof_decl.add(name="kind")
    for member in feature.field:
        member.oneof_index = 0
    features = add("Features", (many, field.TYPE_MESSAGE, ".tests.Features.Entry"))
    entry = features.nested_type.add(name="Entry")
    entry.field.add(name="key", number=1, label=one, type=field.TYPE_STRING)
    entry.field.add(
        name="value", number=2, label=one, type=field.TYPE_MESSAGE, type_name=".tests.Feature"
    )
    add("Example", (one, field.TYPE_MESSAGE, ".tests.Features"))
    add("FeatureList", (many, field.TYPE_MESSAGE, ".tests.Feature"))
    lists = add("FeatureLists", (many, field.TYPE_MESSAGE, ".tests.FeatureLists.Entry"))
    entry = lists.nested_type.add(name="Entry")
    entry.field.add(name="key", number=1, label=one, type=field.TYPE_STRING)
    entry.field.add(
        name="value", number=2, label=one, type=field.TYPE_MESSAGE, type_name=".tests.FeatureList"
    )
    add(
        "SequenceExample",
        (one, field.TYPE_MESSAGE, ".tests.Features"),
        (one, field.TYPE_MESSAGE, ".tests.FeatureLists"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("Example", "SequenceExample")
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tests.{name}"))
        for name in names
    ]


Example, SequenceExample = _messages()


def _fill(feature, values):
    """Write values to a feature; the type is that of the first. Without values, nothing
    is written.
    """
    if values:
        kind = "a" if isinstance(values[0], bytes) else "b" if isinstance(values[0], float) else "c"
        getattr(feature, kind).value.extend(values)


def by_protobuf(record):
    """The bytes that the protobuf library writes; integers, floats and byte strings by the type of
    the first.
    """
    example = Example()
    for name, values in record.items():
        _fill(example.value.value.add(key=name).value, values)
    return example.SerializeToString()


def sequence_by_protobuf(record, sequences):
    """Likewise a sequence example. A feature list is a list of steps, and a step a list
    of values.
    """
    example = SequenceExample()
    example.a.SetInParent()
    example.b.SetInParent()
    for name, values in record.items():
        _fill(example.a.value.add(key=name).value, values)
    for name, steps in sequences.items():
        found = example.b.value.add(key=name).value
        found.SetInParent()
        for step in steps:
            _fill(found.value.add(), step)
    return example.SerializeToString()
