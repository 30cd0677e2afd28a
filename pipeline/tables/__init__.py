"""The tables, as plain functions from data frames to data frames: nothing here reads, writes or starts anything.

Bronze is what the broker said, silver what follows from it, gold the answers. `docs/spark/telemetry.md` lists them.
"""
