"""Worlds for the browser's tests (client_sdk/ui/browser). Each prints one line of JSON when it is
ready, and ends with its standard input.

story      an emulator with jobs as hostile as the API lets them be, behind `slotq ui`
long_line  5,000 waiting jobs behind the page's server
many_attempts  5,000 attempts, with evictions, behind the page's server
"""
