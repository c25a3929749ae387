"""A queue's configuration as a YAML file.

yaml_file           a YAML file with the line of every value
configuration_file  a configuration in a file, and its faults by line
canonical           a document as YAML text, always the same for the same contents
comparison          the entries in which two documents differ, as people read them
user_limits         a user's limit in a document
schema              the JSON schema of the document, for editors
"""
