"""Checks of a changed configuration.

references    pools, resources and projects in use that the change would remove
reservations  reservations of unknown projects, and ended ones
subscription  quotas that departments, pools or running jobs contradict
"""
