"""The messages of etcd's API that are used here, as protobuf classes.

The table has them as etcd's public ``rpc.proto`` and ``kv.proto`` (package etcdserverpb, mvccpb; the same in 3.4 to
3.6), without the fields that nothing here reads or sets: protobuf skips those. So no code has to be generated.
"""

from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Message: TypeAlias = Any
"""A message. The classes are made at run time, so their fields are not known to a type checker."""

PACKAGE = "etcdserverpb"
TABLE = """
ResponseHeader: cluster_id=1 uint64, member_id=2 uint64, revision=3 int64, raft_term=4 uint64
KeyValue: key=1 bytes, create_revision=2 int64, mod_revision=3 int64, version=4 int64, value=5 bytes
RangeRequest: key=1 bytes, range_end=2 bytes, limit=3 int64, revision=4 int64, count_only=9 bool
RangeResponse: header=1 ResponseHeader, kvs=2 KeyValue*, more=3 bool, count=4 int64
PutRequest: key=1 bytes, value=2 bytes
PutResponse: header=1 ResponseHeader
DeleteRangeRequest: key=1 bytes, range_end=2 bytes
DeleteRangeResponse: header=1 ResponseHeader, deleted=2 int64
RequestOp: request_range=1 RangeRequest|, request_put=2 PutRequest|, request_delete_range=3 DeleteRangeRequest|
ResponseOp: response_range=1 RangeResponse|, response_put=2 PutResponse|, response_delete_range=3 DeleteRangeResponse|
Compare: result=1 int32, target=2 int32, key=3 bytes, version=4 int64|, mod_revision=6 int64|, value=7 bytes|
TxnRequest: compare=1 Compare*, success=2 RequestOp*, failure=3 RequestOp*
TxnResponse: header=1 ResponseHeader, succeeded=2 bool, responses=3 ResponseOp*
CompactionRequest: revision=1 int64, physical=2 bool
CompactionResponse: header=1 ResponseHeader
StatusRequest:
StatusResponse: version=2 string, dbSize=3 int64, leader=4 uint64, errors=8 string*, dbSizeInUse=9 int64, \
header=1 ResponseHeader
DefragmentRequest:
DefragmentResponse: header=1 ResponseHeader
AlarmRequest: action=1 int32, memberID=2 uint64, alarm=3 int32
AlarmMember: memberID=1 uint64, alarm=2 int32
AlarmResponse: header=1 ResponseHeader, alarms=2 AlarmMember*
Member: ID=1 uint64, name=2 string, peerURLs=3 string*, clientURLs=4 string*, isLearner=5 bool
MemberListRequest: linearizable=1 bool
MemberListResponse: header=1 ResponseHeader, members=2 Member*
MemberAddRequest: peerURLs=1 string*, isLearner=2 bool
MemberAddResponse: header=1 ResponseHeader, member=2 Member
MemberRemoveRequest: ID=1 uint64
MemberRemoveResponse: header=1 ResponseHeader
MemberPromoteRequest: ID=1 uint64
MemberPromoteResponse: header=1 ResponseHeader
"""
"""A field is a name, a number and a type; with ``*`` it is repeated, and those with ``|`` are one oneof."""

EQUAL = 0
VERSION_OF, VALUE_OF = 0, 3
DEACTIVATE, NOSPACE = 2, 1
"""Values of the enumerations CompareResult, CompareTarget, AlarmAction and AlarmType, which are integers on the
wire."""

_TYPES = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("uint64", "int64", "int32", "bytes", "bool", "string")
}


def _field(message: DescriptorProto, text: str) -> None:
    names, kind = text.split()
    name, _, number = names.partition("=")
    field = message.field.add(name=name, number=int(number))
    field.label = FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
    if kind.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="one")
        field.oneof_index = 0
    kind = kind.rstrip("*|")
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"


def _classes() -> dict[str, Message]:
    file = FileDescriptorProto(name="headgate/etcd.proto", package=PACKAGE, syntax="proto3")
    for line in TABLE.strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, fields.strip().split(", ")):
            _field(message, field)
    pool = DescriptorPool()  # one of its own: another package in the process may have etcd's whole API
    pool.Add(file)
    return {one.name: GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{one.name}")) for one in file.message_type}


MESSAGES = _classes()
"""The classes by name."""


def range_of(key: bytes, end: bytes = b"", *, limit: int = 0, count: bool = False, revision: int = 0) -> Message:
    """A request for one key, or for those from ``key`` to before ``end``; with ``count`` only for how many there are.
    ``revision``: that of an earlier answer, for what there was then.

    Etcd copies each value of a range that it has to sort, also if one of them is asked for, and of one whose keys alone
    are asked for. It counts without a look at the values."""
    return MESSAGES["RangeRequest"](key=key, range_end=end, limit=limit, count_only=count, revision=revision)


def reading(*ranges: Message) -> list[Message]:
    """These ranges as operations of a transaction."""
    return [MESSAGES["RequestOp"](request_range=one) for one in ranges]


def putting(key: bytes, value: bytes) -> Message:
    """An operation that puts a key."""
    return MESSAGES["RequestOp"](request_put=MESSAGES["PutRequest"](key=key, value=value))


def deleting(key: bytes, end: bytes = b"") -> Message:
    """An operation that deletes a key, or those from ``key`` to before ``end``."""
    return MESSAGES["RequestOp"](request_delete_range=MESSAGES["DeleteRangeRequest"](key=key, range_end=end))


def is_absent(key: bytes) -> Message:
    """A comparison: there is no such key."""
    return MESSAGES["Compare"](result=EQUAL, target=VERSION_OF, key=key, version=0)


def has_value(key: bytes, value: bytes) -> Message:
    """A comparison: the key has this value."""
    return MESSAGES["Compare"](result=EQUAL, target=VALUE_OF, key=key, value=value)


def transaction(compare: list[Message], success: list[Message], failure: list[Message]) -> Message:
    """The request for a transaction."""
    return MESSAGES["TxnRequest"](compare=compare, success=success, failure=failure)


def found(response: Message) -> list[list[Message]]:
    """What the ranges of a transaction have found, in their order."""
    return [list(one.response_range.kvs) for one in response.responses if one.WhichOneof("one") == "response_range"]
