"""The scenario file.

reading     reads a file
scenario    the file as a world
contents    its sections together
sections    each section and its keys
fields      kinds of values that only scenarios have
checks      what the sections ask of each other
references  names, and what is referred to by name
trace       jobs from a CSV table
"""
