"""One connection that does two things at once: two senders, or a sender and a receiver, over either protocol."""
