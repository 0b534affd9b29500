"""Every exception that headrace raises on its own account.

A message gives what was passed, the limit, and the remedy. An exception that a user's own function raises is never
replaced: it reaches the consumer with its type, its message and a note that says where in the stream it happened.
"""


class HeadraceError(Exception):
    """Base of all errors below, so that one `except` catches them."""


class SourceError(HeadraceError):
    """A source cannot be opened or read; the message names the file and, where there is one, the record key."""


class NoRecordsError(SourceError):
    """A source has no records at all."""


class CutOffError(SourceError):
    """A compressed file cannot be unpacked to its end; what was read before is whole."""


class ExpansionError(SourceError):
    """A compressed file unpacks to far more than its size, as one does that is made to fill the memory."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """A path, glob or directory matches no file."""


class RecordKeyError(SourceError, IndexError):
    """A record key lies outside `[0, len(source))`."""


class MissingExtraError(HeadraceError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


class BatchError(HeadraceError, ValueError):
    """Elements cannot be put into one batch: unequal shapes or structures."""


class StructureError(BatchError, TypeError):
    """Elements of one batch differ in structure, or in the shape of a leaf."""


class NoElementError(BatchError):
    """An element of a batch is None, as of a function without a return."""


class BatchMemoryError(HeadraceError, MemoryError):
    """There is no memory for a batch; the message has its shape and bytes. No record is at fault, so none is left out."""


class ImageError(HeadraceError, ValueError):
    """Bytes cannot be decoded as an image, or what an operation on images got is none."""


class PackError(HeadraceError, ValueError):
    """Elements cannot be packed: a leaf is no array of tokens, is unlike that of other elements, or is too long."""


class LengthsError(HeadraceError, ValueError):
    """Lengths or costs of records are not known, or cannot be: one is negative, NaN or not whole, or records have none."""


class PromotionWarning(UserWarning):
    """Numbers of several dtypes came together in a batch, which has a dtype that none of them may have."""


class FanOutError(HeadraceError, ValueError):
    """A flat map returned more elements than its `max_fan_out`."""


class SeedError(HeadraceError, ValueError):
    """A random operation runs in a pipeline that has no seed."""


class StopIterationError(HeadraceError, RuntimeError):
    """A source, sampler or operation raised StopIteration, which would look like the end of the stream; it is the cause."""


class EmptyStreamError(HeadraceError, ValueError):
    """With `drop_remainder=True`, all records together make no batch."""


class NothingPassesError(HeadraceError, RuntimeError):
    """A filter dropped a whole epoch of an endless stream, so that the next batch would never come."""


class JoinError(HeadraceError, ValueError):
    """Datasets cannot be joined as asked, or a join cannot go on: the message names which of them, and why."""


class ConversionError(HeadraceError):
    """A conversion cannot begin or go on; the message names the file, and what to do. Running the same again goes on."""


class ProgramError(HeadraceError):
    """A program that a command was given has no loader, fails, or never takes a step."""


class OutputError(HeadraceError, OSError):
    """A file that was asked for cannot be written; the message names it, and says why."""


class PortError(HeadraceError, OSError):
    """Nothing can be served at an address and port; the message says why."""


class CheckpointError(HeadraceError, ValueError):
    """A state cannot be read, or it belongs to another pipeline."""


class StateIndexError(CheckpointError, IndexError):
    """A state tells an index that the dataset does not have."""


class TraceError(HeadraceError, LookupError):
    """What was in a step cannot be told: it is after the end, was left out, or came before what a checkpoint knows."""


class NotDeterministicError(HeadraceError, RuntimeError):
    """A pipeline gave something else a second time; the message names the operation."""


class TooManyErrorsError(HeadraceError, RuntimeError):
    """With `on_error="skip"`, more records failed than `max_errors`."""


class ShardingError(HeadraceError, ValueError):
    """A batch cannot be put on devices as the sharding says, or an operation works on one shard alone; the message says why."""


class HostsError(HeadraceError, RuntimeError):
    """The processes of a run cannot go on together: their batches are uneven, or one of them failed or stopped."""


class ClosedError(HeadraceError, RuntimeError):
    """The iterator was closed."""


class InUseError(HeadraceError, RuntimeError):
    """An iterator is used while it is at work: by a second thread, or by a signal's handler."""


class PicklingError(HeadraceError, ValueError, TypeError):
    """A part of the pipeline cannot be sent to worker processes; the message names it, and says why."""


class WorkerCrashedError(HeadraceError, RuntimeError):
    """A task ended its worker again and again; the message names the signal or exit code and the record keys."""


class DebuggerError(HeadraceError, RuntimeError):
    """An operation called `breakpoint()` in a worker process, which has no terminal."""


class ClusterNotFoundError(HeadraceError, ConnectionError):
    """There is no Ray cluster at the address, or this process is in another one."""


class ClusterMismatchError(HeadraceError, RuntimeError):
    """A node of the Ray cluster has another version of headrace, or unpickles another pipeline: its stream might be another."""


class ClusterLostError(HeadraceError, ConnectionError):
    """The Ray cluster that does the work is gone: its head, or Ray's process on this machine."""
