"""All keys, each declared once. `docs/configuration.md` shows the same table, and a test compares the two."""

from __future__ import annotations

from ._kinds import Duration, Encoding, EncodingName, Flag, Kind, Number, OneOf, Optional, Text, Transport, Whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Key:
    """One key."""

    __slots__ = ("default", "doc", "for_hosts", "has_effect", "inherited", "kind", "name", "variable")

    def __init__(
        self,
        name: str,
        kind: Kind,
        default: Any,
        variable: str,
        doc: str,
        has_effect: bool = False,
        inherited: bool = True,
        for_hosts: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.variable = variable
        self.doc = doc
        self.has_effect = has_effect  # whether anything here depends on it
        self.inherited = inherited  # whether workers have the value that their parent has set
        self.for_hosts = for_hosts  # whether hosts have the value that the client which attached them has set


_DURATION, _FLAG, _TEXT, _NUMBER = Duration(), Flag(), Text(), Number()
_COUNT, _POSITIVE = Whole(), Whole(1)

# Beginnings of variables.
_H, _HM, _M, _MH, _R = "HYPERACTOR_", "HYPERACTOR_MESH_", "MONARCH_", "MONARCH_HYPERACTOR_", "MONARCH_RDMA_"


def _idle(prefix: str, name: str, kind: Kind, default: Any, doc: str, variable: str = "") -> Key:
    """A key without effect here. Its variable is `prefix` and its name without what `prefix` says already."""
    rest = name.removeprefix({_HM: "mesh_", _R: "rdma_"}.get(prefix, "")).upper()
    return Key(name, kind, default, prefix + (variable or rest), doc)


_LOGS = (
    Key(
        "enable_log_forwarding",
        _FLAG,
        True,
        "HYPERACTOR_MESH_ENABLE_LOG_FORWARDING",
        "Show the output of processes at the client, until `logging_option` says otherwise.",
        has_effect=True,
    ),
    Key(
        "log_fold_window",
        _DURATION,
        "100ms",
        "MONARCH_LOG_FOLD_WINDOW",
        "How long a shown line waits for equal ones of other ranks, until `logging_option` says otherwise.",
        has_effect=True,
    ),
    Key(
        "prefix_with_rank",
        _FLAG,
        True,
        "HYPERACTOR_PREFIX_WITH_RANK",
        "Whether a shown line says which rank it is from.",
        has_effect=True,
    ),
    Key(
        "tail_log_lines",
        _COUNT,
        20,
        "HYPERACTOR_MESH_TAIL_LOG_LINES",
        "How many last lines of its standard error the report of a process's death quotes.",
        has_effect=True,
    ),
    Key(
        "enable_file_capture",
        _FLAG,
        True,
        "HYPERACTOR_MESH_ENABLE_FILE_CAPTURE",
        "Keep the output of processes in files; read when the client starts, or attaches a host.",
        has_effect=True,
        inherited=False,
        for_hosts=True,
    ),
    Key(
        "log_dir",
        _TEXT,
        "",
        "MONARCH_LOG_DIR",
        "Where these files are, instead of `$XDG_STATE_HOME/monarch`; read when the client starts, or attaches a host.",
        has_effect=True,
        inherited=False,
        for_hosts=True,
    ),
    Key(
        "show_progress",
        _FLAG,
        True,
        "MONARCH_SHOW_PROGRESS",
        "Show on a terminal or in a notebook how far a start or a large transfer has come that the program waits for.",
        has_effect=True,
        inherited=False,
    ),
    _idle(_H, "force_file_log", _FLAG, False, "Files are kept for local processes, too."),
    _idle(_H, "read_log_buffer", _COUNT, 100, "Lines that are read at once."),
    _idle(_M, "file_log_level", _TEXT, "", "Level of the runtime's own log.", "FILE_LOG"),
    _idle(_M, "monarch_log_suffix", _TEXT, "", "Suffix of the runtime's own log file.", "LOG_SUFFIX"),
)

_ENDS = (
    Key(
        "stop_grace_period",
        _DURATION,
        "3s",
        "HYPERACTOR_REMOTE_STOP_GRACE_PERIOD",
        "How long a busy actor that is stopped may take for what it is doing before it is interrupted.",
        has_effect=True,
    ),
    Key(
        "cleanup_timeout",
        _DURATION,
        "3s",
        "HYPERACTOR_CLEANUP_TIMEOUT",
        "How long actors may take for `__cleanup__`.",
        has_effect=True,
    ),
    Key(
        "stop_actor_timeout",
        _DURATION,
        "10s",
        "HYPERACTOR_STOP_ACTOR_TIMEOUT",
        "How long an actor that ends waits for the end of what it owns.",
        has_effect=True,
    ),
    Key(
        "process_exit_timeout",
        _DURATION,
        "10s",
        "HYPERACTOR_PROCESS_EXIT_TIMEOUT",
        "How long processes that are stopped may take to end before they are killed.",
        has_effect=True,
    ),
    _idle(_HM, "mesh_terminate_timeout", _DURATION, "10s", "How long one end may take."),
    _idle(_HM, "mesh_terminate_concurrency", _COUNT, 16, "Ends at the same time."),
    _idle(_HM, "mesh_orphan_timeout", Optional(_DURATION), "1m", "Silence of an owner."),
    _idle(_HM, "mesh_bootstrap_enable_pdeathsig", _FLAG, True, "Workers end with their parent."),
    _idle(_HM, "supervision_watchdog_timeout", _DURATION, "2m", "Silence of a controller."),
    _idle(_H, "terminated_snapshot_retention", _COUNT, 100, "Dead actors that can be looked at, for each process."),
    _idle(_H, "forwarder_flush_timeout", _DURATION, "5s", "How long a flush at the end may take."),
)

_STARTS = (
    Key(
        "worker_template",
        OneOf("auto", "torch", "none"),
        "auto",
        "MONARCH_WORKER_TEMPLATE",
        "Start workers as copies of a template with PyTorch if the program has imported it, always, or not at all.",
        has_effect=True,
    ),
    _idle(_HM, "default_transport", Transport(), "unix", "Where new listeners bind."),
    _idle(_HM, "proc_launcher_kind", _TEXT, "", "What starts processes: `native` or `systemd`."),
    _idle(_HM, "use_direct_spawn", _FLAG, False, "Another way to start processes."),
    _idle(_H, "host_spawn_ready_timeout", _DURATION, "30s", "How long a start may take."),
    _idle(_HM, "mesh_attach_config_timeout", _DURATION, "1m", "How long passing settings to a host may take."),
    _idle(_HM, "mesh_proc_spawn_max_idle", _DURATION, "30s", "Longest time without progress while processes start."),
    _idle(_HM, "proc_stop_max_idle", _DURATION, "30s", "Longest time without progress while processes end."),
    _idle(
        _HM,
        "get_proc_state_max_idle",
        _DURATION,
        "1m",
        "Longest time without progress of a state query.",
    ),
    _idle(_HM, "actor_spawn_max_idle", _DURATION, "30s", "Longest time without progress while actors start."),
    _idle(
        _HM,
        "get_actor_state_max_idle",
        _DURATION,
        "30s",
        "Longest time without progress of a state query.",
    ),
)

_MESSAGES = (
    Key(
        "send_window_bytes",
        _POSITIVE,
        64 << 20,
        "MONARCH_SEND_WINDOW_BYTES",
        "How much one process may have sent to another that waits there to be served, before senders wait.",
        has_effect=True,
    ),
    Key(
        "send_hard_limit_bytes",
        _POSITIVE,
        256 << 20,
        "MONARCH_SEND_HARD_LIMIT_BYTES",
        "The same where actors that send to each other would wait for ever; beyond it sends raise.",
        has_effect=True,
    ),
    _idle(_M, "host_silence_timeout", _DURATION, "10s", "After which silence another host counts as lost."),
    _idle(_H, "default_encoding", EncodingName(), Encoding.Multipart, "Encoding of messages."),
    _idle(_H, "codec_max_frame_length", _COUNT, 10 << 30, "Largest message in bytes."),
    _idle(_H, "message_delivery_timeout", _DURATION, "30s", "When an unacknowledged message counts as undeliverable."),
    _idle(
        _H,
        "pending_actor_delivery_timeout",
        _DURATION,
        "30s",
        "How long messages wait for their actor.",
    ),
    _idle(_H, "message_ack_time_interval", _DURATION, "500ms", "Acknowledge at least this often."),
    _idle(_H, "message_ack_every_n_messages", _COUNT, 1000, "Acknowledge after so many messages."),
    _idle(_H, "message_ttl_default", _COUNT, 64, "Most hops of a message."),
    _idle(_H, "message_latency_sampling_rate", _NUMBER, 0.01, "Share of messages whose time is taken."),
    _idle(_H, "enable_dest_actor_reordering_buffer", _FLAG, True, "Order messages of a sender at the receiver."),
    _idle(_H, "sequencer_max_locked_keys", _POSITIVE, 128, "Bound on locks for that."),
    _idle(_H, "split_max_buffer_size", _COUNT, 5, "Answers that are merged at once."),
    _idle(_H, "split_max_buffer_age", _DURATION, "50ms", "How long they wait for that."),
    _idle(_HM, "max_cast_dimension_size", _COUNT, 16, "Dimension that is not split for a cast."),
    _idle(_HM, "max_cast_fanout", _POSITIVE, 16, "Children of a node in a cast."),
    _idle(_H, "channel_reconnect_timeout", _DURATION, "1m", "How long a lost peer is tried."),
    _idle(_H, "channel_net_rx_buffer_full_check_interval", _DURATION, "5s", "How often a full buffer is looked at."),
    _idle(_H, "channel_tcp_keepalive_idle", _DURATION, "1m", "Silence before a connection is probed."),
    _idle(_H, "channel_tcp_congestion", _TEXT, "", "Algorithm against congestion, such as `bbr`."),
    _idle(_H, "server_heartbeat_interval", _DURATION, "1s", "Heartbeat of a listener."),
    _idle(_MH, "small_write_threshold", _COUNT, 256, "Smaller buffers are copied."),
    _idle(_M, "tokio_worker_threads", Optional(_POSITIVE), None, "Threads of the runtime."),
    _idle(_MH, "enable_unawaited_python_task_traceback", _FLAG, False, "Remember where a dropped task was made."),
)

_TENSORS = (
    _idle(_M, "tensor_run_ahead_ops", _POSITIVE, 10_000, "Operations that the program may be ahead."),
    _idle(_M, "tensor_auto_replay", _FLAG, True, "Repeat known sequences of operations by name."),
)

_TELEMETRY = (
    _idle(_H, "process_memory_metric_interval", _DURATION, "5m", "How often memory is measured."),
    _idle("", "enable_otel_tracing", _FLAG, True, "Export logs and spans."),
    _idle("", "enable_otel_metrics", _FLAG, True, "Export metrics."),
    _idle("", "enable_recorder_tracing", _FLAG, True, "Keep the last events in memory."),
    _idle("", "enable_sqlite_tracing", _FLAG, False, "Keep events in an SQLite file."),
    _idle("", "otel_metric_export_interval", _DURATION, "1s", "How often metrics are exported."),
    _idle("", "scuba_log_enter_exit", _FLAG, False, "Log the begin and end of spans."),
    _idle("", "pyspy_bin", _TEXT, "", "Path of py-spy."),
    _idle(_HM, "mesh_admin_addr", _TEXT, "[::]:1729", "Where the administration listens."),
    _idle(_HM, "mesh_admin_max_concurrent_resolves", _COUNT, 2, "Its questions at the same time."),
    _idle(_HM, "mesh_admin_single_host_timeout", _DURATION, "3s", "Its wait for one host."),
    _idle(_HM, "mesh_admin_query_child_timeout", _DURATION, "100ms", "Its wait for a child."),
    _idle(_HM, "mesh_admin_resolve_actor_timeout", _DURATION, "200ms", "Its wait for an actor."),
    _idle(_HM, "mesh_admin_tree_timeout", _DURATION, "10s", "Its wait for the whole tree."),
    _idle(_HM, "mesh_admin_config_dump_bridge_timeout", _DURATION, "5s", "Its wait for settings."),
    _idle(_HM, "mesh_admin_pyspy_timeout", _DURATION, "10s", "Its wait for stacks."),
    _idle(_HM, "mesh_admin_pyspy_bridge_timeout", _DURATION, "13s", "Its server's wait for stacks."),
    _idle(_HM, "mesh_admin_pyspy_client_timeout", _DURATION, "20s", "Its client's wait for stacks."),
    _idle(_HM, "mesh_admin_pyspy_max_profile_duration", _DURATION, "5m", "Longest profile."),
)

_RDMA = (
    _idle(_R, "rdma_max_chunk_size_mb", _COUNT, 64, "Largest piece of a transfer."),
    Key(
        "rdma_allow_tcp_fallback",
        _FLAG,
        True,
        _R + "ALLOW_TCP_FALLBACK",
        "Register and move memory where there is no device, too.",
        has_effect=True,
    ),
    _idle(_R, "rdma_tcp_fallback_parallelism", _COUNT, 1, "Connections for that."),
    _idle(_R, "rdma_disable_ibverbs", _FLAG, False, "Take no device."),
    _idle(_R, "rdma_ibverbs_target", _TEXT, "", "Which device is taken."),
    _idle(_R, "rdma_peer_device_affinity", _TEXT, "", "Which devices go together."),
    _idle(_R, "rdma_qp_init_timeout", _DURATION, "30s", "How long connecting a queue pair may take."),
    _idle(_R, "rdma_qps_per_cq", _COUNT, 64, "Queue pairs of a completion queue."),
    _idle(_R, "rdma_qps_per_peer", _COUNT, 4, "Queue pairs to a peer."),
    _idle(_R, "rdma_cq_poller_per_device", _FLAG, True, "A poller for each device."),
    _idle(_R, "rdma_cq_busy_poll_window", Optional(_DURATION), None, "How long a poller is busy before it sleeps."),
    _idle(_R, "rdma_host_odp", _FLAG, False, "Page host memory on demand."),
    _idle(_R, "rdma_max_nics_per_buffer", Optional(_POSITIVE), None, "Devices that share a buffer."),
    _idle(_R, "rdma_min_stripe_size_kb", _COUNT, 512, "Smallest share of a device."),
    Key(
        "rdma_runtime_worker_threads",
        _COUNT,
        4,
        _R + "RUNTIME_WORKER_THREADS",
        "How many threads a large transfer takes, but no more than there are cores; 0 is as 1.",
        has_effect=True,
    ),
)

KEYS = {key.name: key for key in (*_LOGS, *_ENDS, *_STARTS, *_MESSAGES, *_TENSORS, *_TELEMETRY, *_RDMA)}
