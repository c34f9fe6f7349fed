"""The native half of Monarch: processes, links, mailboxes and replies.

Private. Knows bytes, identities and descriptors, never Python objects other than those. Everything that blocks
releases the interpreter lock; a blocking call on the main thread runs Python's signal handlers within 100 ms.

In a forked child every function raises `RuntimeError`: the runtime's threads do not survive a fork.
"""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn, final

import typing_extensions
from typing_extensions import Self

__version__: Final[str]

STATUS_CALL: Final[int]  # a request on its way to an actor
STATUS_VALUE: Final[int]  # an answer: the result
STATUS_ERROR: Final[int]  # an answer: an exception
STATUS_DEAD: Final[int]  # an answer made by the runtime: the actor or its process is gone
STATUS_CANCEL: Final[int]  # the caller of `Message.call_id` no longer wants its answer
STATUS_DEATH: Final[int]  # on the process mailbox: a process of this host ended (see `Message.death`)

STACKS_ACTOR: Final[bytes]  # the 16-byte id under which every process tells what its threads are doing
PROCESS_ACTOR: Final[bytes]  # the 16-byte id under which every process serves requests to itself

def build_info() -> dict[str, str]:
    """`version`, `gpu_platform` (cuda, rocm or none), `tensor_engine` ("1" or "0"), `platform` (linux or portable)."""

def new_id() -> bytes:
    """16 random bytes from the kernel."""

def never_wait_for_room() -> None:
    """From now on the calling thread sends without waiting for room: others wait for what it does."""

def bytes_of(buffer: typing_extensions.Buffer) -> bytes:
    """A copy; made without the interpreter lock, by several threads, where it is large."""

@final
class Buffer:
    """Received memory, writable and its holder's own. It is given back when the last object in it dies."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Death:
    """Why a process or an actor cannot answer."""

    @property
    def mesh(self) -> bytes: ...  # process mesh, 16 bytes
    @property
    def rank(self) -> int: ...  # rank in that mesh
    @property
    def name(self) -> str: ...  # label of the process mesh
    @property
    def host(self) -> str: ...
    @property
    def pid(self) -> int: ...  # 0 where it never started
    @property
    def kind(self) -> str: ...  # "exit", "signal", "stopped", "killed", "launch", "lost", "actor"
    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def reason(self) -> str: ...  # one sentence for a person
    @property
    def why(self) -> str: ...  # the sentence without who; empty for kinds "exit" and "signal"
    @property
    def tail(self) -> tuple[list[str], str] | None: ...  # last lines on stderr, and the file with all ("": gone)
    @property
    def fell(self) -> list[str]: ...  # labels of the process meshes that were stopped because of it
    @property
    def detail(self) -> bytes: ...  # kind "actor": what `Mailbox.close` was given; else empty

@final
class Message:
    """One received message: a request, or an answer to one. Immutable."""

    @property
    def status(self) -> int: ...
    @property
    def descriptor(
        self,
    ) -> bytes: ...  # what the sender says about the payload; the same object content for all ranks of a cast
    @property
    def payload(self) -> bytes: ...  # the pickle stream
    def take_buffers(self) -> list[Buffer | bytearray]:
        """Out-of-band buffers, writable and the caller's own.

        Shared memory goes to the first caller, later ones get copies; raises `RuntimeError` once it is gone.
        """
    def copy_buffers(self) -> list[bytearray]:
        """Copies of the out-of-band buffers; raises `RuntimeError` where they were taken and are gone."""
    @property
    def rank(self) -> int: ...  # request: position in the view as addressed; answer: position of who answers
    @property
    def sender(self) -> tuple[bytes, int, bytes]: ...  # process mesh, rank, actor
    @property
    def call_id(self) -> bytes | None: ...  # identifies the call, the same in its STATUS_CANCEL; see `reply_to`
    @property
    def expects_reply(self) -> bool: ...
    @property
    def death(self) -> Death | None: ...
    def reply(self, status: int, payload: bytes, buffers: Sequence[typing_extensions.Buffer] | None = None) -> None:
        """Answer. Only the first answer counts; without anybody waiting it does nothing.

        STATUS_DEAD (whose payload is ignored) says that no answer comes, because of what closed the mailbox. A request
        that is dropped unanswered says so by itself.
        """

    def hand_over_reply(self) -> None:
        """Take over the duty to answer: whoever has `call_id` and `rank` answers with `Runtime.reply_to`."""

@final
class Finalizer:
    """A `__del__` that runs no Python code, and so loses no Ctrl-C, unless the `_state` of what dies is `waiting`: then
    it calls `_end_unseen`."""

    def __new__(cls, waiting: int) -> Finalizer: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[[], None]: ...
    def __call__(self, future: object) -> None: ...

@final
class Notifier:
    """Wakes one Python thread or event loop for many events: a descriptor that is readable while tokens wait."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[int]:
        """The tokens queued since the last call; never blocks; makes the descriptor unreadable."""
    def wait(self, timeout: float | None = None) -> list[int]:
        """Block until there are tokens (or `timeout` seconds passed: empty list), then drain."""
    def push(self, token: int) -> None:
        """Queue a token from Python."""

@final
class Ownership:
    """What the actors of one process own, and which of them is told of what: a part of the tree of ownership.

    Meshes, owners and processes are their 16-byte ids; ranks are those of process meshes.
    """

    def __new__(cls, runtime: Runtime) -> Self: ...
    def spawn_procs(self, owner: bytes, mesh: bytes, count: int) -> None: ...
    def spawn_actors(self, owner: bytes, mesh: bytes, procs: bytes, ranks: Sequence[int]) -> None: ...
    def respawn_actors(self, mesh: bytes, procs: bytes, ranks: Sequence[int]) -> int | None:
        """New actors take these places: which life of theirs that is. None where the mesh belongs to nobody here."""
    def forget(self, mesh: bytes) -> None:
        """The mesh was stopped: nobody here is told of it any more."""
    def process_ended(self, death: Death) -> list[tuple[bytes, bytes]]:
        """Who is told of the end of a process, as (owner, mesh of that owner)."""
    def actor_failed(self, mesh: bytes, rank: int, life: int) -> bytes | None:
        """Who is told of the failure of an actor; None where it is old news or nobody's here."""
    def owner_ended(self, owner: bytes) -> None: ...
    def __len__(self) -> int:
        """How many meshes belong to somebody here."""

@final
class News:
    """Failures that wait for one owner, merged by mesh and cause."""

    def __new__(cls) -> Self: ...
    def add(self, mesh: bytes, rank: int, cause: bytes) -> bool:
        """True if it is the first of this mesh and cause, False if it joined others that wait."""
    def take(self) -> tuple[bytes, bytes, list[int]] | None:
        """The oldest: mesh, cause, and the ranks that have come together."""

@final
class Mailbox:
    """Queue of requests for one actor of this process."""

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next message; None when closed, or when `timeout` seconds passed."""
    def drain(self) -> list[Message]:
        """All messages that wait; never blocks."""
    def notify(self, notifier: Notifier, token: int) -> None:
        """From now on push `token` whenever a message arrives in the empty queue (and at once if it is not empty)."""
    @property
    def closed(self) -> bool: ...
    def close(self, kind: str, reason: str, detail: bytes = ...) -> None:
        """End the actor ("actor" or "stopped"): queued requests and later ones are answered with STATUS_DEAD."""

@final
class RdmaMemory:
    """Memory of a Python object, which stays where it is as long as this lives."""

    @staticmethod
    def of(object: typing_extensions.Buffer) -> RdmaMemory:
        """`BufferError` for an object that offers no memory in one piece."""
    @staticmethod
    def at(address: int, size: int, holder: object) -> RdmaMemory:
        """Memory that `holder` keeps valid, for reading and writing."""
    @property
    def size(self) -> int: ...
    @property
    def read_only(self) -> bool: ...

@final
class RdmaHandle:
    """Names registered memory, here or elsewhere."""

    @staticmethod
    def from_bytes(bytes: bytes) -> RdmaHandle: ...
    def to_bytes(self) -> bytes: ...
    @property
    def owner(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def same_host(self) -> bool:
        """Whether its owner runs where the kernel can copy from and to it."""
    def names(self, registration: RdmaRegistration) -> bool: ...
    def drop_remotely(self) -> tuple[str, str] | None:
        """End the registration, from any process that may write to it. The kind and text of an error."""

@final
class RdmaRegistration:
    """Memory of this process that others may use. It is released with this object."""

    def __new__(cls, owner: str, memory: RdmaMemory, read_only: bool) -> Self:
        """`ValueError` for memory without bytes, or for more registrations than there can be."""
    def handle(self, read_only: bool) -> RdmaHandle | None:
        """None once it is released."""
    @property
    def live(self) -> bool: ...
    def release(self) -> None:
        """Nobody gets at the memory any more, and nobody is at it when this returns."""

@final
class RdmaTransfer:
    """Copies that are on their way; they begin as this is made, and small ones are over then."""

    def __new__(
        cls, asked: Sequence[tuple[RdmaHandle, int, RdmaMemory, int, bool]], timeout: float, threads: int
    ) -> Self:
        """Each: a buffer, an offset in it, memory here, how many bytes, and whether they go into the buffer."""
    def replies(self) -> Replies:
        """Ready once all is over."""
    def cancel(self) -> None: ...
    def errors(self) -> list[tuple[int, tuple[str, str]]]:
        """Which copies failed: their number, and the kind and text of the error."""

def rdma_drops_of_others() -> int:
    """How often other processes ended registrations of this one."""

@final
class Replies:
    """The answers to one call, in order of arrival.

    When a target is dead its place is taken by a STATUS_DEAD message. "Ready for `count`" means: `count` answers
    are here, or the call fails fast and a STATUS_DEAD one is among them.
    """

    def __new__(cls, expected: int = 1) -> Self:
        """Made by `Targets`; by hand it stands for an event that Python completes with `complete`."""
    @property
    def expected(self) -> int: ...
    @property
    def arrived(self) -> int: ...
    def message(self, index: int) -> Message: ...
    def ready(self, count: int) -> bool: ...
    def wait(self, count: int, timeout: float | None = None) -> bool:
        """Block until ready for `count`; False when `timeout` seconds passed first."""
    def notify(self, count: int, notifier: Notifier, token: int) -> None:
        """Push `token` once when ready for `count` (at once if it is)."""
    def hold_up(self) -> None:
        """Until `let_go`, the actor of this thread serves nothing but the message that awaits these answers."""
    @staticmethod
    def let_go() -> None: ...
    def cancel(self) -> None:
        """Tell the targets that have not answered (they get STATUS_CANCEL); later answers are dropped."""
    def complete(self) -> None:
        """Only for one made by hand: be ready."""
    def pending(self) -> list[int]:
        """Positions that have not answered."""

@final
class Targets:
    """Members of an actor mesh, in the order of a view: the compiled form of "whom to send to"."""

    def __new__(cls, runtime: Runtime, mesh: bytes, ranks: Sequence[int], actor: bytes) -> Self:
        """`ranks` are those of the root process mesh `mesh`; `actor` is the id of the actor mesh."""
    def __len__(self) -> int: ...
    def call(
        self,
        sender: bytes,
        descriptor: bytes,
        payload: bytes,
        buffers: Sequence[typing_extensions.Buffer] | None = None,
        *,
        fail_fast: bool = True,
    ) -> Replies:
        """Send to all. With `fail_fast` the answer of a dead member makes the call ready at once."""
    def call_at(
        self,
        index: int,
        sender: bytes,
        descriptor: bytes,
        payload: bytes,
        buffers: Sequence[typing_extensions.Buffer] | None = None,
    ) -> Replies:
        """Send to one."""
    def cast(
        self,
        sender: bytes,
        descriptor: bytes,
        payload: bytes,
        buffers: Sequence[typing_extensions.Buffer] | None = None,
    ) -> int:
        """Send to all, wanting no answer. Members in dead processes are skipped; how many."""
    def tell_successors(self, sender: bytes, descriptor: bytes, payload: bytes) -> None:
        """Say this to every process that takes a member's place from now on, before all else; no answer is wanted."""
    def deaths(self) -> list[tuple[int, Death]]:
        """Positions whose process is known to be dead."""

@final
class ClusterKey:
    """A secret that everybody of a cluster has. `OSError` where a file cannot be used, `ValueError` for no key."""

    @staticmethod
    def read(path: str) -> ClusterKey | None:
        """None where there is no such file; `ValueError` where others may read it."""
    @staticmethod
    def create(path: str) -> ClusterKey:
        """A new one in a new file of mode 0600; `OSError` where the file is there."""
    @staticmethod
    def read_or_create(path: str) -> ClusterKey: ...
    @staticmethod
    def read_descriptor(number: int) -> ClusterKey:
        """Read, and close, an inherited descriptor."""

# Words before the program, program ("": the host's), arguments, environment (None removes a variable), whether the
# host's environment is inherited, directory ("": the host's).
_Command = tuple[Sequence[str], str, Sequence[str], Sequence[tuple[str, str | None]], bool, str]

@final
class HostListener:
    """The listening socket of a host's program. One client is served at a time."""

    def __new__(cls, address: str, key: ClusterKey | str | None, insecure: bool = False) -> Self:
        """`key` may be the file that a client will make. `ValueError` where strangers could come in."""
    @property
    def address(self) -> str:
        """Where others find it, with the port that the system chose."""
    @property
    def open_to_strangers(self) -> bool: ...
    def accept(self, timeout: float | None = None) -> HostClient | None:
        """Wait for the next client; None when `timeout` seconds passed first."""
    def serve(
        self,
        client: HostClient,
        name: str,
        keeper: tuple[Sequence[str], Sequence[tuple[str, str]]],
        command: _Command,
        directory: str | None,
        keep: int,
    ) -> HostSession:
        """Begin to serve a client. Processes run `command` where it says nothing else.

        What they print is kept in `directory`, beside the last `keep - 1` runs, or (None) nowhere, and shown by the
        client. `ValueError` for a client that was served before.
        """
    def end(self, session: HostSession) -> bool:
        """End all that the client left; True where the host's program shall end too. The next client may come."""

@final
class HostClient:
    """A client that was let in."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> list[tuple[str, str]]: ...  # what its code has set of the keys that matter to hosts

@final
class HostSession:
    """A client that is served."""

    def wait(self, timeout: float | None = None) -> bool:
        """Until the client is gone or has released the host; False when `timeout` seconds passed first."""

def check_address(address: str) -> None:
    """`ValueError` for a malformed address of a host."""

def knock(address: str, key: ClusterKey | None) -> None:
    """Connect to a host and hang up; `RuntimeError` where it cannot be reached or is not of the cluster."""

@final
class Runtime:
    """The runtime of this process: its links, mailboxes and, in a client, the host's agent. One per process."""

    @staticmethod
    def start_client(
        keeper_command: Sequence[str], keeper_environment: Sequence[tuple[str, str]], host: str, command: _Command
    ) -> Runtime:
        """Become a client: start the keeper (program and arguments, variables beside this process's) and the agent of
        this host. Processes that other hosts' actors start here run `command` where they say nothing else."""
    @staticmethod
    def start_worker(control_fd: int) -> Runtime:
        """Become a worker: take over the control socket and wait for the welcome."""
    @property
    def mesh(self) -> bytes: ...  # id of the process mesh that this process belongs to
    @property
    def rank(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def welcome(self) -> bytes: ...  # worker: what `spawn_procs` was given; client: empty
    @property
    def log_level(self) -> int | None: ...  # worker: the level that its mesh was told to have before it began
    @property
    def process_mailbox(self) -> Mailbox:
        """Requests to this process, STATUS_DEATH notices, and None once the process should end."""
    def mailbox(self, actor: bytes) -> Mailbox:
        """Open the mailbox of a new actor; what was sent to it before is in it already.

        Under the id of an actor that ended, its successor starts with an empty one.
        """
    def messages_between_hosts(self) -> tuple[int, int]:
        """How many frames with messages this client has sent to the attached hosts that are there, and got from any."""
    def backlog(self) -> int:
        """How many bytes of what this process sent have not left it yet."""
    def rule_out(self, actor: bytes, reason: str) -> None:
        """There is no such actor here and none is made any more: who asks it something hears that it was stopped."""
    def spawn_procs(
        self,
        mesh: bytes,
        name: str,
        count: int,
        owner: bytes,
        commands: Sequence[_Command],
        logs: tuple[bool, bool, float, int],
        variant: str,
        welcome: bytes,
        hosts: Sequence[bytes],
    ) -> None:
        """Start `count` processes as process mesh `mesh`, owned by actor `owner` of this process.

        They are spread evenly over `hosts`, in order. One command serves for all, or there is one for each.
        `logs` says of their output: whether it is shown at the client, whether with ranks, after how many seconds of
        waiting for equal lines of other ranks (0: none), and how many last lines a death quotes; where they are
        copies of a template, it should have loaded `variant`. Returns at once; they can be sent to at once. In the
        client raises `OSError`/`RuntimeError` where a limit is in the way; elsewhere, and for a failure to start, calls
        to the members fail with a Death of kind "launch".
        """
    def forget_send_limits(self) -> None:
        """Ask for `send_window_bytes` and `send_hard_limit_bytes` again before they matter."""
    def load_for_workers(self, modules: Sequence[str]) -> None:
        """Have workers that start from now on as copies begin with these modules of this package loaded."""
    def attach_hosts(
        self,
        hosts: Sequence[tuple[bytes, str]],
        key: ClusterKey | None,
        who: tuple[str, str],
        settings: Sequence[tuple[str, str]],
        patience_s: float,
        gateway: str | None,
    ) -> Replies:
        """Client only: attach hosts under new identities, or under those of lost ones, in whose places they are then.
        Each answers with its name, or STATUS_ERROR and why not.

        Where nobody listens yet it is tried for `patience_s` seconds. `who` tells hosts who this is and what its run is
        called, `settings` what its code has set. TCP hosts other than the one at `gateway` are reached by way of that.
        """
    def release_hosts(self, hosts: Sequence[bytes], exit: bool, grace_s: float) -> Replies:
        """Client only: end all processes there, killing those that live after `grace_s` seconds, and with `exit` the
        hosts' programs; one answer when all have."""
    def stop_procs(self, mesh: bytes, reason: str, grace_s: float) -> Replies:
        """Let the processes of `mesh` end, kill those that live after `grace_s` seconds; ready when all are gone."""
    def respawn_procs(self, mesh: bytes, ranks: Sequence[int] | None = None) -> Replies:
        """Put new processes in the places `ranks` (those that live are killed), or of all that are dead.

        Ready for as many answers as there are ranks (1 without) when the new processes run; STATUS_ERROR and why where
        that cannot be. Messages sent from then on go to the new processes; what was sent to the old ones never does.
        """
    def set_up_logs(self, directory: str | None, run: str, keep: int, stdout: int | None, stderr: int | None) -> None:
        """Client, before its first process: keep output in `directory/run`, beside the last `keep - 1` runs, or for no
        longer than it takes to show it; write it to these descriptors, which have to stay open."""
    def change_logs(self, mesh: bytes, shown: bool | None, window_s: float, level: int) -> None:
        """From now on show the output of `mesh` or not (None: as before), with each line after it has waited
        `window_s` seconds for those of other ranks that are equal but for numbers (0: not at all). Processes that are
        respawned have `level` as `log_level`."""
    def flush_logs(self, patience_s: float) -> bool:
        """Show what was written until now. False if the client's streams took nothing for `patience_s` seconds."""
    def kill_for_stop(self, mesh: bytes, rank: int, reason: str) -> None:
        """Kill a process that something could not be stopped in. Who has something else there is told of that."""
    def kill_proc(self, mesh: bytes, rank: int, signal: int) -> None: ...
    def pids(self, mesh: bytes) -> list[int]:
        """Client only: process ids by rank, 0 where not started."""
    def tell_stacks(self, ask: Callable[[], str], signal: int | None) -> int | None:
        """From now on answer requests to STACKS_ACTOR with what `ask` returns, as bytes.

        While the interpreter does not get to it, with what the handler of `signal` appends to the descriptor that this
        returns; without a signal such a request waits.
        """
    def deaths(self, mesh: bytes, ranks: Sequence[int]) -> list[tuple[int, Death]]:
        """Those of the processes that are known here to be dead, by rank. Asks nobody."""
    def reply_to(
        self,
        call_id: bytes,
        rank: int,
        status: int,
        payload: bytes,
        buffers: Sequence[typing_extensions.Buffer] | None = None,
    ) -> None:
        """Answer a call of any process (STATUS_VALUE or STATUS_ERROR) in the name of its target `rank`.

        Only the first answer of a rank counts; without anybody waiting it does nothing. `ValueError` for bytes that
        name no call.
        """
    def shutdown(self, grace_s: float) -> None:
        """End all processes of this host's agent and the keeper; waits for that. Idempotent. Worker: closes links.

        On the main thread it answers signals: after one whose handler raises it kills what lives, and then raises that.
        """
    @property
    def shared_memory(self) -> tuple[int, int]: ...  # bytes of this process's slabs; how many of their slots are lent
    @property
    def closed(self) -> bool: ...

@final
class Birth:
    """What a copy of a keeper or of a template has to become: a worker (control socket: 3), or a template."""

    @property
    def is_template(self) -> bool:
        """Whether it has to load its variant and call `run_template(3, ...)`."""
    @property
    def variant(self) -> str: ...  # what it has loaded, or has to load
    @property
    def environment(self) -> list[tuple[str, str]]: ...

def run_keeper(
    socket_fd: int,
    program: str | None = None,
    arguments: Sequence[str] = ...,
    fixed: Sequence[str] = ...,
    fixed_in_variants: Sequence[str] = ...,
    objection: str | None = None,
    load: Callable[[list[str]], None] | None = None,
) -> int | Birth:
    """The whole life of a keeper process; returns its exit status. `load` imports modules, for later copies.

    With `program` a worker that this program shall run as, with `arguments`, is a copy of this process instead, in
    which the call returns, too. Not one whose environment differs in variables that begin with one of `fixed` (or
    those of a variant, since it was loaded), nor any if there is an `objection`.
    """

def exit_process(status: int) -> NoReturn:
    """End this process without taking its interpreter apart; what C libraries do at an exit is done."""

def run_template(socket_fd: int, variant: str, objection: str | None) -> int | Birth:
    """The rest of the life of a template that has loaded `variant`, unless there is an `objection` to copies of it.

    In a copy it returns the worker's birth.
    """

def interpreter_ends() -> None:
    """Last step of a program's exit: threads that wait in the runtime stay there, instead of coming back to an
    interpreter that is being torn down."""
