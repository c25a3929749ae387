"""Training plans as SageMaker describes them.

looks        each tick reads the plans of pools, and what others use of them
checks       a configuration names plans that its pools can use
plan_report  plans that the doctor finds unreadable, unusable or about to end
"""
