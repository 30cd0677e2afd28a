"""The processor that pairs records, for PySpark's tester of processors."""

from pipeline.tables.silver import BlockProcessor


class Unwrapped(BlockProcessor):
    """The tester gives ``(key,)`` where Spark gives the key's columns."""

    def handleInputRows(self, key, rows, timerValues):
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)
