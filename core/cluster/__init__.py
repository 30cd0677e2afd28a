"""The driver between the log of a group and etcd, and who leads which group.

It imports ``engine.quorum`` and nothing above it. grpc and protobuf are imported by ``etcd.py`` and
``etcd_messages.py`` alone, which a broker without a cluster never loads. Begin reading with ``group_driver.py``, then
``etcd_log.py``.
"""
