"""``python -m amqp10``: the same as the command ``headgate``."""

from amqp10.cli.main import main

if __name__ == "__main__":
    main()
