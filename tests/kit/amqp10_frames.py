"""Hypothesis strategies for what frames and messages consist of: performatives, termini, states, sections."""

from hypothesis import strategies as st

from amqp10.wire.messaging import (
    EXPIRY_POLICIES,
    Accepted,
    Coordinator,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from amqp10.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from amqp10.wire.sections import Header, Properties
from amqp10.wire.types import Described, ULong
from tests.kit.amqp10_values import fields, names, symbols, texts, uints, ulongs, values

maybe_uint = st.none() | uints
maybe_name = st.none() | names
maybe_text = st.none() | texts
maybe_fields = st.none() | fields
milliseconds = st.none() | st.integers(-(2**63), 2**63 - 1)

errors = st.builds(Error, condition=names, description=maybe_text, info=maybe_fields)
outcomes = st.one_of(
    st.builds(Accepted),
    st.builds(Released),
    st.builds(Rejected, error=st.none() | errors),
    st.builds(
        Modified,
        delivery_failed=st.booleans(),
        undeliverable_here=st.booleans(),
        message_annotations=maybe_fields,
    ),
    st.builds(Described, st.integers(0x33, 0x35).map(ULong), st.lists(values, max_size=2)),
)
states = outcomes | st.builds(Received, section_number=uints, section_offset=ulongs)

_terminus = {
    "address": values,
    "durable": st.integers(0, 2),
    "expiry_policy": st.sampled_from(EXPIRY_POLICIES),
    "timeout": uints,
    "dynamic": st.booleans(),
    "dynamic_node_properties": maybe_fields,
    "capabilities": symbols,
}
sources = st.builds(
    Source,
    **_terminus,
    distribution_mode=maybe_name,
    filter=maybe_fields,
    default_outcome=st.none() | outcomes,
    outcomes=symbols,
)
targets = st.builds(Target, **_terminus) | st.builds(Coordinator, capabilities=symbols)

_extensions = {"offered_capabilities": symbols, "desired_capabilities": symbols, "properties": maybe_fields}

PERFORMATIVES = {
    Open: st.builds(
        Open,
        container_id=texts,
        hostname=maybe_text,
        max_frame_size=uints,
        channel_max=st.integers(0, 65535),
        idle_time_out=maybe_uint,
        outgoing_locales=symbols,
        incoming_locales=symbols,
        **_extensions,
    ),
    Begin: st.builds(
        Begin,
        remote_channel=st.none() | st.integers(0, 65535),
        next_outgoing_id=uints,
        incoming_window=uints,
        outgoing_window=uints,
        handle_max=uints,
        **_extensions,
    ),
    Attach: st.builds(
        Attach,
        name=texts,
        handle=uints,
        role=st.booleans(),
        snd_settle_mode=st.integers(0, 2),
        rcv_settle_mode=st.integers(0, 1),
        source=st.none() | sources,
        target=st.none() | targets,
        unsettled=st.none() | st.dictionaries(st.binary(max_size=32), st.none() | states, max_size=3),
        incomplete_unsettled=st.booleans(),
        initial_delivery_count=maybe_uint,
        max_message_size=st.none() | ulongs,
        **_extensions,
    ),
    Flow: st.builds(
        Flow,
        next_incoming_id=maybe_uint,
        incoming_window=uints,
        next_outgoing_id=uints,
        outgoing_window=uints,
        handle=maybe_uint,
        delivery_count=maybe_uint,
        link_credit=maybe_uint,
        available=maybe_uint,
        drain=st.booleans(),
        echo=st.booleans(),
        properties=maybe_fields,
    ),
    Transfer: st.builds(
        Transfer,
        handle=uints,
        delivery_id=maybe_uint,
        delivery_tag=st.none() | st.binary(max_size=32),
        message_format=maybe_uint,
        settled=st.none() | st.booleans(),
        more=st.booleans(),
        rcv_settle_mode=st.none() | st.integers(0, 1),
        state=st.none() | states,
        resume=st.booleans(),
        aborted=st.booleans(),
        batchable=st.booleans(),
    ),
    Disposition: st.builds(
        Disposition,
        role=st.booleans(),
        first=uints,
        last=maybe_uint,
        settled=st.booleans(),
        state=st.none() | states,
        batchable=st.booleans(),
    ),
    Detach: st.builds(Detach, handle=uints, closed=st.booleans(), error=st.none() | errors),
    End: st.builds(End, error=st.none() | errors),
    Close: st.builds(Close, error=st.none() | errors),
}
performatives = st.one_of(*PERFORMATIVES.values())

headers = st.builds(
    Header,
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl=maybe_uint,
    first_acquirer=st.booleans(),
    delivery_count=uints,
)
message_ids = st.one_of(st.none(), ulongs.map(ULong), st.uuids(), st.binary(max_size=9), texts)
properties = st.builds(
    Properties,
    message_id=message_ids,
    user_id=st.none() | st.binary(max_size=9),
    to=maybe_text,
    subject=maybe_text,
    reply_to=maybe_text,
    correlation_id=message_ids,
    content_type=maybe_name,
    content_encoding=maybe_name,
    absolute_expiry_time=milliseconds,
    creation_time=milliseconds,
    group_id=maybe_text,
    group_sequence=maybe_uint,
    reply_to_group_id=maybe_text,
)
