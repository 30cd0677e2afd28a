"""Operations on the broker as a whole: status, maintenance mode, alarms, the limits of memory and disk space."""

from core.control_plane import BrokerControl
from core.errors import Invalid
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation

ALARM = Parameter("alarm", "The alarm's name: memory or disk.", in_path=True)
WATERMARK = Parameter(
    "watermark",
    "A fraction of the machine's memory, from 0 to 1.0, or ``absolute`` and a size such as 1GB.",
    required=True,
)
FREE_LIMIT = Parameter(
    "free_limit", "A size such as 50MB, or ``mem_relative`` and a factor of the machine's memory.", required=True
)
STATUS = Shape(
    "map",
    (
        AnswerField("product", "text", "Headgate."),
        AnswerField("version", "text", "The version."),
        AnswerField("pid", "number", "The number of the process."),
        AnswerField("listeners", "list", "The addresses on which connections are accepted."),
        AnswerField("descriptors", "map", "File descriptors: limits, and how many are used."),
        AnswerField("refused", "map", "Refused connections by reason."),
        AnswerField("alarms", "list", "Rows of the alarms."),
    ),
)
DRAIN = Shape(
    "map",
    (
        AnswerField("draining", "flag", "Whether the broker is in maintenance mode."),
        AnswerField("since", "number", "When that began, in seconds since 1970; null if it has not."),
        AnswerField("connections", "number", "The number of connections."),
        AnswerField("unsettled", "number", "The messages that consumers hold and have not settled."),
    ),
)
MEMORY = Shape(
    "map",
    (
        AnswerField("watermark", "text", "The watermark, as in the configuration."),
        AnswerField("limit", "number", "The bytes above which publishers wait."),
        AnswerField("used", "number", "The bytes that the broker uses."),
        AnswerField("on", "flag", "Whether the alarm is on."),
        AnswerField("warning", "text", "A reason against this watermark; null if there is none."),
    ),
)
DISK = Shape(
    "map",
    (
        AnswerField("free_limit", "text", "The limit, as in the configuration."),
        AnswerField("limit", "number", "The free bytes below which publishers wait."),
        AnswerField("free", "number", "The free bytes of the data folder."),
        AnswerField("on", "flag", "Whether the alarm is on."),
    ),
)


RELOADED = Shape(
    "map",
    (
        AnswerField("taken", "list", "The changed settings that are in force now."),
        AnswerField("needs_restart", "list", "The changed settings that need a restart of the broker."),
        AnswerField("problems", "list", "What could not be applied, and why."),
    ),
)
TLS = Shape(
    "map",
    (
        AnswerField("certificates", "list", "The certificates in use: names, dates, days left, files."),
        AnswerField("problems", "list", "What should be mended: dates, and files that could not be used."),
    ),
)
CLUSTER = Shape(
    "map",
    (
        AnswerField("name", "text", "The name of the cluster; null if the broker is in none."),
        AnswerField("node", "text", "The name of this node."),
        AnswerField("joined", "flag", "Whether this node has reached etcd since its start."),
        AnswerField(
            "trouble", "text", "Why this node takes no part, or why etcd did not answer last; empty if all is well."
        ),
        AnswerField(
            "engine",
            "map",
            "etcd: its addresses, the one that is asked, requests, those without an answer, and in own the etcd that "
            "this broker has started; null if it starts none.",
        ),
        AnswerField(
            "nodes",
            "list",
            "The nodes: whether they are here, their state (member, joining or leaving), their addresses, the groups "
            "that they lead, and progress, which is null unless a node joins or copies groups: how many groups are "
            "copied, of how many, bytes that have come, seconds, and in waits_for what the node waits for.",
        ),
        AnswerField(
            "groups",
            "list",
            "The groups: leader, members, epoch, last batch, and how many batches each member lags behind.",
        ),
    ),
)


FORCE = Parameter("force", "Also if a group of quorum queues loses its majority.", "flag")
NODE = Parameter("node", "The name of a node.", in_path=True)
ETCD = Parameter(
    "etcd", "HOST:PORT of the etcd that its broker starts, for clients; empty if it starts none.", default=""
)
ETCD_PEER = Parameter("etcd_peer", "HOST:PORT of that etcd for the other members; empty if there is none.", default="")
GONE = Parameter("gone", "The node will not come back: take it off the list although it cannot hand over.", "flag")
FORCE_LEAVING = Parameter("force", "Also if a group has no majority of copies that are up to date then.", "flag")
FORCE_REPLACING = Parameter("force", "Also if that etcd answers.", "flag")
MOVES = Shape("map", (AnswerField("moves", "number", "How many groups get another leader."),))


LIMIT = Parameter("limit", "How many, at most.", "number", default=100, low=1, high=10_000)
LOG = Shape(
    "rows",
    (
        AnswerField("number", "number", "Counts the lines since the start of the broker."),
        AnswerField("time", "text", "When, in UTC."),
        AnswerField("level", "text", "debug, info, warning, error or critical."),
        AnswerField("event", "text", "What happened, by its name in the log."),
        AnswerField("facts", "map", "The other fields of the line."),
    ),
)
AUDIT = Shape(
    "rows",
    (
        AnswerField("number", "number", "Counts the records since the start of the broker."),
        AnswerField("time", "text", "When, in UTC."),
        AnswerField("event", "text", "The kind of event, as in audit.events."),
        AnswerField("action", "text", "What was done."),
        AnswerField("result", "text", "done, refused, put-off or failed."),
        AnswerField("user", "text", "Who did it."),
        AnswerField("peer", "text", "From which address and port."),
    ),
)


@operation("status", "GET", "/status", answer=STATUS, gives={"product": "Headgate"})
def status(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the broker at a glance."""
    return Reply(200, control.status())


@operation("cluster.status", "GET", "/cluster", answer=CLUSTER, gives={"name": None, "joined": False})
def cluster_status(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the cluster as this node sees it: nodes, groups, leaders, lag."""
    return Reply(200, control.cluster_status())


@operation("cluster.rebalance", "PUT", "/cluster/rebalance", answer=MOVES, example={}, gives={"moves": 0})
def rebalance(control: BrokerControl, arguments: Arguments) -> Reply:
    """Have each group of quorum queues led by the node that should lead it: the leaders are spread evenly then."""
    return Reply(200, {"moves": len(control.in_cluster.rebalance()) if control.cluster is not None else 0})


@operation("cluster.join", "PUT", "/cluster/members/{node}", NODE, ETCD, ETCD_PEER, example={"node": "d"})
def join(control: BrokerControl, arguments: Arguments) -> Reply:
    """Take a further node into the cluster. It counts as a member when it has copies of all groups."""
    control.in_cluster.join(arguments.text("node"), arguments.text("etcd"), arguments.text("etcd_peer"))
    return DONE


@operation("cluster.leave", "DELETE", "/cluster/members/{node}", NODE, GONE, FORCE_LEAVING, example={"node": "d"})
def leave(control: BrokerControl, arguments: Arguments) -> Reply:
    """Have a node leave the cluster: it hands over what it leads, and takes itself off the list then."""
    control.in_cluster.leave(arguments.text("node"), is_gone=arguments.flag("gone"), force=arguments.flag("force"))
    return DONE


@operation("cluster.replace-etcd", "PUT", "/cluster/members/{node}/etcd", NODE, FORCE_REPLACING, example={"node": "b"})
def replace_etcd(control: BrokerControl, arguments: Arguments) -> Reply:
    """Have the etcd of a node begin anew, which has lost its data: etcd forgets it, and takes it in again."""
    control.in_cluster.replace_etcd(arguments.text("node"), force=arguments.flag("force"))
    return DONE


@operation("configuration", "GET", "/configuration", answer=Shape("text"), gives="")
def configuration(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the settings in force as a file, without secrets."""
    return Reply(200, control.settings_text())


@operation("config.reload", "PUT", "/configuration", answer=RELOADED, gives={"problems": []})
def reload_configuration(control: BrokerControl, arguments: Arguments) -> Reply:
    """Read the configuration again, apply what can change while the broker runs, and name what needs a restart.

    A configuration with an error changes nothing."""
    reloaded = control.reload()
    if not reloaded.read:
        raise Invalid("nothing was changed: " + "; ".join(reloaded.problems))
    return Reply(
        200,
        {
            "taken": [*reloaded.taken],
            "needs_restart": [*reloaded.needs_restart],
            "problems": [*reloaded.problems],
        },
    )


@operation("drain.status", "GET", "/drain", answer=DRAIN, gives={"draining": False, "since": None})
def draining(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show how far maintenance mode is."""
    return Reply(200, control.draining())


@operation("drain", "PUT", "/drain", FORCE, answer=DRAIN, gives={"draining": True})
def drain(control: BrokerControl, arguments: Arguments) -> Reply:
    """Begin maintenance mode: publishers and consumers stand still, and new connections are refused. A node of a
    cluster hands over the groups that it leads."""
    return Reply(200, control.drain(wanted=True, force=arguments.flag("force")))


@operation("undrain", "DELETE", "/drain", answer=DRAIN, gives={"draining": False})
def undrain(control: BrokerControl, arguments: Arguments) -> Reply:
    """End maintenance mode: the broker serves as usual again."""
    return Reply(200, control.drain(wanted=False))


@operation("alarms.set", "PUT", "/alarms/{alarm}", ALARM, example={"alarm": "memory"})
def set_alarm(control: BrokerControl, arguments: Arguments) -> Reply:
    """Raise an alarm by hand: publishers wait until it is cleared."""
    control.broker.set_alarm(arguments.text("alarm"))
    return DONE


@operation("alarms.clear", "DELETE", "/alarms/{alarm}", ALARM, example={"alarm": "memory"})
def clear_alarm(control: BrokerControl, arguments: Arguments) -> Reply:
    """Clear an alarm that was raised by hand; it stays on while its measured value is beyond the limit."""
    control.broker.clear_alarm(arguments.text("alarm"))
    return DONE


@operation("memory.status", "GET", "/memory", answer=MEMORY, gives={"name": "memory"})
def memory(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the used memory, the watermark, the limit in bytes, and the alarm."""
    return Reply(200, control.measuring.memory())


@operation(
    "memory.set-watermark",
    "PUT",
    "/memory",
    WATERMARK,
    answer=MEMORY,
    example={"watermark": "0.4"},
    gives={"name": "memory"},
)
def set_watermark(control: BrokerControl, arguments: Arguments) -> Reply:
    """Set the memory watermark until the broker is restarted; with 0 all publishers wait."""
    control.measuring.set_memory_watermark(arguments.text("watermark"))
    return Reply(200, control.measuring.memory())


@operation("disk.status", "GET", "/disk", answer=DISK, gives={"name": "disk"})
def disk(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the free disk space of the data folder, its limit, and the alarm."""
    return Reply(200, control.measuring.disk())


@operation(
    "disk.set-free-limit",
    "PUT",
    "/disk",
    FREE_LIMIT,
    answer=DISK,
    example={"free_limit": "50MB"},
    gives={"name": "disk"},
)
def set_free_limit(control: BrokerControl, arguments: Arguments) -> Reply:
    """Set the limit of free disk space until the broker is restarted."""
    control.measuring.set_disk_free_limit(arguments.text("free_limit"))
    return Reply(200, control.measuring.disk())


@operation("tls.status", "GET", "/tls", answer=TLS, gives={"problems": []})
def tls(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the certificates in use, and until when they are valid."""
    return Reply(200, control.serving.certificates.status())


@operation("tls.reload", "PUT", "/tls", answer=TLS, gives={"problems": []})
def reload_tls(control: BrokerControl, arguments: Arguments) -> Reply:
    """Read the files of the certificates again, and use them for new connections; a failure changes nothing."""
    control.serving.certificates.reload()
    return Reply(200, control.serving.certificates.status())


@operation("log.list", "GET", "/log", LIMIT, answer=LOG, example={"limit": 20}, gives=[])
def log(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the last lines of the broker's log, the newest first."""
    return Reply(200, control.recent_log.newest(arguments.number("limit")))


@operation(
    "audit-log.list", "GET", "/audit-log", LIMIT, right=Right.ADMINISTER, answer=AUDIT, example={"limit": 20}, gives=[]
)
def audit_log(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the last records of the audit log since the start of the broker, the newest first; none without
    ``audit.file``."""
    return Reply(200, control.recent_audit.newest(arguments.number("limit")))


OPERATIONS = (
    *(
        status,
        cluster_status,
        rebalance,
        join,
        leave,
        replace_etcd,
        configuration,
        reload_configuration,
        draining,
        drain,
        undrain,
        set_alarm,
        clear_alarm,
    ),
    *(memory, set_watermark, disk, set_free_limit, tls, reload_tls, log, audit_log),
)
