"""What starts Spark, reads and writes: the triggered run, the watch, the archive."""
