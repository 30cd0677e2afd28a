"""Flow events that nobody recorded, with known answers: to test the tables with, and to find out how much they bear."""
