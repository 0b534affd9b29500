"""The exceptions of headrace.

Wrong arguments mostly raise Python's TypeError or ValueError instead.

A message gives the value that was passed, the limit and the remedy. An exception raised by a user's
function reaches the training loop with its type and message, and with a note that says where in the
stream it happened. A StopIteration is replaced by a `StopIterationError`, and an exception in a
worker process that cannot be pickled, by a similar exception.
"""


class HeadraceError(Exception):
    """Base class of all errors below, so that one `except` catches them."""


class SourceError(HeadraceError):
    """A source cannot be opened or read.

    The message names the file and, if possible, the record key.
    """


class NoRecordsError(SourceError):
    """A source has no records or no arrays."""


class CutOffError(SourceError):
    """A compressed file cannot be unpacked to its end.

    The records before the damage are complete.
    """


class ExpansionError(SourceError):
    """A compressed file unpacks to far more than its size, as files do that attack memory."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """There is no file, folder or table at a path, or no file that matches a glob."""


class RecordKeyError(SourceError, IndexError):
    """A record key lies outside `[0, len(source))`, or its record was omitted or does not exist."""


class MissingExtraError(HeadraceError, ImportError):
    """An optional dependency is not installed or cannot be imported.

    The message names the extra or the package.
    """


class BatchError(HeadraceError, ValueError):
    """Elements cannot be put into one batch: shapes, structures or dtypes may not agree."""


class StructureError(BatchError, TypeError):
    """Elements of one batch have different structures, or a leaf has different shapes."""


class NoElementError(BatchError):
    """An element of a batch is None. The function that made the element may lack a `return`."""


class BatchMemoryError(HeadraceError, MemoryError):
    """There is not enough memory for a batch. The message has its shape and bytes.

    `on_error="skip"` does not skip records for this error.
    """


class ImageError(HeadraceError, ValueError):
    """Bytes cannot be decoded as an image, or an image operation cannot work on its input."""


class VideoError(HeadraceError, ValueError):
    """A video or sound file cannot be decoded, or an operation cannot work on its input.

    The file may also lack the frame or the time that was asked for.
    """


class PackError(HeadraceError, ValueError):
    """Elements cannot be packed into rows.

    A leaf of an element is not an array of tokens, differs from the leaf of other elements, is too
    long, or has another length than planned; or an argument does not fit the elements.
    """


class LengthsError(HeadraceError, ValueError):
    """Lengths or costs of records are unknown or invalid, or a record is too long.

    A record may be longer than was stated, too.
    """


class PromotionWarning(UserWarning):
    """Numbers of several dtypes were combined in a batch, whose dtype may differ from theirs."""


class FanOutError(HeadraceError, ValueError):
    """A flat map returned more elements than its `max_fan_out`."""


class SeedError(HeadraceError, ValueError):
    """A random operation, a shuffle or `seed_globals` needs a seed, and the pipeline has none."""


class StopIterationError(HeadraceError, RuntimeError):
    """A source, sampler or operation raised StopIteration, which would look like the stream's end.

    The StopIteration is the cause of this error.
    """


class EmptyStreamError(HeadraceError, ValueError):
    """A stream has no batch or no record.

    With `drop_remainder=True`, all records together do not fill one batch; or all records are
    omitted.
    """


class NothingPassesError(HeadraceError, RuntimeError):
    """All records of an endless stream were dropped for at least an epoch.

    Filters, flat maps or `on_error="skip"` dropped them.

    No further element is expected.
    """


class JoinError(HeadraceError, ValueError):
    """Datasets cannot be joined.

    Or a join, limit or repeat cannot continue, for example on other shards.

    The message names the reason.
    """


class ConversionError(HeadraceError):
    """A conversion cannot start or continue. The message names the file and the remedy.

    Run the same command again to resume.
    """


class ProgramError(HeadraceError):
    """The program that was passed to a command cannot be used.

    It cannot be read, has no loader or several, fails, or takes too few steps.
    """


class OutputError(HeadraceError, OSError):
    """An output file cannot be written, or two outputs have one name.

    The message names the file and the reason.
    """


class PortError(HeadraceError, OSError):
    """The requested address and port cannot be used. The message says why."""


class CheckpointError(HeadraceError, ValueError):
    """A state cannot be read, or it belongs to another pipeline."""


class StateIndexError(CheckpointError, IndexError):
    """A state contains an index that is outside the dataset."""


class TraceError(HeadraceError, LookupError):
    """The records of a step cannot be determined.

    The step is after the end, was skipped, or is too old; or the omitted records of a loader cannot
    be searched for.
    """


class NotDeterministicError(HeadraceError, RuntimeError):
    """A pipeline gave different results for the same step.

    The message names the operation if it is known.
    """


class TooManyErrorsError(HeadraceError, RuntimeError):
    """With `on_error="skip"`, more records failed than `max_errors`."""


class ShardingError(HeadraceError, ValueError):
    """A batch cannot be placed on devices as asked, or a pipeline is not for so many shards.

    The message says which.
    """


class HostsError(HeadraceError, RuntimeError):
    """The processes of a run cannot continue together.

    Their numbers of batches differ, one of them failed or stopped, or they cannot exchange or
    describe their batches.
    """


class ClosedError(HeadraceError, RuntimeError):
    """The object, such as an iterator or a writer, was closed before this call."""


class InUseError(HeadraceError, RuntimeError):
    """An iterator was called while it was in use.

    It was in use by another thread, or by the code that a signal handler interrupted.
    """


class PicklingError(HeadraceError, ValueError, TypeError):
    """A part of the pipeline cannot be sent to worker processes.

    The message names the part and the reason.
    """


class WorkerCrashedError(HeadraceError, RuntimeError):
    """Workers ended, or exceeded `timeout`, repeatedly while they worked on the same records.

    In a conversion, it is enough that one worker process ended. The message names the records or
    the file and, if it is known, the signal or exit code.
    """


class DebuggerError(HeadraceError, RuntimeError):
    """An operation called `breakpoint()` in a worker process, which has no terminal."""


class ClusterNotFoundError(HeadraceError, ConnectionError):
    """There is no Ray cluster at the address, or this process is connected to another cluster."""


class ClusterMismatchError(HeadraceError, RuntimeError):
    """A node of the Ray cluster would give another stream.

    It has another version of headrace, or unpickles another pipeline.
    """


class ClusterLostError(HeadraceError, ConnectionError):
    """The Ray cluster of the workers cannot be reached any more, or this process has left it."""
