"""The AWS services around the queue.

aws             S3, DynamoDB, STS, IAM and logs, by moto
moto_dynamodb   makes moto's transactions atomic and quick
stream          the table's stream
gateway         API Gateway
moto_answers    what moto answers, in the asker's protocol
invocations     Lambda: one environment, one invocation at a time
function        the handler that is deployed
lambda_log      where the handler's output goes
sagemaker_http  SageMaker's protocol over the training plane
plane_client    the training plane as a boto3 client
"""
