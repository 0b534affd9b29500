"""The exceptions of headrace. Wrong arguments mostly raise Python's TypeError or ValueError instead.

A message gives the value that was passed, the limit and the remedy. An exception raised by a user's
function reaches the training loop with its type and message, and with a note that says where in the
stream it happened. A StopIteration is replaced by a `StopIterationError`, and an exception in a worker
process that cannot be pickled, by a similar exception.
"""


class HeadraceError(Exception):
    """Base class of all errors below, so that one `except` catches them."""


class SourceError(HeadraceError):
    """A source cannot be opened or read. The message names the file and, if possible, the record key."""


class NoRecordsError(SourceError):
    """A source has no records."""


class CutOffError(SourceError):
    """A compressed file cannot be unpacked to its end. The records before the damage are complete."""


class ExpansionError(SourceError):
    """A compressed file unpacks to far more than its size, as files do that attack memory."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """A path, glob or directory matches no file."""


class RecordKeyError(SourceError, IndexError):
    """A record key lies outside `[0, len(source))`, or its record was omitted or does not exist."""


class MissingExtraError(HeadraceError, ImportError):
    """An optional dependency is not installed. The message names the extra or the package to install."""


class BatchError(HeadraceError, ValueError):
    """Elements cannot be put into one batch: shapes, structures or dtypes do not agree, or a leaf cannot be stacked."""


class StructureError(BatchError, TypeError):
    """Elements of one batch have different structures, or a leaf has different shapes."""


class NoElementError(BatchError):
    """An element of a batch is None. The function that made the element may lack a `return`."""


class BatchMemoryError(HeadraceError, MemoryError):
    """There is not enough memory for a batch. The message has its shape and bytes.

    `on_error="skip"` does not skip records for this error.
    """


class ImageError(HeadraceError, ValueError):
    """Bytes cannot be decoded as an image, or the input of an image operation is not an image."""


class VideoError(HeadraceError, ValueError):
    """A video or sound file cannot be decoded, has no such frame or time, or the input of a video operation is neither."""


class PackError(HeadraceError, ValueError):
    """Elements cannot be packed into rows.

    A leaf of an element is not an array of tokens, differs from the leaf of other elements, is too
    long, or has another length than planned; or an argument names a leaf that elements do not have.
    """


class LengthsError(HeadraceError, ValueError):
    """Lengths or costs of records are unknown or invalid, or a record is too long, or longer than was stated."""


class PromotionWarning(UserWarning):
    """Numbers of several dtypes were combined in one batch, whose dtype may differ from all of them."""


class FanOutError(HeadraceError, ValueError):
    """A flat map returned more elements than its `max_fan_out`."""


class SeedError(HeadraceError, ValueError):
    """A random operation needs a seed, and the pipeline has none."""


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
    """Operations dropped all records of an endless stream: filters, flat maps, or `on_error="skip"`.

    Each source has shown all of its records, so no batch would ever come.
    """


class JoinError(HeadraceError, ValueError):
    """Datasets cannot be joined; or a join, limit or repeat cannot continue, for example on other shards.

    The message names the reason, and the datasets of a join.
    """


class ConversionError(HeadraceError):
    """A conversion cannot start or continue. The message names the file and the remedy.

    Run the same command again to resume.
    """


class ProgramError(HeadraceError):
    """The program that was passed to a command cannot be read, has no loader or several, fails, or takes no step."""


class OutputError(HeadraceError, OSError):
    """An output file cannot be written, or two outputs have one name. The message names the file and the reason."""


class PortError(HeadraceError, OSError):
    """The requested address and port cannot be used. The message says why."""


class CheckpointError(HeadraceError, ValueError):
    """A state cannot be read, or it belongs to another pipeline."""


class StateIndexError(CheckpointError, IndexError):
    """A state contains an index that is outside the dataset."""


class TraceError(HeadraceError, LookupError):
    """The records of a step cannot be determined.

    The step is after the end, was skipped, or is too old; or the omitted records of a loader cannot be
    searched for.
    """


class NotDeterministicError(HeadraceError, RuntimeError):
    """A pipeline gave different results for the same step. The message names the operation if it is known."""


class TooManyErrorsError(HeadraceError, RuntimeError):
    """With `on_error="skip"`, more records failed than `max_errors`."""


class ShardingError(HeadraceError, ValueError):
    """A batch cannot be placed on devices as asked, or a pipeline does not work on this number of shards.

    The message says which.
    """


class HostsError(HeadraceError, RuntimeError):
    """The processes of a run cannot continue together.

    Their numbers of batches differ, one of them failed or stopped, or they cannot exchange or describe
    their batches.
    """


class ClosedError(HeadraceError, RuntimeError):
    """The object, such as an iterator or a writer, was closed before this call."""


class InUseError(HeadraceError, RuntimeError):
    """An iterator was called while it was in use.

    It was in use by another thread, or by the code that a signal handler interrupted.
    """


class PicklingError(HeadraceError, ValueError, TypeError):
    """A part of the pipeline cannot be sent to worker processes. The message names the part and the reason."""


class WorkerCrashedError(HeadraceError, RuntimeError):
    """A worker process ended repeatedly while it worked on the same records; in a conversion, it ended once.

    The message names the signal or exit code, and the record keys or the file.
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
    """The Ray cluster that runs the workers is lost: its head, or Ray's process on this machine, ended."""
