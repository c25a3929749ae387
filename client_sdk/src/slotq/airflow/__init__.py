"""The queue in Apache Airflow: `pip install 'slotq[airflow]'` where Airflow's workers run.

Only Airflow imports what is below; `task_job` and `provider_info` need no Airflow.

    operators      `SlotqTrainingOperator`: a training job of the queue as a task
    sensors        `SlotqJobSensor`: waits for a job by its name
    triggers       `SlotqJobTrigger`: the wait of both in Airflow's triggerer
    hooks          `SlotqHook`: the queue by an AWS connection
    task_job       which job belongs to a task, and what the task returns
    provider_info  what Airflow reads about this provider
"""
