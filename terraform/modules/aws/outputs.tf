output "load_balancer_dns_name" {
  description = "Where api_hostname and gateway_hostname are to point (CNAME or alias)."
  value       = aws_lb.https.dns_name
}

output "load_balancer_zone_id" {
  description = "Of an alias record in Route 53."
  value       = aws_lb.https.zone_id
}

output "load_balancer_arn" {
  description = "Of the HTTPS load balancer, for a web application firewall."
  value       = aws_lb.https.arn
}

output "api_url" {
  description = "The admin API and the console: MEDLEY_ENDPOINT of the Terraform provider."
  value       = "https://${var.api_hostname}"
}

output "gateway_url" {
  description = "The base URL of OpenAI clients."
  value       = "https://${var.gateway_hostname}/v1"
}

output "node_address" {
  description = "The address by which nodes reach the control plane, at ports 7501 and 7502."
  value       = aws_lb.nodes.dns_name
}

output "database_address" {
  description = "Host name of the database."
  value       = aws_db_instance.this.address
}

output "database_url_secret_arn" {
  description = "The secret with the database's URL."
  value       = aws_secretsmanager_secret.database_url.arn
}

output "first_token_secret_arn" {
  description = "The secret that first_token_command writes the first admin token to."
  value       = aws_secretsmanager_secret.first_token.arn
}

output "first_token_command" {
  description = "Run it once: it makes the first admin token and puts it in the secret, not on the screen."
  value = join(" ", [
    "aws ecs run-task --region ${local.region} --cluster ${aws_ecs_cluster.this.name} --launch-type FARGATE",
    "--task-definition ${aws_ecs_task_definition.this["first-token"].family}",
    "--network-configuration 'awsvpcConfiguration={subnets=[${join(",", var.private_subnet_ids)}],securityGroups=[${aws_security_group.this["api"].id}]}'",
  ])
}

output "launch_role_arn" {
  description = "The role of the reconciler: it prices and launches."
  value       = aws_iam_role.task["reconcile"].arn
}

output "pricing_role_arn" {
  description = "The role of the API: it reads prices, offerings and quotas, and changes nothing."
  value       = aws_iam_role.task["api"].arn
}

output "log_groups" {
  description = "Log group of each process."
  value       = { for name, group in aws_cloudwatch_log_group.this : name => group.name }
}
