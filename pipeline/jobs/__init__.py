"""The jobs, which start Spark, read and write: the triggered run, the watch, the archive."""
