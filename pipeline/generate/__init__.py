"""Generated flow events with known answers: they test the tables, and measure how many events the tables can
process."""
