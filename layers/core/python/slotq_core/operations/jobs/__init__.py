"""What people ask about jobs and of jobs.

explanation  the plan that explains why listed jobs wait
"""
