"""The scenario file.

scenario  the file as a world
sections  its sections and their keys
fields    kinds of values
checks    what the sections ask of each other
document  YAML with line numbers
faults    what is wrong, and where
trace     jobs from a CSV table
"""
