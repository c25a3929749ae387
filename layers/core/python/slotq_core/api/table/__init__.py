"""The table of routes: api, openapi and the tests of rights follow from it.

route        one route: its path and method, what it needs and does, and its description
of_jobs      jobs and groups
of_settings  pools, limits, the configuration, projects and quotas
of_queue     what was used, the whole queue, and the queue itself
"""
