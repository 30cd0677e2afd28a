"""The table of loads beside a peer, made by `python -m bench.table`; begin reading there."""
