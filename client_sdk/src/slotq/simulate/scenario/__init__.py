"""The scenario file.

scenario  the file, read, and as a world; jobs from a CSV table
contents  its sections together, and the names in them
sections  each section and its keys
fields    kinds of values that only scenarios have
checks    what the sections ask of each other
"""
