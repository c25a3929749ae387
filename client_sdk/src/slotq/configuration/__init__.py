"""The user's settings.

settings     arguments, environment, config file
bounds       numbers, refused where they are set
config_file  writes the config file
"""
