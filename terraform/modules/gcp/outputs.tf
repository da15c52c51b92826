output "load_balancer_address" {
  description = "Where api_hostname and gateway_hostname are to point (A records). The certificate is issued once they do."
  value       = google_compute_global_address.this.address
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
  value       = local.address
}

output "database_address" {
  description = "Private address of the database."
  value       = google_sql_database_instance.this.private_ip_address
}

output "database_url_secret_id" {
  description = "The secret with the database's URL."
  value       = google_secret_manager_secret.this["database-url"].id
}

output "first_token_secret_id" {
  description = "The secret that first_token_command writes the first admin token to."
  value       = google_secret_manager_secret.this["first-token"].id
}

output "first_token_command" {
  description = "Run it once: it makes the first admin token and puts it in the secret, not on the screen."
  value       = "gcloud run jobs execute ${google_cloud_run_v2_job.this["first-token"].name} --project ${var.project_id} --region ${var.region} --wait"
}

output "launch_service_account" {
  description = "The account of the reconciler: it prices and launches."
  value       = google_service_account.this["reconcile"].email
}

output "pricing_service_account" {
  description = "The account of the API: it reads prices and quotas, and changes nothing."
  value       = google_service_account.this["api"].email
}
