"""Load processes that send and receive with other projects' clients; `programs` says which there are. They are told the
same plans as `amqp10.load` and give the same reports."""
