"""The user's settings.

    settings     arguments, environment, config file
    config_file  writes the config file
"""
