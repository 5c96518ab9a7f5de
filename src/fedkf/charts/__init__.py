"""Charts as data, and the two ways of drawing them: in files and in a browser."""
