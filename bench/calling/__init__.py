"""What ``bench.calls`` measures: services that call and services that answer, each in a process of its own."""
