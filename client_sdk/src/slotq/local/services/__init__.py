"""The AWS services around the queue.

aws               S3, STS, IAM and logs by moto, and DynamoDB's protocol
dynamodb          DynamoDB in memory
expressions       DynamoDB's expressions
gateway           API Gateway
error_answers     errors and moto's answers, in the protocol of the caller
training_service  SageMaker's training calls on the plane
invocations       Lambda: one environment, one invocation at a time
function          the handler that is deployed, and where its output goes
"""
