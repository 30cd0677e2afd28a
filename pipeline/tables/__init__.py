"""The tables, as plain functions from data frames to data frames: nothing here reads, writes or starts anything.

Every table is by day (``days``). Bronze tables have the broker's records, silver tables are derived from them, gold
tables have the answers.
`docs/spark/telemetry.md` lists them.
"""
