"""The user's settings.

settings     arguments, environment, config file
bounds       numbers, refused where they are set
keywords     functions that take the settings of a TypedDict
config_file  writes the config file
"""
