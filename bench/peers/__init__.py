"""Other brokers to compare with, started or found by `python -m bench.peers`; begin reading there."""
