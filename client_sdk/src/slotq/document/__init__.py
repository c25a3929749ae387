"""A queue's configuration as a YAML file.

yaml_file           a YAML file with the line of every value
configuration_file  a configuration in a file, and its faults by line
document_text       a document as YAML text, and the entries in which two differ
schema              the JSON schema of the document, for editors
"""
