"""Load processes that send and receive with other projects' clients; `programs` says which there are. They are told the
same plans as `bench.load` and give the same reports."""
