"""One HTML page from the tables: message rates, stalls and their reasons, and the bottlenecks."""
