"""What a change of the configuration is refused for.

references    what projects name and a change would remove
subscription  quotas that departments, pools or running jobs contradict
"""
